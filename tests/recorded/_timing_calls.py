"""The calls that `timing.py` times: operators by their names and arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Call = Callable[[], Any]
TYPES = {
    "f32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i64": torch.int64,
}


def draw(kind: str, *shape: int) -> torch.Tensor:
    """Return random elements of a type; integers are below 100."""
    if kind == "i64":
        return torch.randint(0, 100, shape, device="cuda")
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(TYPES[kind])


POINTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "mul_": lambda x, y: x.mul_(y),
    "add scalar": lambda x, y: x + 1,
    "copy_": lambda x, y: x.copy_(y),
    "fill_": lambda x, y: x.fill_(1),
    "gelu": lambda x, y: functional.gelu(x),
    "relu": lambda x, y: x.relu(),
    "silu": lambda x, y: functional.silu(x),
    "exp": lambda x, y: x.exp(),
    "sin": lambda x, y: x.sin(),
    "tanh": lambda x, y: x.tanh(),
    "div": lambda x, y: x / y,
    "pow2": lambda x, y: x.pow(2),
    "pow": lambda x, y: x.pow(1.7),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "gt": lambda x, y: x > y,
    "clamp": lambda x, y: x.clamp(-1, 1),
    "dropout": lambda x, y: functional.dropout(x, 0.1),
    "to bf16": lambda x, y: x.bfloat16(),
    "to f64": lambda x, y: x.double(),
    "cat": lambda x, y: torch.cat([x, y]),
    "randn_like": lambda x, y: torch.randn_like(x),
    "rand_like": lambda x, y: torch.rand_like(x),
    "sum": lambda x, y: x.sum(),
    "max": lambda x, y: x.max(),
    "norm": lambda x, y: x.norm(),
    "any": lambda x, y: (x > 9).any(),
    "cumsum": lambda x, y: x.cumsum(0),
    "sort": lambda x, y: x.sort(),
    "nonzero": lambda x, y: (x > 0).nonzero(),
    "flip": lambda x, y: x.flip(0),
}
ROWS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, w, i: x.softmax(-1),
    "log_softmax": lambda x, w, i: x.log_softmax(-1),
    "softmax dim0": lambda x, w, i: x.softmax(0),
    "layer_norm": lambda x, w, i: functional.layer_norm(x, x.shape[-1:], w, w),
    "rms_norm": lambda x, w, i: functional.rms_norm(x, x.shape[-1:], w),
    "batch_norm": lambda x, w, i: functional.batch_norm(x, None, None, w, w, training=True),
    "sum dim1": lambda x, w, i: x.sum(1),
    "sum dim0": lambda x, w, i: x.sum(0),
    "mean dim1": lambda x, w, i: x.mean(1),
    "var dim1": lambda x, w, i: x.var(1),
    "max dim1": lambda x, w, i: x.max(1),
    "argmax dim1": lambda x, w, i: x.argmax(1),
    "logsumexp": lambda x, w, i: x.logsumexp(1),
    "cumsum dim1": lambda x, w, i: x.cumsum(1),
    "bias": lambda x, w, i: x + w,
    "column": lambda x, w, i: x * x[:, :1],
    "transpose copy": lambda x, w, i: x.t().contiguous(),
    "index_select": lambda x, w, i: x.index_select(0, i),
    "index": lambda x, w, i: x[i],
    "gather": lambda x, w, i: x.gather(0, i[:, None].expand_as(x)),
    "scatter_add": lambda x, w, i: torch.zeros_like(x).scatter_add_(0, i[:, None].expand_as(x), x),
    "index_add": lambda x, w, i: torch.zeros_like(x).index_add_(0, i, x),
    "topk50": lambda x, w, i: x.topk(50),
    "sort rows": lambda x, w, i: x.sort(-1),
    "cross_entropy": lambda x, w, i: functional.cross_entropy(x, i % x.shape[1]),
    "tril": lambda x, w, i: x.tril(),
    "embedding": lambda x, w, i: functional.embedding(i, x),
}


def make_backward(x: torch.Tensor, forward: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """Return the call that computes the gradient of a function that has run."""
    x.requires_grad_()
    y = forward(x)
    return partial(torch.autograd.grad, y, x, torch.ones_like(y), retain_graph=True)


def make_pointwise(name: str, kind: str, n: str) -> Call:
    operator, backward = POINTWISE[name.removesuffix(" backward")], name.endswith(" backward")
    x, y = draw(kind, int(n)), draw(kind, int(n))
    return make_backward(x, lambda x: operator(x, y)) if backward else partial(operator, x, y)


def make_rows(name: str, kind: str, shape: str) -> Call:
    operator, backward = ROWS[name.removesuffix(" backward")], name.endswith(" backward")
    m, n = map(int, shape.split("x"))
    x, weight, index = draw(kind, m, n), draw(kind, n), torch.randint(0, m, (m,), device="cuda")
    return make_backward(x, lambda x: operator(x, weight, index)) if backward else partial(operator, x, weight, index)


def make_product(name: str, kind: str, shape: str) -> Call:
    sizes = [int(s) for s in shape.split("x")]
    if name == "bmm":
        b, m, k, n = sizes
        return partial(torch.bmm, draw(kind, b, m, k), draw(kind, b, k, n))
    m, k, n = sizes
    x = draw(kind, m, k)
    if name == "linear":
        return partial(functional.linear, x, draw(kind, n, k), draw(kind, n))
    if name == "mm tn":
        return partial(torch.mm, draw(kind, k, m).t(), draw(kind, k, n))
    return partial(torch.mm, x, draw(kind, k, n))


def make_convolution(name: str, kind: str, shape: str) -> Call:
    """Make `BxCxHW -> CO kK sS gG [nhwc]`."""
    given, _, rest = shape.partition(" -> ")
    out, *words = rest.split()
    b, c, hw = map(int, given.split("x"))
    k, s, g = (int(w[1:]) for w in words[:3])
    layout = torch.channels_last if "nhwc" in words else torch.contiguous_format
    x = draw(kind, b, c, hw, hw).to(memory_format=layout)
    weight = draw(kind, int(out), c // g, k, k).to(memory_format=layout)
    if name == "conv":
        return partial(functional.conv2d, x, weight, None, s, k // 2, 1, g)
    x.requires_grad_()
    weight.requires_grad_()
    y = functional.conv2d(x, weight, None, s, k // 2, 1, g)
    return partial(torch.autograd.grad, y, (x, weight), torch.ones_like(y), retain_graph=True)


def make_attention(name: str, kind: str, shape: str) -> Call:
    """Make `BxHxSxE [causal]`."""
    sizes, *causal = shape.split()
    q, k, v = (draw(kind, *map(int, sizes.split("x"))) for _ in range(3))
    forward = partial(functional.scaled_dot_product_attention, is_causal=bool(causal))
    if name == "sdpa":
        return partial(forward, q, k, v)
    for each in (q, k, v):
        each.requires_grad_()
    y = forward(q, k, v)
    return partial(torch.autograd.grad, y, (q, k, v), torch.ones_like(y), retain_graph=True)


def make_copy(name: str, kind: str, n: str) -> Call:
    device, host = draw(kind, int(n)), torch.zeros(int(n), dtype=TYPES[kind])
    if "pinned" in name:
        host = host.pin_memory()
    pair = (device, host) if name.startswith("h2d") else (host, device)
    return partial(pair[0].copy_, pair[1], non_blocking="pinned" in name)


LINALG: dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.t() + 1e3 * torch.eye(len(x), device="cuda")),
    "solve": lambda x: torch.linalg.solve(x, x),
    "qr": torch.linalg.qr,
    "inv": torch.linalg.inv,
    "eigh": lambda x: torch.linalg.eigh(x + x.t()),
    "svd": torch.linalg.svd,
    "fft": torch.fft.fft2,
    "lu": torch.linalg.lu_factor,
}
POOLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max_pool": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "avg_pool": lambda x: functional.avg_pool2d(x, 2),
    "adaptive_pool": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "upsample": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "nearest": lambda x: functional.interpolate(x, scale_factor=2),
    "batch_norm2d": lambda x: functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: functional.group_norm(x, 32),
    "instance_norm": lambda x: functional.instance_norm(x),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
    "pad": lambda x: functional.pad(x, (1, 1, 1, 1)),
    "nhwc": lambda x: x.contiguous(memory_format=torch.channels_last),
}


def make_pool(name: str, kind: str, shape: str) -> Call:
    operator, backward = POOLS[name.removesuffix(" backward")], name.endswith(" backward")
    b, c, hw = map(int, shape.split("x"))
    x = draw(kind, b, c, hw, hw)
    return make_backward(x, operator) if backward else partial(operator, x)


def make_optimizer(name: str, how: str, shape: str) -> Call:
    """Make `COUNTxELEMENTS` parameters of one size."""
    count, elements = map(int, shape.split("x"))
    parameters = [nn.Parameter(torch.zeros(elements, device="cuda")) for _ in range(count)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    if name == "clip":
        return partial(nn.utils.clip_grad_norm_, parameters, 1.0, foreach=how == "foreach")
    options: dict[str, Any] = {"foreach": how == "foreach", "fused": how == "fused"}
    if name == "SGD":
        options.update(lr=0.1, momentum=0.9)
    optimizer = getattr(torch.optim, name)(parameters, **options)
    return lambda: optimizer.step()
