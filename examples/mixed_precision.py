"""Mixed precision: autocast, and a scaler that finds its scale. It learns what float32 learns.

python -m torchdevice_cuda examples/mixed_precision.py
"""

import torch
from torch import nn


def train(enabled: bool) -> tuple[list[float], torch.dtype, float]:
    """The losses, the type that the network computes in, and the scale at the end."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24, growth_interval=10, enabled=enabled)
    x = torch.randn(256, 32, device="cuda")
    y = x[:, :8].sin()
    losses, dtype = [], torch.float32
    for _ in range(40):
        with torch.autocast("cuda", dtype=torch.float16, enabled=enabled):
            made = model(x)
            loss = nn.functional.mse_loss(made.float(), y)
        dtype = made.dtype
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # not taken while gradients overflow: the first scale is too large
        scaler.update()
        losses.append(loss.item())
    return losses, dtype, scaler.get_scale()


def main() -> None:
    plain, plain_type, _ = train(False)
    mixed, mixed_type, scale = train(True)
    print(f"{plain_type}: {plain[0]:.4f} to {plain[-1]:.4f}")
    print(f"{mixed_type}: {mixed[0]:.4f} to {mixed[-1]:.4f}, scale {scale:.0f}")
    assert mixed_type is torch.float16
    assert scale < 2.0**24, "no gradient overflowed"
    assert mixed[-1] < 0.8 * mixed[0]
    assert abs(mixed[-1] - plain[-1]) < 0.1


if __name__ == "__main__":
    main()
