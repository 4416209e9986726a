import torch


def wave(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2 + x


x = torch.randn(100, device="cuda")
for mode in ("default", "reduce-overhead", "max-autotune"):
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(wave, mode=mode)(x), wave(x))
print("done")
