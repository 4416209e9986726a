"""Memory: statistics, raw allocations, snapshots, pools."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ..._compat import counts_rejections, raw_sizes_are_signed
from ...drivers import active
from ...drivers.allocation import NATIVE
from ...drivers.memory import PoolId, Recording
from .allocators import _cuda_CUDAAllocator, _CUDAPluggableAllocator, not_replaced
from .graphs import next_pool_id
from .pybind import define, wrong_arguments

__all__ = ["_MemPool", "_MemPoolContext", "_host_emptyCache"]

_history = False


def _device(device: object, what: str) -> int:
    if type(device) is not int:
        raise RuntimeError(f"invalid argument to {what}")
    return device


# ---------------------------------------------------------------------- statistics
def _cuda_memoryStats(device: int) -> dict[str, Any]:
    """Return nested statistics of a device."""
    import torch

    stats = active().memory.stats(_device(device, "memory_allocated"))
    # Without rejections, show only the figures of earlier releases, to programs that list them.
    if not stats.get("num_oom_rejections") or not counts_rejections(torch.__version__):
        stats.pop("num_oom_rejections", None)
    return stats


def _host_emptyCache() -> None:
    """Release cached pinned memory."""
    active().memory.empty_host_cache()


# -------------------------------------------------------------------- raw allocations
_SIZES, _BLOCK = 2**64, 512


def _cuda_cudaCachingAllocator_raw_alloc(size: int, stream: int) -> int:
    """Allocate memory on the current device.

    In older releases sizes are unsigned, and a negative one is very large. The largest sizes wrap to zero when they are
    rounded up to whole blocks, and CUDA allocates the smallest block for them.
    """
    import torch

    driver = active()
    if not isinstance(size, int):
        # torch's own function does not return after it has raised this error.
        name = "_cuda_cudaCachingAllocator_raw_alloc"
        raise SystemError(f"<built-in function {name}> returned a result with an exception set")
    if size < 0 and raw_sizes_are_signed(torch.__version__):
        raise ValueError(f"Invalid memory size: {size}. caching_allocator_alloc requires a non-negative size.")
    unsigned = size % _SIZES
    taken = unsigned if unsigned <= _SIZES - _BLOCK else 1
    return driver.memory.allocate(taken, driver.current_device(), stream)


def _cuda_cudaCachingAllocator_raw_delete(address: int) -> None:
    """Free raw memory."""
    if not isinstance(address, int):
        raise TypeError(f"a memory address is an integer, not {type(address).__name__}")
    active().memory.release(address)


_free_mutex = threading.Lock()


def _cuda_lock_mutex() -> None:
    """Prevent frees, under the name of torch 2.10 and older; the host still frees."""
    _free_mutex.acquire()


def _cuda_unlock_mutex() -> None:
    """Allow frees again."""
    _free_mutex.release()


# ------------------------------------------------------------------------- snapshots
def _cuda_memorySnapshot(request: tuple[int, int] | tuple[int, int, bool] | None = None) -> dict[str, Any]:
    """Return all memory, or that of the pool in ``(a, b, with traces)``; ``(0, 0)`` and ``None`` mean all.

    Until 2.7 torch passes nothing, and means the active pool.
    """
    if request is None:
        meant = _MemPoolContext.active_pool()
        return active().memory.snapshot(None if meant is None else meant.id)
    pool: PoolId = (request[0], request[1])
    with_traces = len(request) < 3 or bool(request[2])
    return active().memory.snapshot(None if pool == (0, 0) else pool, with_traces)


_CONTEXTS = (None, "state", "alloc", "all")
_ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "snapshot",
)


def _record(wanted: Recording) -> None:
    """Check the options and set them in the driver."""
    global _history
    for action in wanted.skipped:
        if action not in _ACTIONS:
            raise RuntimeError(f"Unknown TraceEntry action: {action}")
    active().memory.record_history(wanted)
    _history = wanted.enabled is not None


def _cuda_record_memory_history(
    enabled: str | None,
    context: str | None = None,
    stacks: str = "all",
    most: int = 0,
    clear: bool = False,
    compiled: bool = False,
    every_thread: bool = False,
    skipped: Sequence[str] = (),
    *_: Any,
) -> None:
    """Start or stop recording a history, with the current arguments."""
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in _CONTEXTS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    _record(Recording(enabled, context, stacks == "all", most, clear, skipped, compiled, every_thread))


def _cuda_record_memory_history_legacy(
    enabled: bool,
    record_context: bool,
    most: int,
    trace_context: bool,
    cpp: bool,
    clear: bool = False,
    compiled: bool = False,
    every_thread: bool = False,
    skipped: Sequence[str] = (),
    *_: Any,
) -> None:
    """Start or stop recording a history, with the legacy arguments."""
    context = "alloc" if trace_context else "state" if record_context else None
    _record(Recording("all" if enabled else None, context, cpp, most, clear, skipped, compiled, every_thread))


def _cuda_setMemoryMetadata(text: str) -> None:
    """Set the text recorded with the calling thread's allocations."""
    if not isinstance(text, str):
        raise wrong_arguments("_cuda_setMemoryMetadata", "(arg0: str) -> None", text)
    active().memory.set_metadata(text)


def _cuda_annotateMemory(address: int, text: str) -> None:
    """Refuse a text about a missing allocation; the host's history does not store others."""
    if not isinstance(text, str) or not hasattr(address, "__index__"):
        accepts = "(arg0: typing.SupportsInt | typing.SupportsIndex, arg1: str) -> None"
        raise wrong_arguments("_cuda_annotateMemory", accepts, address, text)
    segments = active().memory.snapshot()["segments"]
    blocks = (block for segment in segments for block in segment["blocks"])
    if not any(block["address"] == address and block["state"] == "active_allocated" for block in blocks):
        raise RuntimeError(f"annotateMemory: no live allocation found at pointer {address}")


# ------------------------------------------------------------------------------ pools
class _MemPool:
    """A pool: an id that allocations can belong to. It owns its memory, and releases it when it is dropped."""

    def __init__(
        self,
        allocator: _cuda_CUDAAllocator | None = None,
        is_user_created: bool = True,
        use_on_oom: bool = False,
        no_split: bool = False,
    ) -> None:
        if isinstance(allocator, _CUDAPluggableAllocator):
            raise not_replaced()
        self._id = next_pool_id()
        self._allocator = allocator
        driver = active()
        self._device, self._memory = driver.current_device(), driver.memory
        self._memory.retain_pool(self._device, self._id)
        self._memory.set_pool_options(self._device, self._id, use_on_oom=use_on_oom, no_split=no_split)

    def __del__(self) -> None:
        """Release the pool: unused memory is freed at once, the rest when it is free and needed elsewhere."""
        memory = getattr(self, "_memory", None)  # missing if __init__ failed
        if memory is not None:
            memory.release_pool(self._device, self._id)
            memory.empty_cache(self._id)

    @property
    def id(self) -> PoolId:
        """Return the pool's id."""
        return self._id

    @property
    def allocator(self) -> _cuda_CUDAAllocator | None:
        """Return the allocator of the pool."""
        return self._allocator

    def use_count(self) -> int:
        """Return the number of owners of the pool."""
        return self._memory.pool_holders(self._device, self._id)


class _MemPoolContext:
    """Makes a pool active while this object lives; then the previous one is active again."""

    _active: list[_MemPool] = []

    def __init__(self, pool: _MemPool) -> None:
        self._pool = pool
        self._active.append(pool)

    def __del__(self) -> None:
        if self._pool in self._active:
            self._active.remove(self._pool)

    @staticmethod
    def active_pool() -> _MemPool | None:
        """Return the pool that is active, if there is one."""
        return _MemPoolContext._active[-1] if _MemPoolContext._active else None


_MemPool.__module__ = _MemPoolContext.__module__ = "torch._C"


def _cuda_checkPoolLiveAllocations(device: int, pool: PoolId, expected: set[int]) -> bool:
    """Return whether exactly these addresses are live in a pool."""
    live = {
        block["address"]
        for segment in active().memory.snapshot(pool)["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and segment["device"] == device
    }
    return live == set(expected)


# ------------------------------------------------------- what the driver's memory answers
define(
    globals(),
    {
        "_cuda_resetAccumulatedMemoryStats": lambda device: active().memory.reset_accumulated(
            _device(device, "reset_accumulated_memory_stats")
        ),
        "_cuda_resetPeakMemoryStats": lambda device: active().memory.reset_peak(
            _device(device, "reset_peak_memory_stats")
        ),
        "_cuda_hostMemoryStats": lambda: active().memory.host_stats(),
        "_cuda_resetAccumulatedHostMemoryStats": lambda: active().memory.reset_host_accumulated(),
        "_cuda_resetPeakHostMemoryStats": lambda: active().memory.reset_host_peak(),
        "_cuda_getMemoryFraction": lambda device: active().memory.fraction(active().check(device)),
        "_cuda_setMemoryFraction": lambda fraction, device: active().memory.set_fraction(
            fraction, active().check(device)
        ),
        "_cuda_emptyCache": lambda: active().memory.empty_cache(),
        "_cuda_cudaCachingAllocator_enable": lambda value: active().memory.set_caching(bool(value)),
        "_cuda_cudaCachingAllocator_is_enabled": lambda: active().memory.caching,
        "_cuda_isHistoryEnabled": lambda: _history,
        "_cuda_allocationTraceback": lambda address: active().memory.frames_at(address),
        "_cuda_getMemoryMetadata": lambda: active().memory.metadata,
        "_cuda_memoryMetadataSupported": lambda: active().memory.settings.backend == NATIVE,
        "_cuda_attach_out_of_memory_observer": lambda observer: active().memory.on_out_of_memory(observer),
        "_cuda_beginAllocateToPool": lambda device, pool: active().memory.enter_pool(device, pool, every_thread=True),
        "_cuda_beginAllocateCurrentThreadToPool": lambda device, pool: active().memory.enter_pool(device, pool),
        "_cuda_beginAllocateCurrentStreamToPool": lambda device, stream, pool: active().memory.enter_pool(device, pool),
        "_cuda_endAllocateToPool": lambda device, pool: active().memory.leave_pool(device, pool),
        "_cuda_endAllocateCurrentStreamToPool": lambda device, pool: active().memory.leave_pool(device, pool),
        "_cuda_releasePool": lambda device, pool: active().memory.release_pool(device, pool),
    },
)
