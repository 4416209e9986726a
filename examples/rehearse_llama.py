"""Does a training step of a language model fit on a GPU, and how long would it take?

    python -m torchdevice_cuda --gpu h200 --rehearse examples/rehearse_llama.py
    python -m torchdevice_cuda plan examples/rehearse_llama.py

The default is a model of 7 billion parameters in bfloat16, with AdamW and checkpointed layers. Created on the GPU (the
device context), it needs no memory of the host. In 32 bits: --type float32 --batch 1.
"""

import argparse
import math
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, *rotation), rotate(k, *rotation)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = x + self.attention(self.before(x), rotation)
        y = self.after(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, words: int, width: int, heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.size = width // heads
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        position = torch.arange(tokens.shape[1], device=tokens.device)
        speed = torch.exp(torch.arange(0, self.size, 2, device=tokens.device) * (-math.log(10000.0) / self.size))
        angle = torch.outer(position, speed).repeat(1, 2)
        x = self.embedding(tokens)
        rotation = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for block in self.blocks:
            x = checkpoint(block, x, rotation, use_reentrant=False)
        return self.head(self.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=11008)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--type", choices=("bfloat16", "float32"), default="bfloat16")
    given = parser.parse_args()

    torch.set_default_dtype(getattr(torch, given.type))
    with torch.device("cuda"):
        model = Model(given.words, given.width, given.heads, given.hidden, given.layers)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count / 1e9:.2f} billion parameters on {torch.cuda.get_device_name()}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(given.steps):
        tokens = torch.randint(given.words, (given.batch, given.length + 1), device="cuda")
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began = time.perf_counter()
        start.record()
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        here = time.perf_counter() - began
        print(f"step {step}: {start.elapsed_time(end):.0f} ms on the GPU, {here:.1f} s here", flush=True)
    print(f"peak memory {torch.cuda.max_memory_allocated() / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
