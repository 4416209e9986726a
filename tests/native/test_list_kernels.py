"""Operators on lists of tensors: a profile names the kernel that takes a list at once where an H200's profile did.

The record has a row for an operator and the kinds of its arguments: ``tensor*`` is a list of tensors of the row's
type, ``int*`` a list of numbers. The types with which one kernel took the whole list come first, then the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.profiler import ProfilerActivity, profile

from torchdevice_cuda._compat import torch_release

pytestmark = child(VIRTUAL)

RECORD = Path(__file__).parents[1] / "data" / "list-kernels-h200.json"
KERNEL = "multi_tensor_apply_kernel"
NUMBERS = {"int": 2, "float": 0.5, "complex": 0.5 + 1j, "bool": True}
#: Types of the device that the CPU's kernels, which compute here, do not have: refused.
REFUSED = {("_foreach_abs", "bool", "tensor*")}
#: An order of 0 is computed at once since 2.13; the record is of 2.11.
SINCE = {"ord=0": (2, 13)}


def _argument(kind: str, dtype: torch.dtype) -> Any:
    if kind.endswith("*"):
        one = kind[:-1]
        if one in NUMBERS:
            return [NUMBERS[one]] * 3
        made = dtype if one == "tensor" else getattr(torch, one)
        return [torch.ones(size, size, device="cuda").to(made) for size in (3, 2, 1)]
    if kind.startswith("["):
        return [NUMBERS[one] for one in kind[1:-1].split(",")]
    return NUMBERS[kind]


def _keyword(value: str) -> Any:
    if value.startswith("torch."):
        return getattr(torch, value[6:])
    if value in NUMBERS or value == "None":
        return NUMBERS.get(value)
    return float(value) if "inf" in value else int(value)


def _kernels(event: Any) -> Iterator[str]:
    """What an operator launched, and those that it called."""
    yield from (kernel.name for kernel in event.kernels)
    for part in event.cpu_children:
        yield from _kernels(part)


def _calls() -> Iterator[tuple[str, list[Any], dict[str, Any], bool]]:
    for name, kinds, at_once, others in json.loads(RECORD.read_text())["rows"]:
        words = kinds.split()
        if any(torch_release(torch.__version__) >= since and word in words for word, since in SINCE.items()):
            continue
        keywords = dict(word.split("=") for word in words if "=" in word)
        for dtypes, expected in ((at_once, True), (others, False)):
            for dtype in dtypes.split():
                if (name, dtype, kinds) in REFUSED:
                    continue
                given = [_argument(word, getattr(torch, dtype)) for word in words if "=" not in word]
                yield name, given, {key: _keyword(value) for key, value in keywords.items()}, expected


@pytest.mark.parametrize(("name", "dtype", "kinds"), sorted(REFUSED))
def test_what_is_refused(name: str, dtype: str, kinds: str) -> None:
    given = [_argument(word, getattr(torch, dtype)) for word in kinds.split()]
    with pytest.raises(NotImplementedError, match="not implemented for"):
        getattr(torch, name)(*given)


def test_lists_at_once() -> None:
    calls = list(_calls())
    assert len(calls) > 1500
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for name, given, keywords, _ in calls:
            getattr(torch, name)(*given, **keywords)
    events = (event for event in profiled.events() if event.name.startswith("aten::_foreach") and not event.cpu_parent)
    ran = [(event.name, [*_kernels(event)]) for event in sorted(events, key=lambda event: event.time_range.start)]
    assert [name for name, _ in ran] == [f"aten::{name}" for name, *_ in calls]
    wrong = [
        (name, given[0][0].dtype, given[1:], keywords, kernels)
        for (name, given, keywords, expected), (_, kernels) in zip(calls, ran, strict=True)
        if not kernels or (kernels == [f"virtual aten::{name} ({KERNEL})"]) != expected
    ]
    assert not wrong, (len(wrong), wrong[:5])
