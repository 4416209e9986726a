"""Operators on lists of tensors: with which dtypes one kernel takes the whole list, by a profile.

A case is an operator and the kinds of its arguments: ``tensor*`` is a list of tensors, ``int*`` a list of numbers. The
answer: the dtypes with which one kernel took the whole list, then those with which more did. Others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

RECORD = "list-kernels-h200.json"
KERNEL = "multi_tensor_apply_kernel"
NUMBERS = {"int": 2, "float": 0.5, "complex": 0.5 + 1j, "bool": True}
HALVES_AND_FLOATS = ("float32", "float16", "float64", "bfloat16")
COMPLEX = ("complex64", "complex128")
WHOLE = ("int64", "bool", "uint8", "int32", "int8", "int16")
DTYPES = "float32 int64 bool float16 complex64 uint8 float64 bfloat16 int32 complex128 int8 int16".split()
#: Of arguments whose name says a dtype, those that the operator is run with.
GIVEN = {
    **{f"{name}=float": HALVES_AND_FLOATS for name in ("alpha",)},
    **{f"{name}=int": WHOLE for name in ("alpha",)},
    **{f"{name}=complex": COMPLEX for name in ("alpha", "value")},
    "dtype=torch.float64": HALVES_AND_FLOATS,
    "dtype=torch.complex128": COMPLEX,
    "dtype=None": COMPLEX,
    "ord=-inf": ("float32",),
}
_UNARY = """exp acos asin atan cos cosh log log10 log2 tan tanh sin sinh neg sqrt rsqrt ceil erf erfc expm1 floor log1p
round frac reciprocal sigmoid trunc abs sign lgamma""".split()
_ALPHA = ("tensor* tensor* alpha=float", "tensor* tensor* alpha=int", "tensor* tensor* alpha=complex")
_REAL = ("tensor* int", "tensor* float", "tensor* bool")
_VALUES = ("", " value=int", " value=float", " value=bool", " value=complex")
_BINARY: dict[str, tuple[str, ...]] = {
    "add": (*_ALPHA, *_REAL, "tensor* complex"),
    "sub": (*_ALPHA, "tensor* int", "tensor* float", "tensor* complex"),
    **dict.fromkeys(("mul", "div", "pow"), ("tensor* tensor*", *_REAL, "tensor* complex")),
    **dict.fromkeys(("clamp_min", "clamp_max", "minimum", "maximum"), ("tensor* tensor*", *_REAL)),
    **{name: tuple(f"tensor* tensor* tensor*{value}" for value in _VALUES) for name in ("addcmul", "addcdiv")},
    "lerp": ("tensor* tensor* tensor*", *(f"tensor* tensor* {kind}" for kind in ("int", "float", "bool", "complex"))),
}
CALLS = [
    *((f"_foreach_{name}{form}", "tensor*") for name in _UNARY for form in ("", "_")),
    ("_foreach_zero_", "tensor*"),
    *((f"_foreach_{name}{form}", kinds) for name, given in _BINARY.items() for form in ("", "_") for kinds in given),
    ("_foreach_copy_", "tensor* tensor*"),
    ("_foreach_max", "tensor*"),
    *(("_foreach_norm", f"tensor* ord={o} dtype=torch.float64") for o in ("0", "1", "2", "-1", "-2", "inf", "-inf")),
    ("_foreach_norm", "tensor* ord=-inf"),
    *(("_foreach_norm", f"tensor* ord={o} dtype={d}") for o in (0, 1, 2, -1) for d in ("None", "torch.complex128")),
]


def make_argument(kind: str, dtype: torch.dtype) -> Any:
    if kind.endswith("*"):
        one = kind[:-1]
        if one in NUMBERS:
            return [NUMBERS[one]] * 3
        made = dtype if one == "tensor" else getattr(torch, one)
        return [torch.ones(size, size, device="cuda").to(made) for size in (3, 2, 1)]
    return NUMBERS[kind]


def read_keyword(value: str) -> Any:
    if value.startswith("torch."):
        return getattr(torch, value[6:])
    if value in NUMBERS or value == "None":
        return NUMBERS.get(value)
    return float(value) if "inf" in value else int(value)


def list_dtypes(kinds: str) -> list[str]:
    """List the dtypes that a case is run with."""
    words = set(kinds.split())
    given = [set(dtypes) for word, dtypes in GIVEN.items() if word in words]
    if "dtype=torch.float64" in words:
        given = [set(HALVES_AND_FLOATS)]
    return [dtype for dtype in DTYPES if all(dtype in some for some in given)]


def _list_kernels(event: Any) -> Iterator[str]:
    """List what an operator launched, and those that it called."""
    yield from (kernel.name for kernel in event.kernels)
    for part in event.cpu_children:
        yield from _list_kernels(part)


def run_case(name: str, kinds: str) -> list[str]:
    """Run an operator with every dtype under a profile."""
    words, ran = kinds.split(), []
    keywords = {key: read_keyword(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for dtype in list_dtypes(kinds):
            given = [make_argument(word, getattr(torch, dtype)) for word in words if "=" not in word]
            try:
                with record_function(f"case {dtype}"):
                    getattr(torch, name)(*given, **keywords)
            except (RuntimeError, TypeError):
                continue  # refused: the record says nothing of it
            ran.append(dtype)
        torch.cuda.synchronize()
    events = {event.name: event for event in profiled.events() if event.name.startswith("case ") and event.cpu_children}
    kernels = {dtype: list(_list_kernels(events[f"case {dtype}"])) for dtype in ran}
    assert any(kernels.values()), kernels  # rounding integers is a copy, which has none
    at_once = [dtype for dtype in ran if any(KERNEL in kernel for kernel in kernels[dtype])]
    return [" ".join(at_once), " ".join(dtype for dtype in ran if dtype not in at_once)]


def list_cases() -> dict[str, Callable[[], list[str]]]:
    return {f"{name} {kinds}": partial(run_case, name, kinds) for name, kinds in CALLS}
