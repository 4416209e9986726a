"""What each of PyTorch's operator samples does here, against what it did on a real GPU: per operator and dtype.

    python tools/contract.py [--every 1] [--only mm,softmax] [-v]

Whether it computes or refuses, in which words, and the dtypes, shapes and strides of what it gives; whether its
backward pass works. Not the values: samples are random, and differ from one release of torch to the next. The record
(tests/data/operators-cuda-2.11.json.xz) was made on an NVIDIA H200 with torch 2.11.0.
"""

from __future__ import annotations

import argparse
import collections
import json
import lzma
import sys
import warnings
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
RECORD = ROOT / "tests" / "data" / "operators-cuda-2.11.json.xz"
SAMPLES = 3
#: All but the words: who catches an error looks at its type.
WORDS = "other words"


def words(error: BaseException) -> list[str]:
    """An error's type and first line."""
    lines = str(error).strip().splitlines()
    return [type(error).__name__, lines[0][:160] if lines else ""]


def described(value: Any) -> str:
    """What a result is like."""
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
    """What an operator gives, or how it refuses."""
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        torch.manual_seed(3)
        made = op(moved(sample.input), *moved(sample.args), **moved(sample.kwargs))
        return [described(value) for value in tree_leaves(made)]
    except Exception as error:
        return {"error": words(error)}


def backward(op: Any, sample: Any) -> bool:
    """Whether its backward pass works, or it has none."""
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
    """What the record holds of an operator and a dtype; nothing where it has no samples."""
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


def differences(there: dict[str, Any], here: dict[str, Any]) -> set[str]:
    """In what two rows differ."""
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
    return found


def compared(options: argparse.Namespace) -> Iterator[tuple[str, str, set[str]]]:
    """Operator, dtype and what differs, for all that are asked for."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    with lzma.open(options.record, "rt") as file:
        record = json.load(file)
    only = set(filter(None, options.only.split(",")))
    for op in op_db[:: options.every]:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if op.name.startswith("jiterator_"):  # CUDA C++: code for an NVIDIA GPU
            continue
        if only and op.name not in only and name not in only:
            continue
        for dtype, there in record.get(name, {}).items():
            here = row(op, name, getattr(torch, dtype))
            if here is not None:
                yield name, dtype, differences(there, here)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one operator of N")
    parser.add_argument("--only", default="", help="operators, comma-separated")
    parser.add_argument("--alike", type=float, default=0.0, help="fail below this percentage")
    parser.add_argument("--worded", type=float, default=0.0, help="fail below this percentage, words counted")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="virtual", visible_devices="0")
    pairs = alike = worded = 0
    kinds: dict[str, dict[str, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, dtype, found in compared(options):
        pairs += 1
        alike += not found - {WORDS}
        worded += not found
        for kind in found:
            kinds[kind][name].append(dtype)
    if not pairs:
        print("nothing was compared")
        return 1
    shares = 100 * alike / pairs, 100 * worded / pairs
    print(f"{alike} of {pairs} pairs behave alike ({shares[0]:.1f}%)")
    print(f"{worded} with the errors' words ({shares[1]:.1f}%)")
    for kind, names in sorted(kinds.items()):
        print(f"{sum(map(len, names.values())):6d}  {kind}")
        for name, dtypes in sorted(names.items()) if options.verbose else ():
            print("         ", name, *dtypes)
    return int(shares[0] < options.alike or shares[1] < options.worded)


if __name__ == "__main__":
    sys.exit(main())
