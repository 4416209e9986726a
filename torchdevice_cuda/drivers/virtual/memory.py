"""Memory kept by the native device's own allocator: every allocation is in its books."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from ...native.interface import Native
from ..memory import COMMON, Memory, OutOfMemoryObserver, PoolId

_MAX_FRAMES = 64


def _frames() -> list[dict[str, Any]]:
    """The Python stack of an allocation, innermost first, as memory viewers read it."""
    frame: FrameType | None = sys._getframe(1)
    found: list[dict[str, Any]] = []
    while frame is not None and len(found) < _MAX_FRAMES:
        code = frame.f_code
        found.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return found


class NativeMemory(Memory):
    """Memory over the native module."""

    source = "the virtual GPU's own allocator: every allocation, rounded and cached as CUDA's does"

    def __init__(self, native: Native, device_count: int) -> None:
        self._native = native
        self._device_count = device_count

    def _check(self, device: int) -> int:
        if not 0 <= device < self._device_count:
            raise RuntimeError(f"Invalid device argument {device}: did you call init?")
        return device

    def stats(self, device: int) -> dict[str, Any]:
        """Nested statistics."""
        return self._native.memory_stats(self._check(device))

    def reset_peak(self, device: int) -> None:
        """Start the peaks from the present."""
        self._native.reset_peak_stats(self._check(device))

    def reset_accumulated(self, device: int) -> None:
        """Start the sums from zero."""
        self._native.reset_accumulated_stats(self._check(device))

    def info(self, device: int) -> tuple[int, int]:
        """Free and total bytes."""
        return self._native.mem_info(device)

    def empty_cache(self, pool: PoolId = COMMON) -> None:
        """Give segments that nothing uses back to the host."""
        self._native.empty_cache(*pool)

    def allocate(self, size: int, device: int, stream: int) -> int:
        """Raw memory."""
        return self._native.raw_alloc(size, device, stream)

    def release(self, address: int) -> None:
        """Free raw memory."""
        self._native.raw_delete(address)

    def snapshot(self, pool: PoolId | None = None) -> dict[str, Any]:
        """Segments, blocks and history."""
        found = self._native.snapshot()
        if pool is not None:
            found["segments"] = [entry for entry in found["segments"] if tuple(entry["segment_pool_id"]) == pool]
        return found

    def record_history(self, enabled: str | None, max_entries: int, clear: bool) -> None:
        """Keep a history with the Python stack of each allocation."""
        if clear:
            self._native.record_history(None)
        self._native.record_history(enabled, frames=_frames, max_entries=max(1, min(max_entries, sys.maxsize)))

    def fraction(self, device: int) -> float:
        """The share of the device's memory this process may take."""
        return self._native.get_fraction(device)

    def set_fraction(self, fraction: float, device: int) -> None:
        """Set that share."""
        self._native.set_fraction(fraction, device)

    def host_stats(self) -> dict[str, Any]:
        """Nested statistics of pinned memory, under CUDA's names; the host does not time its own allocations."""
        kept = self._native.host_stats()
        times = {"total": 0, "max": 0, "min": 0, "count": 0, "avg": 0}
        return {
            "num_host_alloc": kept["num_host_alloc"],
            "num_host_free": kept["num_host_free"],
            "allocations": kept["segment"],
            "active_requests": kept["allocation"],
            "allocated_bytes": kept["reserved_bytes"],
            "active_bytes": kept["allocated_bytes"],
            "host_alloc_time": dict(times),
            "host_free_time": dict(times),
        }

    def reset_host_peak(self) -> None:
        """Start the peaks of pinned memory from the present."""
        self._native.host_reset_peak_stats()

    def reset_host_accumulated(self) -> None:
        """Start the sums of pinned memory from zero."""
        self._native.host_reset_accumulated_stats()

    def retain_pool(self, device: int, pool: PoolId) -> None:
        """One holder of a pool more."""
        self._native.pool_retain(device, *pool)

    def release_pool(self, device: int, pool: PoolId) -> None:
        """One holder of a pool less."""
        self._native.pool_release(device, *pool)

    def pool_holders(self, device: int, pool: PoolId) -> int:
        """How many hold a pool."""
        return self._native.pool_use_count(device, *pool)

    def enter_pool(self, device: int, pool: PoolId, every_thread: bool = False) -> None:
        """Send the calling thread's allocations, or everybody's, to a pool."""
        self._native.pool_begin(device, *pool, not every_thread)

    def leave_pool(self, device: int, pool: PoolId) -> None:
        """Stop sending allocations to a pool."""
        self._native.pool_end(device, *pool)

    def on_out_of_memory(self, observer: OutOfMemoryObserver) -> None:
        """Have the native allocator call it."""
        self._native.attach_out_of_memory_observer(observer)

    def out_of_memory(self, size: int, device: int) -> Exception:
        """The allocator words and counts its own errors; this one is for requests that never reach it."""
        import torch

        return torch._C.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB.")

    def in_use(self, device: int) -> int:
        """What this process holds of the device: nobody else can use it."""
        free, total = self.info(device)
        return total - free
