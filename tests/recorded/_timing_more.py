"""The calls that `timing_layouts.py` times."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from recorded._timing_calls import TYPES, Call, draw

Cases = dict[str, tuple[Callable[..., Any], tuple[str, ...]]]
_SQUARES = ("512x512", "2048x2048", "16384x1024", "100x1000", "1024x65536")
_HEADS = ("8x512x12x64", "2x4096x32x128", "32x128x8x64", "16x1024x16x64")
_IMAGES = ("16x64x56x56", "4x256x32x32", "64x3x224x224", "128x16x64x64", "8x512x14x14")
_LAST = torch.channels_last
COPIES: Cases = {
    "transposed": (lambda x: x.t().contiguous(), _SQUARES),
    "batch transposed": (lambda x: x.transpose(1, 2).contiguous(), ("64x512x512", "16x1024x64", "256x64x64")),
    "batch second": (lambda x: x.transpose(0, 1).contiguous(), ("128x256x512", "1024x64x512")),
    "heads": (lambda x: x.transpose(1, 2).contiguous(), _HEADS),
    "qkv": (lambda x: x.unflatten(2, (3, -1)).permute(2, 0, 3, 1, 4).contiguous(), ("8x512x36x64", "2x2048x48x128")),
    "to channels last": (lambda x: x.contiguous(memory_format=_LAST), _IMAGES),
    "from channels last": (lambda x: x.contiguous(memory_format=_LAST).contiguous(), _IMAGES),
    "half of each row": (lambda x: x[:, : x.shape[1] // 2].contiguous(), _SQUARES[:4]),
    "every second": (lambda x: x[:, ::2].contiguous(), _SQUARES[:4]),
    "every second row": (lambda x: x[::2].contiguous(), _SQUARES[:4]),
    "expanded column": (lambda x: x[:, :1].expand_as(x).contiguous(), _SQUARES[:4]),
    "expanded row": (lambda x: x[:1].expand_as(x).contiguous(), _SQUARES[:4]),
    "into rows": (lambda x: x[:, : x.shape[1] // 2].copy_(x[:, x.shape[1] // 2 :]), _SQUARES[:4]),
    "transposed to f16": (lambda x: x.t().to(torch.float16, memory_format=torch.contiguous_format), _SQUARES[:3]),
    "permuted cast": (lambda x: x.t().half(), _SQUARES[:3]),
}
CASTS = (
    ("f32", "bf16"), ("f32", "f16"), ("f32", "i64"), ("f32", "bool"), ("bf16", "f32"), ("f16", "f32"), ("i64", "f32"),
    ("bf16", "f16"), ("bool", "f32"), ("i64", "i32"), ("f32", "f64"), ("f64", "f32"),
)  # fmt: skip
_ALL = {**TYPES, "bool": torch.bool, "i32": torch.int32}


def make_of(kind: str, *shape: int) -> torch.Tensor:
    """Return elements of any type."""
    return draw(kind, *shape) if kind in TYPES else draw("i64", *shape).to(_ALL[kind])


def make_cast(source: str, target: str, n: int) -> Call:
    return partial(make_of(source, n).to, _ALL[target])


def make_clone(kind: str, n: int) -> Call:
    return make_of(kind, n).clone


PARTS = ("cat rows", "cat columns", "stack", "split")


def make_parts(name: str, kind: str, count: int, n: int) -> Call:
    parts = [draw(kind, n, n) for _ in range(count)]
    if name == "stack":
        return partial(torch.stack, parts)
    if name == "split":
        return partial(torch.split_with_sizes_copy, torch.cat(parts), [n] * count)
    return partial(torch.cat, parts, int(name == "cat columns"))


def make_host_copy(name: str, n: int) -> Call:
    device, host = draw("f32", n), torch.zeros(n)
    host = host.pin_memory() if "pinned" in name else host
    pair = (device, host) if name.startswith("h2d") else (host, device)
    return partial(pair[0].copy_, pair[1], non_blocking="pinned" in name)


# ---- gathers: a table and how many rows of it --------------------------------------------------------------------
_TABLES = (
    "50257x768 4096",
    "50257x768 16384",
    "128256x4096 8192",
    "1000x64 100000",
    "10000x512 3200",
    "32000x1024 512",
)
GATHERS: Cases = {
    "embedding": (lambda x, i: functional.embedding(i, x), _TABLES),
    "index": (lambda x, i: x[i], _TABLES),
    "index_select": (lambda x, i: x.index_select(0, i), _TABLES),
    "index_select columns": (lambda x, i: x.index_select(1, i % x.shape[1]), ("1024x4096 1024", "8192x1024 512")),
    "gather rows": (lambda x, i: x.gather(0, i[:, None].expand(-1, x.shape[1])), _TABLES[::2]),
    "gather one": (lambda x, i: x.gather(1, (i % x.shape[1])[:, None]), ("4096x50257 4096", "65536x1000 65536")),
    "gather many": (
        lambda x, i: x.gather(1, (i % x.shape[1])[: len(x) * 64].view(len(x), 64)),
        ("1024x4096 65536", "16384x1024 1048576"),
    ),
    "index pairs": (lambda x, i: x[i, i % x.shape[1]], ("4096x4096 1048576", "1024x1024 4096")),
    "index elements": (lambda x, i: x.flatten()[i], ("16384x1024 1048576", "1024x1024 65536")),
    "masked": (lambda x, i: x[x > 1], ("1024x1024 1", "8192x4096 1")),
    "embedding gradient": (lambda x, i: torch.ops.aten.embedding_dense_backward(x[i], i, len(x), -1, False), _TABLES),
    "scatter columns": (
        lambda x, i: torch.zeros_like(x).scatter_(1, (i % x.shape[1])[:, None], 1.0),
        ("4096x50257 4096", "65536x1000 65536"),
    ),
}  # fmt: skip


def make_gather(gather: Callable[..., Any], kind: str, shape: str) -> Call:
    table, count = shape.split()
    rows, width = map(int, table.split("x"))
    return partial(gather, draw(kind, rows, width), torch.randint(0, rows, (int(count),), device="cuda"))


# ---- attention ---------------------------------------------------------------------------------------------------
_SHORT, _MIDDLE = ("64x16x128x64", "16x16x512x64", "8x12x512x128"), ("4x16x2048x64", "4x16x2048x128")
_LONG = ("1x16x8192x64", "1x16x8192x128")
BACKENDS = {
    "flash": ("bf16", (*_SHORT, *_MIDDLE, *_LONG)),
    "cudnn": ("bf16", (*_SHORT, *_MIDDLE, *_LONG, "4x12x1000x64", "2x8x4096x96")),
    "efficient": ("bf16", _MIDDLE),
    "math": ("bf16", (_SHORT[1], _MIDDLE[0])),
    "efficient f32": ("f32", (*_SHORT, *_MIDDLE, "4x12x1000x64")),
    "grouped": ("bf16", ("2x32x2048x128", "1x32x8192x128")),
}
_NAMES = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


def make_with_backend(backend: str, make: Callable[[], Call]) -> Call:
    """Make attention with this implementation; `grouped` has a quarter of the heads for keys."""
    if backend == "grouped":
        return make_grouped(*make.args[1:])  # type: ignore[attr-defined]
    with sdpa_kernel(_NAMES[backend]):
        call = make()

    def run() -> Any:
        with sdpa_kernel(_NAMES[backend]):
            return call()

    return run


def make_grouped(kind: str, shape: str) -> Call:
    sizes, *causal = shape.split()
    b, h, s, e = map(int, sizes.split("x"))
    q, k, v = draw(kind, b, h, s, e), draw(kind, b, h // 4, s, e), draw(kind, b, h // 4, s, e)
    for each in (q, k, v):
        each.requires_grad_()

    def run() -> Any:
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=True)
        return torch.autograd.grad(y, (q, k, v), torch.ones_like(y))

    return run


# ---- dense linear algebra ----------------------------------------------------------------------------------------
_MATRICES = ("96x96", "192x192", "256x256", "384x384", "768x768", "64x32x32", "16x128x128")


def _definite(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + 1e3 * torch.eye(x.shape[-1], device="cuda")


MATRICES: Cases = {
    "cholesky": (lambda x: torch.linalg.cholesky(_definite(x)), (*_MATRICES, "2048x2048")),
    "solve": (lambda x: torch.linalg.solve(x, x), (*_MATRICES, "2048x2048")),
    "solve vector": (lambda x: torch.linalg.solve(x, x[..., :1]), _MATRICES),
    "triangular": (lambda x: torch.linalg.solve_triangular(x.tril(), x, upper=False), (*_MATRICES, "2048x2048")),
    "upper triangular": (lambda x: torch.linalg.solve_triangular(x.triu(), x, upper=True), _MATRICES),
    "qr": (torch.linalg.qr, (*_MATRICES, "1024x64")),
    "inv": (torch.linalg.inv, (*_MATRICES, "2048x2048")),
    "lu": (torch.linalg.lu_factor, (*_MATRICES, "2048x2048")),
    "det": (torch.linalg.det, _MATRICES),
    "eigh": (lambda x: torch.linalg.eigh(x + x.mT), _MATRICES),
    "svd": (torch.linalg.svd, _MATRICES[:4] + _MATRICES[5:]),
    "singular values": (torch.linalg.svdvals, _MATRICES[:3]),
}
_ROWS = ("4096x1024", "64x65536", "1x1048576", "256x1000", "65536x64")
SPECTRA: Cases = {
    "fft rows": (torch.fft.fft, _ROWS),
    "rfft rows": (torch.fft.rfft, _ROWS),
    "irfft rows": (lambda x: torch.fft.irfft(torch.complex(x, x)), _ROWS),
    "fft2": (torch.fft.fft2, ("256x256", "2048x2048", "64x256x256", "16x3x224x224", "384x384")),
    "rfft2": (torch.fft.rfft2, ("256x256", "2048x2048", "64x256x256", "16x3x224x224")),
}

# ---- sorts -------------------------------------------------------------------------------------------------------
_LINES = ("16384x128", "2048x2048", "100000x32", "64x8192", "16x100000", "4x1048576", "1000x300")
_FLAT = ("32768", "524288", "8388608")
RANKED: Cases = {
    "sort rows": (lambda x: x.sort(-1), _LINES),
    "sort columns": (lambda x: x.sort(0), ("128x4096", "2048x512")),
    "sort": (lambda x: x.sort(), _FLAT),
    "argsort": (lambda x: x.argsort(stable=True), _FLAT[1:2]),
    "topk 1": (lambda x: x.topk(1), _LINES),
    "topk 5": (lambda x: x.topk(5), _LINES),
    "topk 20": (lambda x: x.topk(20), _LINES),
    "topk 1000": (lambda x: x.topk(1000), ("64x8192", "16x100000")),
    "cumsum": (lambda x: x.cumsum(0), _FLAT),
    "cumsum rows": (lambda x: x.cumsum(-1), _LINES[:5]),
    "cumsum columns": (lambda x: x.cumsum(0), ("2048x2048", "1000x300")),
    "nonzero": (lambda x: (x > 0).nonzero(), _FLAT),
    "unique": (lambda x: x.long().unique(), _FLAT),
    "median rows": (lambda x: x.median(-1), ("2048x2048", "1000x300")),
    "multinomial": (lambda x: x.softmax(-1).multinomial(1), ("1000x300", "16x100000")),
}


# ---- a layer's three products, and sustained work ----------------------------------------------------------------
def make_layers(kind: str, batch: int, width: int, out: int) -> Call:
    """Make the forward and the backward of a linear layer: products with either matrix transposed."""
    layer = nn.Linear(width, out, device="cuda", dtype=TYPES[kind])
    x = draw(kind, batch, width).requires_grad_()
    gradient = draw(kind, batch, out)
    inputs = (x, *layer.parameters())
    return lambda: torch.autograd.grad(layer(x), inputs, gradient)


_QUERY = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,clocks_event_reasons.active", "--format=csv,noheader,nounits"]


def make_sustained(name: str) -> dict[str, Any]:
    """Return the microseconds of a call in each tenth of two seconds, and the clock, power and limits meanwhile."""
    words = name.split()
    torch.backends.cuda.matmul.allow_tf32 = words[1] == "tf32"
    n = int(words[2])
    if words[0] == "mm":
        a, b = draw(words[1], n, n), draw(words[1], n, n)
        call: Call = partial(torch.mm, a, b)
    elif words[0] == "add":
        a, b = draw(words[1], n), draw(words[1], n)
        call = partial(torch.add, a, b)
    else:
        a = draw(words[1], 2, 32, n, 128)
        call = partial(functional.scaled_dot_product_attention, a, a, a)
    call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = max(1, int(0.2 / (time.perf_counter() - began)))
    watch = subprocess.Popen([*_QUERY, "-lms", "50"], stdout=subprocess.PIPE, text=True)
    tenths = []
    for _ in range(10):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        tenths.append(round(start.elapsed_time(end) * 1e3 / calls, 2))
    watch.terminate()
    seen = [line.split(", ") for line in watch.communicate()[0].splitlines()]
    return {"us": tenths, "seen": seen}
