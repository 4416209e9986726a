"""``torch._C._nvtx``: ranges and marks.

Without an attached tool NVTX tracks nothing, which its return values show. Here the tool is torch's own profiler: while
it runs, ranges are recorded in its trace and the return values are those of NVTX with a tool.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import torch

from . import pybind

if TYPE_CHECKING:
    from torch.autograd.profiler import record_function

__all__ = ["_nvtx"]

_NOT_TRACKED = -2  # NVTX_NO_PUSH_POP_TRACKING: no tool is attached
_NO_RANGE = -1

_thread = threading.local()
_lock = threading.Lock()
_started: dict[int, record_function] = {}
_ids = itertools.count(1)


def _profiled() -> bool:
    """Return whether torch's profiler runs."""
    return torch._C._autograd._profiler_enabled()


def _begin(message: str) -> record_function | None:
    """Open a range in the running profiler's trace; return ``None`` if none runs."""
    if not _profiled():
        return None
    from torch.autograd.profiler import record_function

    recorded: record_function = record_function(message).__enter__()
    return recorded


def _end(recorded: record_function | None) -> None:
    if recorded is not None:
        recorded.__exit__(None, None, None)


def _ranges() -> list[record_function | None]:
    """Return this thread's pushed ranges; ``None`` for a range without a profiler."""
    ranges: list[record_function | None] = _thread.__dict__.setdefault("ranges", [])
    return ranges


def rangePushA(message: str) -> int:
    """Open a range inside the thread's open ones; return its depth, counted from zero."""
    pybind.check(isinstance(message, str), "rangePushA", "(arg0: str) -> int", message)
    ranges = _ranges()
    ranges.append(_begin(message))
    return _NOT_TRACKED if ranges[-1] is None else len(ranges) - 1


def rangePop() -> int:
    """Close the thread's innermost range; return its depth."""
    ranges = _ranges()
    if not ranges:
        return _NO_RANGE if _profiled() else _NOT_TRACKED
    recorded = ranges.pop()
    if recorded is None:
        return _NOT_TRACKED
    _end(recorded)
    return len(ranges)


def rangeStartA(message: str) -> int:
    """Open a range that any thread may close; return its id, 0 without a profiler."""
    pybind.check(isinstance(message, str), "rangeStartA", "(arg0: str) -> int", message)
    recorded = _begin(message)
    if recorded is None:
        return 0
    with _lock:
        range_id = next(_ids)
        _started[range_id] = recorded
    return range_id


def rangeEnd(range_id: int) -> None:
    """Close a range by its id; ids that are not open are ignored, as NVTX does."""
    pybind.check(isinstance(range_id, int), "rangeEnd", "(arg0: typing.SupportsInt) -> None", range_id)
    with _lock:
        recorded = _started.pop(range_id, None)
    _end(recorded)


def markA(message: str) -> None:
    """Record a mark: a range that closes at once."""
    pybind.check(isinstance(message, str), "markA", "(arg0: str) -> None", message)
    _end(_begin(message))


class _DeviceRange:
    """The handle of a range that opened in a stream's order."""

    def __init__(self, range_id: int) -> None:
        self.range_id = range_id


def deviceRangeStart(message: str, stream: int) -> object:
    """Open a range after the work in a stream; the host has already done that work."""
    return _DeviceRange(rangeStartA(message))


def deviceRangeEnd(handle: object, stream: int) -> None:
    """Close the range."""
    accepts = "(arg0: types.CapsuleType, arg1: typing.SupportsInt) -> None"
    if not isinstance(handle, _DeviceRange):
        raise pybind.wrong_arguments("deviceRangeEnd", accepts, handle, stream)
    rangeEnd(handle.range_id)


_nvtx = pybind.submodule(
    "torch._C._nvtx",
    "NVTX ranges, recorded by torch's profiler where one runs",
    pybind.public(rangePushA, rangePop, rangeStartA, rangeEnd, markA, deviceRangeStart, deviceRangeEnd),
)
