"""Random numbers: each expression twice after one seed, each time followed by the generator's offset.

Of a tensor the CRC-32 of its bytes and its elements, of more than 40 the first, middle and last 8.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

RECORD = "draws-h200.json"
SEED = 20260511123
#: A GPU's approximate functions are in these; all others are compared bit by bit.
ROUNDED = ("randn", "normal", "exponential", "gumbel", "orthogonal", "Embedding", "Gamma", "Dirichlet", "attention")
CLOSE = 4e-6
NAMES = {"torch": torch, "nn": nn, "F": functional}
EXPRESSIONS = (
    """
torch.rand(1, device="cuda")
torch.rand(5, device="cuda")
torch.rand(257, device="cuda")
torch.rand(1000, device="cuda")
torch.rand(100000, device="cuda")
torch.rand(1 << 20, device="cuda")
torch.rand(7, 9, device="cuda").t().contiguous()
torch.rand(17, device="cuda", dtype=torch.float64)
torch.rand(19, device="cuda", dtype=torch.float16)
torch.rand(19, device="cuda", dtype=torch.bfloat16)
torch.randn(1, device="cuda")
torch.randn(5, device="cuda")
torch.randn(1 << 21, device="cuda")
torch.randn(17, device="cuda", dtype=torch.float64)
torch.randn(19, device="cuda", dtype=torch.bfloat16)
torch.randn(9, device="cuda", dtype=torch.complex64)
torch.normal(torch.arange(6.0, device="cuda"), torch.arange(1.0, 7.0, device="cuda"))
torch.randint(0, 10, (20,), device="cuda")
torch.randint(0, 50257, (4, 64), device="cuda")
torch.empty(12, device="cuda", dtype=torch.int64).random_()
torch.empty(12, device="cuda", dtype=torch.int32).random_()
torch.empty(12, device="cuda").random_(100)
torch.empty(20, device="cuda").uniform_(-2, 5)
torch.empty(20, device="cuda").exponential_(2.0)
torch.empty(20, device="cuda").log_normal_(0.1, 0.7)
torch.empty(20, device="cuda").geometric_(0.3)
torch.empty(20, device="cuda").bernoulli_(0.3)
torch.bernoulli(torch.linspace(0, 1, 20, device="cuda"))
torch.bernoulli(torch.full((100001,), 0.25, device="cuda"))
torch.randn_like(torch.empty(3, 5, device="cuda").t())
torch.randperm(1, device="cuda")
torch.randperm(1000, device="cuda")
torch.randperm(29999, device="cuda")
torch.randperm(100, device="cuda", dtype=torch.int32)
torch.multinomial(torch.tensor([0.1, 0.2, 0.3, 0.4], device="cuda"), 1)
torch.multinomial(torch.tensor([0.1, 0.2, 0.3, 0.4], device="cuda"), 10, replacement=True)
torch.multinomial(torch.softmax(torch.linspace(-2, 2, 50257, device="cuda"), 0).expand(4, -1), 1)
F.dropout(torch.ones(20, device="cuda"), 0.5)
F.dropout(torch.ones(1000, device="cuda"), 0.1)
F.dropout(torch.ones(37, 5, device="cuda").t(), 0.3)
F.dropout(torch.ones(20, device="cuda", dtype=torch.float16), 0.5)
F.alpha_dropout(torch.ones(20, device="cuda"), 0.5, training=True)
F.feature_alpha_dropout(torch.ones(4, 8, 3, device="cuda"), 0.5, training=True)
F.gumbel_softmax(torch.zeros(3, 7, device="cuda"))
nn.Linear(7, 5, device="cuda").weight
nn.Embedding(11, 6, device="cuda").weight
nn.LSTM(4, 3, device="cuda").weight_ih_l0
nn.init.orthogonal_(torch.empty(6, 6, device="cuda")).abs()
nn.init.kaiming_normal_(torch.empty(64, 32, device="cuda"))
torch.distributions.Categorical(logits=torch.zeros(6, device="cuda")).sample((9,))
torch.distributions.Gamma(torch.tensor([0.5, 1.0, 3.0, 20.0], device="cuda"), 1.0).sample()
torch.distributions.Dirichlet(torch.ones(4, device="cuda")).sample()
torch.distributions.Poisson(torch.tensor([0.5, 3.0, 30.0], device="cuda")).sample((5,))
torch.binomial(torch.full((20,), 12.0, device="cuda"), torch.full((20,), 0.3, device="cuda"))
F.scaled_dot_product_attention(*[torch.ones(1, 2, 4, 8, device="cuda")] * 3, dropout_p=0.5)
torch.rand(5, device="cuda", generator=torch.Generator("cuda").manual_seed(7))
""".strip().splitlines()
    + [
        '[torch.rand(3, device="cuda"), torch.randn(3, device="cuda"), torch.randint(9, (3,), device="cuda"), '
        'torch.rand(3, device="cuda")]'
    ]
)


def _flatten(drawn: Any) -> Iterator[torch.Tensor]:
    for one in drawn if isinstance(drawn, (list, tuple)) else [drawn]:
        yield one.detach().cpu().contiguous().flatten()


def summarize(tensor: torch.Tensor) -> dict[str, Any]:
    """Describe a tensor on the CPU."""
    real = tensor.real if tensor.is_complex() else tensor
    count = len(real)
    shown = real if count <= 40 else torch.cat([real[:8], real[count // 2 : count // 2 + 8], real[-8:]])
    values = [float(f"{value:.9g}") for value in shown.double().tolist()]
    return {"crc": zlib.crc32(bytes(tensor.view(torch.uint8).tolist())), "values": values}


def draw(expression: str, generator: torch.Generator | None = None) -> list[Any]:
    """Evaluate an expression twice, with the offset of the GPU's generator after each."""
    if generator is None:
        torch.cuda.init()
        generator = torch.cuda.default_generators[0]
    generator.manual_seed(SEED)
    found: list[Any] = []
    for _ in range(2):
        found += [[summarize(tensor) for tensor in _flatten(eval(expression, NAMES))], generator.get_offset()]
    return found


def find_difference(there: list[Any], here: list[Any], case: Any) -> str | None:
    """Compare bit by bit, or nearly where a GPU's functions are approximate."""
    if there[1::2] != here[1::2]:
        return "another offset"
    for one, other in zip(there[::2], here[::2], strict=True):
        for a, b in zip(one, other, strict=True):
            if a["crc"] != b["crc"] and not any(word in case.name for word in ROUNDED):
                return "other bits"
            pairs = zip(a["values"], b["values"], strict=True)
            if not all(math.isclose(x, y, rel_tol=CLOSE, abs_tol=CLOSE) for x, y in pairs):
                return "other numbers"
    return None


def list_cases() -> dict[str, Callable[[], Any]]:
    return {expression: partial(draw, expression) for expression in EXPRESSIONS}
