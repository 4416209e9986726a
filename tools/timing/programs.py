"""Training steps whose times were published, for `python tools/timing published`: `programs.py NAME` prints JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

BF16 = torch.bfloat16


def measure(step: Callable[[], None], warm: int = 2) -> dict[str, float]:
    """Return the milliseconds of a step on the GPU's clock, without waiting for the host, and its peak in GiB."""
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(int(600 * 1.5e9))
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return {"ms": start.elapsed_time(end), "peak": torch.cuda.max_memory_reserved() / 2**30}


# ---- ResNet-50 -----------------------------------------------------------------------------------------------------
class Bottleneck(nn.Module):
    """A block of ResNet-50 v1.5, whose stride is in the 3x3 convolution."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width

        def conv(a: int, b: int, size: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b))

        self.layers = nn.Sequential(
            *conv(channels, width, 1), nn.ReLU(True), *conv(width, width, 3, stride), nn.ReLU(True),
            *conv(width, out, 1),
        )  # fmt: skip
        self.short = conv(channels, out, 1, stride) if stride > 1 or channels != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.layers(x) + self.short(x), True)


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for i, count in enumerate((3, 4, 6, 3)):
        for j in range(count):
            layers.append(Bottleneck(channels, 64 << i, 2 if i and not j else 1))
            channels = 256 << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def train_images(batch: int, is_mixed: bool) -> dict[str, float]:
    torch.backends.cuda.matmul.allow_tf32 = True
    layout = torch.channels_last if is_mixed else torch.contiguous_format
    with torch.device("cuda"):
        model = resnet50().to(memory_format=layout)
        images = torch.randn(batch, 3, 224, 224).to(memory_format=layout)
        labels = torch.randint(1000, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=is_mixed)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16, is_mixed):
            loss = functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return measure(step)


def infer_images(batch: int, is_mixed: bool) -> dict[str, float]:
    layout = torch.channels_last if is_mixed else torch.contiguous_format
    with torch.device("cuda"):
        model = resnet50().to(memory_format=layout).eval()
        images = torch.randn(batch, 3, 224, 224).to(memory_format=layout)

    def step() -> None:
        with torch.no_grad(), torch.autocast("cuda", torch.float16, is_mixed):
            model(images)

    return measure(step)


# ---- language models -----------------------------------------------------------------------------------------------
class Block(nn.Module):
    """A decoder's layer: GPT's with `hidden` of one product, Llama's with two and fewer heads of keys."""

    def __init__(self, width: int, heads: int, keys: int, hidden: int, is_llama: bool, is_fused: bool) -> None:
        super().__init__()
        norm = nn.RMSNorm if is_llama else nn.LayerNorm
        self.heads, self.keys, self.size, self.is_fused = heads, keys, width // heads, is_fused
        self.before, self.after = norm(width), norm(width)
        self.q = nn.Linear(width, width, bias=not is_llama)
        self.kv = nn.Linear(width, 2 * keys * self.size, bias=not is_llama)
        self.out = nn.Linear(width, width, bias=not is_llama)
        self.gate = nn.Linear(width, hidden, bias=False) if is_llama else None
        self.up = nn.Linear(width, hidden, bias=not is_llama)
        self.down = nn.Linear(hidden, width, bias=not is_llama)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        y = self.before(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2, self.keys, self.size).permute(2, 0, 3, 1, 4)
        if self.keys < self.heads:
            k, v = (t.repeat_interleave(self.heads // self.keys, 1, output_size=self.heads) for t in (k, v))
        if self.gate is not None:
            q, k = q * 1.0 + q * 1.0, k * 1.0 + k * 1.0  # as much memory as rotary embeddings move
        if self.is_fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * self.size**-0.5
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            mixed = functional.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.after(x)
        hidden = (
            functional.gelu(self.up(y), approximate="tanh")
            if self.gate is None
            else functional.silu(self.gate(y)) * self.up(y)
        )
        return x + self.down(hidden)


class Model(nn.Module):
    """Embedding, layers that `run` calls, and the head."""

    def __init__(self, layers: int, words: int, width: int, *block: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, *block) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        self.run: Callable[..., Tensor] = lambda block, x: block(x)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = self.run(block, x)
        return self.head(x)


def train_words(
    model: nn.Module, batch: int, length: int, words: int, mixed: torch.dtype | None = None
) -> dict[str, float]:
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(words, (batch, length), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", mixed, mixed is not None):
            logits = model(tokens)
        functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
        optimizer.step()

    return measure(step)


def gpt2(is_tf32: bool, mixed: torch.dtype | None) -> dict[str, float]:
    torch.backends.cuda.matmul.allow_tf32 = is_tf32
    with torch.device("cuda"):
        model = Model(12, 50257, 768, 12, 12, 3072, False, False)
    return train_words(model, 16, 1024, 50257, mixed)


def _save_some(context: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    """Keep attention and every second product, as torchtitan does."""
    kept = op in (
        torch.ops.aten._scaled_dot_product_cudnn_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
    )
    if op == torch.ops.aten.mm.default:
        _save_some.count += 1  # type: ignore[attr-defined]
        kept = _save_some.count % 2 == 1  # type: ignore[attr-defined]
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


_save_some.count = 0  # type: ignore[attr-defined]


def shard(model: Model, is_selective: bool, reduced: torch.dtype) -> Model:
    """Shard over all ranks with FSDP2, and recompute layers, all of them or some of their operators."""
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    policy = MixedPrecisionPolicy(BF16, reduced)
    more = {"context_fn": lambda: create_selective_checkpoint_contexts(_save_some)} if is_selective else {}
    model.run = lambda block, x: checkpoint(block, x, use_reentrant=False, **more)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model.to_empty(device="cuda")  # type: ignore[return-value]


def llama3_8b() -> dict[str, float]:
    with torch.device("meta"):
        model = Model(32, 128256, 4096, 32, 8, 14336, True, True)
    return train_words(shard(model, True, torch.float32), 2, 8192, 128256)


def gpt_175b(batch: int) -> dict[str, float]:
    with torch.device("meta"):
        model = Model(96, 50257, 12288, 96, 96, 49152, False, True)
    return train_words(shard(model, False, BF16), batch, 2048, 50257)


PROGRAMS: dict[str, Callable[[], dict[str, float]]] = {
    "resnet50 tf32 256": lambda: train_images(256, False),
    "resnet50 fp32 112": lambda: train_images(112, False),
    "resnet50 amp 256": lambda: train_images(256, True),
    "resnet50 amp 512": lambda: train_images(512, True),
    "resnet50 inference amp 512": lambda: infer_images(512, True),
    "resnet50 inference fp32 64": lambda: infer_images(64, False),
    "resnet50 inference amp 64": lambda: infer_images(64, True),
    "gpt2 fp32": lambda: gpt2(False, None),
    "gpt2 tf32": lambda: gpt2(True, None),
    "gpt2 bf16": lambda: gpt2(True, BF16),
    "llama3 8b": llama3_8b,
    "gpt 175b 1": lambda: gpt_175b(1),
    "gpt 175b 2": lambda: gpt_175b(2),
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
