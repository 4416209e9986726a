"""Times of a GPU with the layouts of arguments: copies, gathers, attention, factorizations, sorts, training steps.

A case's name holds its arguments. Its `work` is what `_timing_layouts.list_calls` lists; the other figures are those of
`timing.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from record.case_sets import Case

from recorded._timing_calls import Call, draw, make_attention
from recorded._timing_kernels import make_kernel, measure_beside
from recorded._timing_layouts import list_calls
from recorded._timing_models import make_training
from recorded._timing_more import (
    BACKENDS,
    CASTS,
    COPIES,
    GATHERS,
    MATRICES,
    PARTS,
    RANKED,
    SPECTRA,
    make_cast,
    make_clone,
    make_gather,
    make_host_copy,
    make_layers,
    make_parts,
    make_sustained,
    make_with_backend,
)
from recorded._timing_sizes import LISTS
from recorded.timing import STEPS, in_tf32, measure

RECORD = "timing-layouts-h200-2.11.json.xz"
K, M = 1024, 1024 * 1024
KINDS = ("f32", "bf16")
Made = Callable[[], Call]


def list_copies() -> Iterator[tuple[str, Made]]:
    for (name, (copy, shapes)), kind in itertools.product(COPIES.items(), KINDS):
        for shape in shapes:
            sizes = [int(s) for s in shape.split("x")]
            yield f"copy {name} {kind} {shape}", lambda copy=copy, kind=kind, s=sizes: partial(copy, draw(kind, *s))  # type: ignore[misc]
    transpose = COPIES["transposed"][0]
    for kind, shape in itertools.product(("f16", "i64"), ("2048x2048", "100x1000")):
        sizes = [int(s) for s in shape.split("x")]
        yield f"copy transposed {kind} {shape}", lambda kind=kind, s=sizes: partial(transpose, draw(kind, *s))  # type: ignore[misc]
    for (source, target), n in itertools.product(CASTS, (4 * K, 1 * M, 16 * M)):
        yield f"cast {source} {target} {n}", partial(make_cast, source, target, n)
    for kind, n in itertools.product(("f32", "bf16", "i64", "bool"), (4 * K, 512 * K, 2 * M, 8 * M, 32 * M)):
        yield f"clone {kind} {n}", partial(make_clone, kind, n)
    for name, kind, count, n in itertools.product(PARTS, KINDS, (2, 8), (1024,)):
        yield f"{name} {kind} {count} {n}x{n}", partial(make_parts, name, kind, count, n)
    for name, n in itertools.product(
        ("h2d pinned", "h2d pageable", "d2h pinned", "d2h pageable"),
        (256, 8 * K, 24 * K, 128 * K, 512 * K, 2 * M, 8 * M),
    ):
        yield f"{name} {n}", partial(make_host_copy, name, n)


def list_gathers() -> Iterator[tuple[str, Made]]:
    for (name, (gather, shapes)), kind in itertools.product(GATHERS.items(), KINDS):
        for shape in shapes if kind == "f32" else shapes[::2]:
            yield f"{name} {kind} {shape}", partial(make_gather, gather, kind, shape)


def list_attention() -> Iterator[tuple[str, Made]]:
    for backend, (kind, shapes) in BACKENDS.items():
        for shape, causal, name in itertools.product(shapes, ("", " causal"), ("sdpa", "sdpa backward")):
            case = f"{name} {kind} {shape}{causal}"
            word = backend.partition(" ")[0]
            yield (
                f"{word} {case}",
                partial(make_with_backend, word, partial(make_attention, name, kind, shape + causal)),
            )


def list_dense() -> Iterator[tuple[str, Made]]:
    for name, (function, shapes) in {**MATRICES, **SPECTRA}.items():
        for shape in shapes:
            sizes = [int(s) for s in shape.split("x")]
            yield f"{name} f32 {shape}", lambda f=function, s=sizes: partial(f, draw("f32", *s))  # type: ignore[misc]


def list_sorts() -> Iterator[tuple[str, Made]]:
    for (name, (function, shapes)), kind in itertools.product(RANKED.items(), KINDS):
        for shape in shapes if kind == "f32" else shapes[::3]:
            sizes = [int(s) for s in shape.split("x")]
            yield f"{name} {kind} {shape}", lambda f=function, k=kind, s=sizes: partial(f, draw(k, *s))  # type: ignore[misc]


def list_layers() -> Iterator[tuple[str, Made]]:
    for kind, batch, width in itertools.product(("f32", "bf16"), (128, 1024), (256, 512, 1024, 2048, 4096, 8192)):
        yield f"layer {kind} {batch}x{width}", partial(make_layers, kind, batch, width, width)
    for kind, batch, width, out in itertools.product(("tf32", "bf16"), (4096,), (768, 4096), (50257, 50304)):
        yield f"layer {kind} {batch}x{width}x{out}", partial(make_layers, kind, batch, width, out)


def list_steps() -> Iterator[tuple[str, Made]]:
    for name, shape, amp in STEPS:
        if name != "lstm step":  # cuDNN's recurrent networks do not return from a dispatch mode
            yield f"{name} {shape} {amp}", partial(make_training, name, shape, amp)


def list_kernels() -> Iterator[tuple[str, Made]]:
    for name, n in itertools.product(
        ("saxpy", "reduce", "gather", "arithmetic", "triton add", "triton softmax"), (1 * M, 16 * M)
    ):
        yield f"kernel {name} {n}", partial(make_kernel, name, n)
    for n in (1024, 2048):
        yield f"kernel product {n}", partial(make_kernel, "product", n)


def measure_layouts(make: Made, is_tf32: bool) -> dict[str, Any]:
    """Return a case's times, and its calls with their layouts."""
    if is_tf32:
        return measure(in_tf32(make), train_us=8000, list_work=list_calls)
    return measure(make, train_us=8000, list_work=list_calls)


UNITS = {
    "kernels": list_kernels,
    "steps": list_steps,
    "copies": list_copies,
    "gathers": list_gathers,
    "layers": list_layers,
    "attention": list_attention,
    "dense": list_dense,
    "sorts": list_sorts,
    **LISTS,
}
#: The most cases that share a process, and are lost if it does not end in time.
SHARED = 160
SUSTAINED = ("mm bf16 8192", "mm tf32 8192", "mm f32 8192", "mm bf16 4096", "add f32 268435456", "attention bf16 8192")


def list_cases() -> dict[str, Case]:
    """Return the cases by name."""
    cases = {name: Case(name, partial(make_sustained, name), unit="sustained") for name in SUSTAINED}
    cases = {f"sustained {name}": case for name, case in cases.items()}
    for blocks, (kind, n) in itertools.product((8, 16, 24, 32), (("bf16", 8192), ("bf16", 2048), ("f32", 0))):
        name = f"beside {blocks} blocks {f'mm {kind} {n}' if n else f'add {kind}'}"
        cases[name] = Case(name, partial(measure_beside, blocks, kind, n), unit="beside")
    for unit, listed in UNITS.items():
        for i, (name, make) in enumerate(listed()):
            cases[name] = Case(name, partial(measure_layouts, make, " tf32 " in name), unit=f"{unit} {i // SHARED}")
    return cases


def prepare() -> None:
    """Start the profiler once: its first profile takes seconds, and sees no kernels on some machines."""
    x = torch.zeros(16, device="cuda")
    for _ in range(2):
        list_calls(partial(torch.add, x, x))
