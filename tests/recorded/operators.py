"""PyTorch's operator samples in every dtype: whether they compute or refuse, in which words, and what they give.

The dtypes, shapes and strides of results, and whether the backward pass works. Not the values: samples are random, and
differ from one release of torch to the next.
"""

from __future__ import annotations

import os
import sys
import zlib
from functools import partial
from itertools import islice
from typing import Any

from recorded import Case

RECORD = "operators-cuda-2.11.json.xz"
#: The record knows no GPU profile: what differs between GPUs is not among the facts.
OPTIONS: dict[str, list[str]] = {"virtual": []}
BY_RELEASE = True
#: PyTorch's list of samples asks the GPU for its capability when it is imported.
IMPORTS_USE_GPU = True
#: So many processes on a GPU, whose device an operator may lose.
UNITS = 8
SAMPLES = 3
DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "complex32", "int64", "int32"),
    *("int16", "int8", "uint8", "bool", "float8_e4m3fn"),
)
WORDS = "other words"
#: Who catches an error looks at its type.
MILD = frozenset({WORDS})


def words(error: BaseException) -> list[str]:
    """Return an error's type and first line."""
    lines = str(error).strip().splitlines()
    return [type(error).__name__, lines[0][:160] if lines else ""]


def described(value: Any) -> str:
    """Describe a result."""
    import torch

    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    laid = list(value.stride()) if value.layout is torch.strided else value.layout
    return f"{value.dtype} {list(value.shape)} {laid}".removeprefix("torch.")


def moved(tree: Any, leaves: list[Any] | None = None) -> Any:
    """On the GPU; as leaves of a graph, where such are collected."""
    import torch
    from torch.utils._pytree import tree_map

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        there = value.to("cuda")
        if leaves is None or not (value.is_floating_point() or value.is_complex()):
            return there
        leaves.append(there.detach().requires_grad_())
        return leaves[-1]

    return tree_map(move, tree)


def forward(op: Any, sample: Any) -> list[str] | dict[str, list[str]]:
    """Return an operator's result, or its refusal."""
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        torch.manual_seed(3)
        made = op(moved(sample.input), *moved(sample.args), **moved(sample.kwargs))
        return [described(value) for value in tree_leaves(made)]
    except Exception as error:
        return {"error": words(error)}


def backward(op: Any, sample: Any) -> bool:
    """Return whether its backward pass works, or that it has none."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves: list[Any] = []
    try:
        made = op(*moved((sample.input, *sample.args), leaves), **moved(sample.kwargs, leaves))
        outs = [x for x in tree_leaves(made) if isinstance(x, torch.Tensor) and x.requires_grad]
        if outs:
            sums = [(x.abs() if x.is_complex() else x).sum().real for x in outs]
            torch.autograd.grad(sums, leaves, allow_unused=True)
    except Exception:
        return False
    return True


def row(op: Any, name: str, dtype: Any) -> dict[str, Any] | None:
    """Return the record of an operator and a dtype; nothing if it has no samples."""
    import torch

    torch.manual_seed(zlib.crc32(name.encode()))
    try:
        samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES))
    except Exception:  # not every sample can be made of every type
        return None
    made: dict[str, Any] = {"samples": [forward(op, sample) for sample in samples]}
    if dtype.is_floating_point or dtype.is_complex:
        made["backward"] = [backward(op, sample) for sample in samples]
    return made


def run_operator(op: Any, name: str) -> dict[str, Any]:
    """Return a row for each dtype that there are samples of."""
    import torch

    rows = {dtype: row(op, name, getattr(torch, dtype)) for dtype in DTYPES}
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # the device is lost: other operators need another process
    return {dtype: made for dtype, made in rows.items() if made is not None}


def prepare() -> None:
    import torch

    torch.set_num_threads(1)


def list_cases() -> dict[str, Case]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    named = ((f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name, op) for op in op_db)
    # The jiterator's are CUDA C++: code for an NVIDIA GPU.
    chosen = [(name, op) for name, op in named if not name.startswith("jiterator_")]
    units = UNITS if torch.cuda.is_available() else 1
    return {
        name: Case(name, partial(run_operator, op, name), unit=str(number % units))
        for number, (name, op) in enumerate(chosen)
    }


def split(name: str, there: dict[str, Any], here: Any) -> dict[str, tuple[Any, Any]]:
    """Return a fact for each dtype; other releases of torch have no samples of some."""
    if not isinstance(here, dict):
        return {name: (there, here)}
    return {f"{name} {dtype}": (row, here[dtype]) for dtype, row in there.items() if dtype in here}


def find_difference(there: dict[str, Any], here: Any, case: Any) -> str | None:
    """Say in what two rows differ, words last."""
    if not isinstance(here, dict):
        return "ends its process"
    found = set()
    for a, b in zip(there["samples"], here["samples"], strict=False):
        if isinstance(a, dict) != isinstance(b, dict):
            found.add("computes, CUDA refuses" if isinstance(a, dict) else "refuses, CUDA computes")
        elif isinstance(a, dict):
            (kind, text), (other, said) = a["error"], b["error"]
            if kind != other:
                found.add("another type of error")
            elif text != said:
                found.add(WORDS)
        elif a != b:
            found.add("another dtype, shape or stride")
    for a, b in zip(there.get("backward", ()), here.get("backward", ()), strict=False):
        if a != b:
            found.add("backward refuses, CUDA's works" if a else "backward works, CUDA's refuses")
    return min(found, key=lambda kind: (kind in MILD, kind), default=None)
