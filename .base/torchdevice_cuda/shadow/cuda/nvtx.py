"""Names for stretches of a program: NVTX ranges and marks.

While torch's profiler runs, the ranges appear in its trace. Otherwise no one listens, and the functions return what
NVTX returns without a tool attached.
"""

from contextlib import contextmanager

from torch._C import _nvtx

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def range_push(msg):
    """Open a range named ``msg`` inside the thread's open ones.

    Returns its depth, counted from zero; -2 where no profiler runs.
    """
    return _nvtx.rangePushA(msg)


def range_pop():
    """Close the thread's innermost open range.

    Returns the depth it had; a negative number where none was open or no profiler runs.
    """
    return _nvtx.rangePop()


def range_start(msg) -> int:
    """Open a range named ``msg`` that any thread may close with :func:`range_end`, to which its number goes.

    Returns that number; 0 where no profiler runs.
    """
    return _nvtx.rangeStartA(msg)


def range_end(range_id) -> None:
    """Close the range that :func:`range_start` gave this number."""
    _nvtx.rangeEnd(range_id)


def _device_range_start(msg: str, stream: int = 0) -> object:
    """Open a range once the work in a stream is done; the handle goes to :func:`_device_range_end`."""
    return _nvtx.deviceRangeStart(msg, stream)


def _device_range_end(range_handle: object, stream: int = 0) -> None:
    """Close such a range once the work in a stream is done."""
    _nvtx.deviceRangeEnd(range_handle, stream)


def mark(msg):
    """Note a moment named ``msg``."""
    return _nvtx.markA(msg)


@contextmanager
def range(msg, *args, **kwargs):
    """Name what runs inside ``with`` or inside the decorated function; ``msg`` is formatted with further arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
