"""Run out of memory: activations of a batch that is too large, beside what an earlier stage left behind."""

import torch

MIB = 1 << 20


def embed(tokens: int) -> torch.Tensor:
    return torch.empty(tokens, 1024, device="cuda")


def attend(x: torch.Tensor, heads: int) -> torch.Tensor:
    return torch.empty(heads, len(x), len(x), device="cuda")


cache = [torch.empty(24 * MIB, device="cuda") for _ in range(6)]
kept = cache[::2]
del cache
hidden = embed(65_536)
gradients = torch.zeros_like(hidden)
try:
    for length in (4096, 8192, 16384):
        scores = attend(hidden[:length], heads=2)
except torch.cuda.OutOfMemoryError as error:
    print(str(error).partition(".")[0])
