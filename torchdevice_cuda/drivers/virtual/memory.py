"""Memory of the native device's own allocator, which has statistics of every allocation."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from ...native.interface import Native
from .. import allocation
from ..memory import COMMON, Memory, OutOfMemoryObserver, PoolId, Recording

#: the folder of torchdevice_cuda
_PACKAGE = str(Path(__file__).parents[2]) + os.sep
#: which events have stacks, by the program's names
_KEEPING = {None: 0, "state": 1, "alloc": 2, "all": 3}
#: the amount that cudaMallocAsync takes from the system at a time
_ASYNC_UNIT = 32 << 20
_ASYNC_BOOKS = {
    "allocated_bytes": "requested_bytes",
    "active_bytes": "requested_bytes",
    "reserved_bytes": "reserved_bytes",
}


def _zeroed(stats: Any) -> Any:
    return {name: _zeroed(value) for name, value in stats.items()} if isinstance(stats, dict) else 0


def _as_async(stats: dict[str, Any]) -> dict[str, Any]:
    """Return cudaMallocAsync's statistics: the bytes in use and reserved, without blocks."""
    shown: dict[str, Any] = _zeroed(stats)
    for name, source in _ASYNC_BOOKS.items():
        unit = _ASYNC_UNIT if name == "reserved_bytes" else 1
        for figure in ("current", "peak"):
            shown[name]["all"][figure] = -(-stats[source]["all"][figure] // unit) * unit
    return shown


def _starts_program(frame: dict[str, Any]) -> bool:
    """Return whether a frame belongs to the start of a program, which is on no stack of a script."""
    name: str = frame["filename"]
    return name == "<frozen runpy>" or name.endswith(("/runpy.py", "/torchdevice-cuda"))


def _drop_starting_frames(snapshot: dict[str, Any]) -> None:
    """Remove such frames from a snapshot."""
    blocks = [block for segment in snapshot["segments"] for block in (segment, *segment["blocks"])]
    for entry in (*blocks, *(entry for trace in snapshot["device_traces"] for entry in trace)):
        if entry.get("frames"):
            entry["frames"] = [frame for frame in entry["frames"] if not _starts_program(frame)]


class NativeMemory(Memory):
    """Memory over the native module."""

    source = "the virtual GPU's own allocator: every allocation, rounded and cached as CUDA's does"

    def __init__(self, native: Native, device_count: int) -> None:
        self._native = native
        self._device_count = device_count
        native.hide_frames(_PACKAGE)  # no GPU has these frames between the program and the allocator

    def _check(self, device: int) -> int:
        if not 0 <= device < self._device_count:
            raise RuntimeError(f"Invalid device argument {device}: did you call init?")
        return device

    # ----------------------------------------------------------------- settings
    def start(self) -> None:
        """Apply the environment's options: called when the device is first used."""
        self._native.set_caching(self.caching and allocation.caches())
        _ = self.settings

    def apply(self, settings: allocation.Settings) -> None:
        """Configure the allocator; the memory fraction is that of the start of a process."""
        if self._settings is None and settings.fraction < 1:
            for device in range(self._device_count):
                self._native.set_fraction(settings.fraction, device)
        super().apply(settings)
        is_async = settings.backend == allocation.ASYNC
        acting = allocation.Settings() if is_async else settings  # that allocator has no such options
        self._native.configure(
            {
                "max_split": acting.max_split,
                "large_segment": acting.large_segment,
                "max_rounding": acting.max_rounding,
                "collect_above": acting.collect_above,
                "divisions": acting.divisions,
                "expandable": acting.expandable,
                "reuses_in_capture": acting.reuses_in_capture,
                "async": is_async,
                "reject_beyond": acting.fraction if acting.rejects else -1.0,
                "pinned_rounded": settings.pinned_rounded,
                "pinned_kept": settings.pinned_kept,
            }
        )

    def set_caching(self, on: bool) -> None:
        """Enable caching, or allocate from the host each time, without statistics, and free it at once."""
        super().set_caching(on)
        self._native.set_caching(on and allocation.caches())

    @property
    def metadata(self) -> str:
        """Return the allocator's metadata, which it records."""
        return self._native.get_metadata()

    def set_metadata(self, text: str) -> None:
        self._native.set_metadata(text)

    @property
    def _is_async(self) -> bool:
        return self.settings.backend == allocation.ASYNC

    def _only_native(self, what: str) -> None:
        """Raise cudaMallocAsync's error for a function that it does not support."""
        if self._is_async:
            raise RuntimeError(
                f"cudaMallocAsync does not yet support {what}. If you need it, please file an issue describing your "
                "use case."
            )

    # --------------------------------------------------------------- statistics
    def stats(self, device: int) -> dict[str, Any]:
        stats = self._native.memory_stats(self._check(device))
        return _as_async(stats) if self._is_async else stats

    def reset_peak(self, device: int) -> None:
        self._native.reset_peak_stats(self._check(device))

    def reset_accumulated(self, device: int) -> None:
        self._check(device)
        if self._is_async:
            warnings.warn("For backend:cudaMallocAsync, resetAccumulatedStats has no effect.", stacklevel=4)
            return
        self._native.reset_accumulated_stats(device)

    def info(self, device: int) -> tuple[int, int]:
        return self._native.mem_info(device)

    def empty_cache(self, pool: PoolId = COMMON) -> None:
        """Return unused segments to the host."""
        self._native.empty_cache(*pool)

    def allocate(self, size: int, device: int, stream: int) -> int:
        """Allocate raw memory."""
        return self._native.raw_alloc(size, device, stream)

    def release(self, address: int) -> None:
        self._native.raw_delete(address)

    def snapshot(self, pool: PoolId | None = None, with_traces: bool = True) -> dict[str, Any]:
        """Return segments, blocks and history."""
        if self._is_async:
            raise RuntimeError(
                "Calling snapshot with backend:cudaMallocAsync is not meaningful. (For backend:native, snapshot "
                "returns a detailed summary of all blocks tracked by the allocator, but the cudaMallocAsync backend "
                "does not track individual blocks.)"
            )
        found = self._native.snapshot(*(pool or COMMON), with_traces=with_traces)
        found["allocator_settings"] = self.settings.shown()
        _drop_starting_frames(found)
        return found

    def record_history(self, wanted: Recording) -> None:
        """Record a history with the program's stacks."""
        self._only_native("recordHistory")
        self._native.record_history(
            wanted.enabled is not None,
            max_entries=wanted.max_entries if wanted.enabled == "all" else 1,
            keeping=_KEEPING[wanted.context],
            with_cpp=wanted.with_cpp,
            clear=wanted.clear,
            skipped=list(wanted.skipped),
            with_compiled=wanted.with_compiled,
            every_thread=wanted.every_thread,
        )

    def frames_at(self, address: int) -> list[dict[str, Any]] | None:
        found = self._native.frames_at(address)
        return None if found is None else [frame for frame in found if not _starts_program(frame)]

    def fraction(self, device: int) -> float:
        return self._native.get_fraction(device)

    def set_fraction(self, fraction: float, device: int) -> None:
        self._native.set_fraction(fraction, device)

    def host_stats(self) -> dict[str, Any]:
        """Return nested statistics of pinned memory, with CUDA's names."""
        kept = self._native.host_stats()
        return {
            "num_host_alloc": kept["num_host_alloc"],
            "num_host_free": kept["num_host_free"],
            "allocations": kept["segment"],
            "active_requests": kept["allocation"],
            "allocated_bytes": kept["reserved_bytes"],
            "active_bytes": kept["allocated_bytes"],
            "host_alloc_time": kept["alloc_time"],
            "host_free_time": kept["free_time"],
        }

    def reset_host_peak(self) -> None:
        self._native.host_reset_peak_stats()

    def reset_host_accumulated(self) -> None:
        self._native.host_reset_accumulated_stats()

    def empty_host_cache(self) -> None:
        """Return unused pinned memory to the host."""
        self._native.host_empty_cache()

    def retain_pool(self, device: int, pool: PoolId) -> None:
        self._only_native("createOrIncrefPool")
        self._native.pool_retain(device, *pool)

    def release_pool(self, device: int, pool: PoolId) -> None:
        self._native.pool_release(device, *pool)

    def pool_holders(self, device: int, pool: PoolId) -> int:
        return self._native.pool_use_count(device, *pool)

    def set_pool_options(self, device: int, pool: PoolId, *, use_on_oom: bool, no_split: bool) -> None:
        """Set the options in the allocator."""
        self._native.pool_use_on_oom(device, *pool, use_on_oom)
        if no_split:
            self._native.pool_no_split(device, *pool)

    def enter_pool(self, device: int, pool: PoolId, every_thread: bool = False) -> None:
        """Assign allocations of the calling thread, or of all threads, to a pool."""
        self._native.pool_begin(device, *pool, not every_thread)

    def leave_pool(self, device: int, pool: PoolId) -> None:
        """Stop assigning allocations to a pool."""
        self._native.pool_end(device, *pool)

    def on_out_of_memory(self, observer: OutOfMemoryObserver) -> None:
        """Register an observer with the native allocator."""
        self._only_native("attachOutOfMemoryObserver")
        self._native.attach_out_of_memory_observer(observer)

    def out_of_memory(self, size: int, device: int) -> Exception:
        """Return the error for requests that never reach the allocator, which creates and counts its own errors."""
        import torch

        return torch._C.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB.")

    def in_use(self, device: int) -> int:
        """Return this process's memory on the device, which no other process can use."""
        free, total = self.info(device)
        return total - free
