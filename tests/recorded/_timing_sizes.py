"""More sizes of the calls of `timing.py`, between and beyond the others, which `timing_layouts.py` times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from recorded._timing_calls import (
    Call,
    draw,
    make_attention,
    make_convolution,
    make_pointwise,
    make_pool,
    make_product,
    make_rows,
)
from recorded._timing_kernels import MORE, make_kernel
from recorded._timing_more import MATRICES, RANKED, SPECTRA

K, M = 1024, 1024 * 1024
Made = Callable[[], Call]
Listed = Iterator[tuple[str, Made]]
_KINDS = ("f32", "bf16")
_SORTED = (
    "512x512",
    "2048x4096",
    "128x4096",
    "16x4096",
    "8192x512",
    "65536x128",
    "256x32768",
    "128x16384",
    "1024x10000",
    "8x262144",
    "300x5000",
    "100000x16",
)
_CHOSEN = (
    "2048x2048",
    "4096x4096",
    "256x4096",
    "64x32768",
    "1000x1000",
    "128x50257",
    "4096x32000",
    "16x1048576",
    "8192x256",
    "1x1048576",
)
_SCANNED = (
    "512x512",
    "8192x64",
    "2048x512",
    "65536x32",
    "100x10000",
    "8x1048576",
    "1024x50257",
    "4096x128",
    "16384x2048",
)
_COLUMNS = ("256x256", "4096x1024", "512x8192", "64x65536", "10000x100", "131072x64")
_FLAT = (2 * K, 4 * K, 16 * K, 128 * K, 2 * M, 32 * M)
_LINES = (
    "256x512",
    "1024x256",
    "16384x128",
    "2048x2048",
    "512x4096",
    "128x16384",
    "16x262144",
    "1x4194304",
    "100x1000",
    "64x10000",
    "4096x100",
    "1024x1000",
)
_PLANES = (
    "128x128",
    "512x512",
    "1024x1024",
    "4096x4096",
    "32x512x512",
    "1000x1000",
    "300x300",
    "8x3x256x256",
    "8x1024x1024",
)
_CLASSES = (
    "512x1000",
    "2048x32000",
    "4096x50257",
    "8192x1000",
    "64x1000",
    "128x10",
    "16384x256",
    "1000x10",
    "8192x32000",
    "65536x100",
    "256x100000",
)
_ROWS = (
    "2048x2048",
    "16384x512",
    "1024x4096",
    "128x32000",
    "65536x128",
    "4096x768",
    "512x512",
    "100x10000",
)
_PRODUCTS = (
    *(f"{n}x{n}x{n}" for n in (192, 640, 896, 1280, 1792, 2560)),
    "512x4096x4096",
    "32x4096x11008",
    "1024x1024x4096",
    "4096x4096x1024",
    "4096x1024x4096",
    "64x1024x1024",
    "256x4096x4096",
    "16384x512x512",
    "2048x512x2048",
    "4x4096x14336",
)
_LAYERS = ("192x192x192", "1280x1280x1280", "32x4096x11008", "4096x4096x1024", "256x4096x4096", "2048x512x2048")
_BATCHES = (
    "32x1024x64x1024",
    "128x256x256x64",
    "8x512x512x512",
    "512x128x64x128",
    "16x2048x128x2048",
    "256x197x64x197",
    "64x1024x1024x128",
)
_CONVOLUTIONS = (
    "64x64x56 -> 64 k3 s1 g1",
    "64x256x28 -> 512 k1 s2 g1",
    "16x128x56 -> 128 k3 s1 g1",
    "64x1024x14 -> 256 k1 s1 g1",
    "64x512x14 -> 512 k3 s2 g1",
    "64x2048x7 -> 512 k1 s1 g1",
    "64x64x56 -> 256 k1 s1 g1",
    "16x3x224 -> 64 k3 s1 g1",
    "16x64x224 -> 64 k3 s1 g1",
    "128x128x16 -> 128 k3 s1 g1",
    "16x512x28 -> 512 k3 s1 g1",
    "128x3x32 -> 64 k3 s1 g1",
    "128x3x224 -> 64 k7 s2 g1",
    "64x128x28 -> 512 k1 s1 g1",
    "32x96x56 -> 96 k7 s1 g96",
    "8x256x64 -> 256 k3 s1 g1",
    "32x32x112 -> 32 k3 s1 g32",
    "4x640x32 -> 640 k3 s1 g1",
    "32x240x28 -> 240 k5 s1 g240",
    "1x256x128 -> 256 k3 s1 g1",
)
_FLOAT_HEADS = ("4x16x512x64", "2x8x2048x64", "16x8x256x64", "1x12x4096x128", "8x8x1024x32", "32x16x197x64")
_HALF_HEADS = ("4x16x1024x64", "8x8x2048x64", "32x16x256x64", "1x32x2048x128")
_POOLED = ("16x128x56", "128x64x28", "4x64x256")
_SPREAD = 256 * M


def _apply(function: Callable[..., object], kind: str, shape: str) -> Call:
    return partial(function, draw(kind, *map(int, shape.split("x"))))


def _list_rows(names: Sequence[str], shapes: Sequence[str]) -> Listed:
    for name, kind, shape in itertools.product(names, _KINDS, shapes):
        yield f"{name} {kind} {shape}", partial(make_rows, name, kind, shape)


def list_kernel_sizes() -> Listed:
    for name, n in itertools.product(("saxpy", "reduce", "gather"), (64 * K, 4 * M)):
        yield f"kernel {name} {n}", partial(make_kernel, name, n)
    for name, n in itertools.product(MORE, (1 * M, 16 * M)):
        yield f"kernel {name} {n}", partial(make_kernel, name, n)
    for name, n in (("product", 512), ("gather", 64 * M), ("triton add", 4 * M), ("triton softmax", 4 * M)):
        yield f"kernel {name} {n}", partial(make_kernel, name, n)


def list_ranked_sizes() -> Listed:
    yield from _list_rows(("sort rows",), _SORTED)
    yield from _list_rows(("topk50",), _CHOSEN)
    yield from _list_rows(("cumsum dim1",), _SCANNED)
    for kind, shape in itertools.product(_KINDS, _COLUMNS):
        yield f"cumsum columns {kind} {shape}", partial(_apply, RANKED["cumsum columns"][0], kind, shape)
    for name, kind, n in itertools.product(("sort", "cumsum"), (*_KINDS, "i64"), _FLAT):
        yield f"{name} {kind} {n}", partial(make_pointwise, name, kind, str(n))
    for name, kind, n in itertools.product(("nonzero", "unique"), ("f32",), _FLAT[1:]):
        yield f"{name} {kind} {n}", partial(_apply, RANKED[name][0], kind, str(n))
    for name, kind, shapes in (
        ("topk 5", "f32", _CHOSEN),
        ("median rows", "f32", ("256x256", "4096x1024", "512x50257")),
        ("sort rows", "i64", ("1000x1000", "64x8192")),
    ):
        for shape in shapes:
            yield f"{name} {kind} {shape}", partial(_apply, RANKED[name][0], kind, shape)


def list_spectra_sizes() -> Listed:
    for name, shape in itertools.product(("fft rows", "rfft rows", "irfft rows"), _LINES):
        yield f"{name} f32 {shape}", partial(_apply, SPECTRA[name][0], "f32", shape)
    for shape in _LINES[::2]:
        yield (
            f"complex fft rows f32 {shape}",
            partial(_apply, lambda x: torch.fft.fft(torch.complex(x, x)), "f32", shape),
        )
    for name, shape in itertools.product(("fft2", "rfft2"), _PLANES):
        yield f"{name} f32 {shape}", partial(_apply, SPECTRA[name][0], "f32", shape)
    for shape in _PLANES[::2]:
        yield (
            f"irfft2 f32 {shape}",
            partial(_apply, lambda x: torch.fft.irfft2(torch.complex(x, x)), "f32", shape),
        )
    for shape in ("64x64x64", "128x128x128", "256x256x256"):
        yield f"fftn f32 {shape}", partial(_apply, torch.fft.fftn, "f32", shape)


def list_matrix_sizes() -> Listed:
    for name, shape in itertools.product(("cholesky", "solve", "inv", "lu"), ("160x160", "640x640", "1536x1536")):
        yield f"{name} f32 {shape}", partial(_apply, MATRICES[name][0], "f32", shape)
    for name, shape in (("svd", "160x160"), ("svd", "512x512"), ("qr", "640x640"), ("eigh", "320x320")):
        yield f"{name} f32 {shape}", partial(_apply, MATRICES[name][0], "f32", shape)


def list_row_sizes() -> Listed:
    yield from _list_rows(("cross_entropy", "cross_entropy backward"), _CLASSES)
    yield from _list_rows(("softmax", "log_softmax", "layer_norm", "rms_norm", "sum dim0", "transpose copy"), _ROWS)
    names = ("softmax backward", "log_softmax backward", "layer_norm backward", "rms_norm backward")
    yield from _list_rows((*names, "scatter_add", "index_select", "embedding"), _ROWS[::2])


def list_convolution_sizes() -> Listed:
    for kind, shape, layout in itertools.product(_KINDS, _CONVOLUTIONS, ("", " nhwc")):
        yield f"conv {kind} {shape}{layout}", partial(make_convolution, "conv", kind, shape + layout)
    for kind, shape, layout in itertools.product(_KINDS, _CONVOLUTIONS[::2], ("", " nhwc")):
        yield f"conv backward {kind} {shape}{layout}", partial(make_convolution, "conv backward", kind, shape + layout)


def list_attention_sizes() -> Listed:
    for name, shape, causal in itertools.product(("sdpa", "sdpa backward"), _FLOAT_HEADS, ("", " causal")):
        yield f"{name} f32 {shape}{causal}", partial(make_attention, name, "f32", shape + causal)
    for shape, causal in itertools.product(_HALF_HEADS, ("", " causal")):
        yield f"sdpa bf16 {shape}{causal}", partial(make_attention, "sdpa", "bf16", shape + causal)
    for shape in _HALF_HEADS:
        yield f"sdpa backward bf16 {shape} causal", partial(make_attention, "sdpa backward", "bf16", f"{shape} causal")


def list_product_sizes() -> Listed:
    for shape, kind in itertools.product(_PRODUCTS, ("f32", "tf32", "bf16", "f16")):
        yield f"mm {kind} {shape}", partial(make_product, "mm", kind, shape)
    for shape, kind in itertools.product(_BATCHES, ("f32", "tf32", "bf16")):
        yield f"bmm {kind} {shape}", partial(make_product, "bmm", kind, shape)
    for shape, kind in itertools.product(_LAYERS, ("tf32", "bf16")):
        yield f"linear {kind} {shape}", partial(make_product, "linear", kind, shape)


def list_other_sizes() -> Listed:
    names = ("max_pool", "avg_pool", "batch_norm2d", "group_norm", "upsample", "nearest", "adaptive_pool", "nhwc")
    for name, kind, shape in itertools.product(names, _KINDS, _POOLED):
        yield f"{name} {kind} {shape}", partial(make_pool, name, kind, shape)
    for name, kind, shape in itertools.product(names[:4], _KINDS, _POOLED[:2]):
        yield f"{name} backward {kind} {shape}", partial(make_pool, f"{name} backward", kind, shape)
    names = ("add", "mul_", "gelu", "dropout", "sum", "to bf16")
    for name, kind, n in itertools.product(names, _KINDS, (2 * M, 8 * M, _SPREAD)):
        if (name, kind) != ("to bf16", "bf16"):  # launches nothing
            yield f"{name} {kind} {n}", partial(make_pointwise, name, kind, str(n))


#: Functions by the name of a unit; those first that matter most.
LISTS: dict[str, Callable[[], Listed]] = {
    "ranked sizes": list_ranked_sizes,
    "spectra sizes": list_spectra_sizes,
    "row sizes": list_row_sizes,
    "kernel sizes": list_kernel_sizes,
    "convolution sizes": list_convolution_sizes,
    "product sizes": list_product_sizes,
    "attention sizes": list_attention_sizes,
    "matrix sizes": list_matrix_sizes,
    "other sizes": list_other_sizes,
}
