"""Draw the numbers that a GPU draws from this seed: those below were printed by an NVIDIA H200.

python -m torchdevice_cuda --driver virtual examples/same_seed.py
"""

import torch


def main() -> None:
    torch.manual_seed(42)
    uniform, normal = torch.rand(3, device="cuda"), torch.randn(3, device="cuda")
    whole = torch.randint(9, (3,), device="cuda")
    print(uniform, normal, whole, sep="\n")
    assert [f"{value:.4f}" for value in uniform.tolist()] == ["0.6130", "0.0101", "0.3984"]
    assert [f"{value:.4f}" for value in normal.tolist()] == ["0.1391", "-0.1082", "-0.7174"]
    assert whole.tolist() == [4, 0, 6]
    # A state is a seed and an offset: what was drawn can be drawn again.
    state = torch.cuda.get_rng_state()
    first = torch.nn.functional.dropout(torch.ones(8, device="cuda"), 0.5)
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.nn.functional.dropout(torch.ones(8, device="cuda"), 0.5))
    print(first)


if __name__ == "__main__":
    main()
