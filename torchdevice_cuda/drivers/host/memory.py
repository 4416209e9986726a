"""Memory figures of a device that shares the process's memory: the operating system's figures for the process.

"Allocated" is the resident memory beyond what the process held when the device was first used. The peak is exact if the
system has a high-water mark above the last reset, else the highest figure that any query has seen. Blocks of
``caching_allocator_alloc`` are tracked individually.
"""

from __future__ import annotations

import collections
import ctypes
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import allocation
from ..memory import COMMON, Memory, OutOfMemoryObserver, PoolId, Recording
from . import machine

_POOLS = ("all", "small_pool", "large_pool")
_COUNTED = ("allocation", "segment", "active", "inactive_split")
_BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
_OVERSIZE = ("oversize_allocations", "oversize_segments")
_ROUNDING = 512
_EXABYTE = 1 << 60
_HOST_FULL = re.compile(r"DefaultCPUAllocator: .*you tried to allocate (\d+) bytes")


def _zero() -> dict[str, int]:
    return {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


def _as_id(pool: Sequence[int]) -> PoolId:
    """Return a pool's id; torch also passes them as lists."""
    return pool[0], pool[1]


def high_water_mark() -> int | None:
    """Return the most resident memory that this process ever had, if the system reports it.

    On Linux ``getrusage`` would include the process that started this one, if that had more.
    """
    if sys.platform == "linux":
        found = re.search(rb"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_bytes(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Gauge:
    """A figure that rises and falls, with its peak and the sums of its rises and falls since the last resets."""

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def set(self, value: int) -> None:
        """Set the figure."""
        step = value - self.current
        self.allocated += max(0, step)
        self.freed += max(0, -step)
        self.current = value
        self.peak = max(self.peak, value)

    def add(self, step: int) -> None:
        """Add to the figure."""
        self.set(self.current + step)

    def reset_peak(self) -> None:
        """Reset the peak to the current figure."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Reset the sums to zero."""
        self.allocated = self.freed = 0

    def as_dict(self) -> dict[str, int]:
        """Return a figure as CUDA's statistics show it."""
        return {"current": self.current, "peak": self.peak, "allocated": self.allocated, "freed": self.freed}


class _Block:
    """One raw allocation, with the buffer that backs it."""

    def __init__(self, size: int, device: int, stream: int, pool: PoolId) -> None:
        self.requested = size
        self.pool = pool
        self.size = max(_ROUNDING, -(-size // _ROUNDING) * _ROUNDING)
        self.device = device
        self.stream = stream
        self.buffer = ctypes.create_string_buffer(self.size)
        self.address = ctypes.addressof(self.buffer)


class _Entered(threading.local):
    """The pools that a thread has entered, by device."""

    def __init__(self) -> None:
        self.pools: dict[int, list[PoolId]] = collections.defaultdict(list)


class ProcessMemory(Memory):
    """The memory of a device in host memory that has no statistics of its own."""

    source = "the process's resident memory (psutil), beyond what it held when the device was first used"

    def __init__(self, device_count: int, limit: int | None) -> None:
        import psutil

        self._process = psutil.Process()
        self._limit = limit
        self._lock = threading.Lock()
        self.baseline: int | None = None
        self._mark_at_reset = high_water_mark()
        self._used = [Gauge() for _ in range(device_count)]
        self._requests = [Gauge() for _ in range(device_count)]
        self._blocks: dict[int, _Block] = {}
        self._fractions = [1.0] * device_count
        self._ooms = [0] * device_count
        self._history: list[list[dict[str, Any]]] = [[] for _ in range(device_count)]
        self._history_limit = 0
        self._skipped: frozenset[str] = frozenset()
        self._entered = _Entered()
        self._holders: collections.Counter[tuple[int, PoolId]] = collections.Counter()
        self._observers: list[OutOfMemoryObserver] = []

    # ------------------------------------------------------------------ sampling
    def start(self) -> None:
        """Set the figure from which "allocated" counts: called when the device is first used."""
        if self.baseline is None:
            self.baseline = self._process.memory_info().rss

    def _sample(self, device: int) -> Gauge:
        """Update a device's figure. The process has only one figure, which the first device shows."""
        gauge = self._used[device]
        if device == 0 and self.baseline is not None:
            gauge.set(max(0, self._process.memory_info().rss - self.baseline))
            mark = high_water_mark()
            if mark is not None and self._mark_at_reset is not None and mark > self._mark_at_reset:
                gauge.peak = max(gauge.peak, mark - self.baseline)
        return gauge

    # ---------------------------------------------------------------- statistics
    def _check(self, device: int) -> None:
        if not 0 <= device < len(self._used):
            raise RuntimeError(f"Invalid device argument {device}: did you call init?")

    def stats(self, device: int) -> dict[str, Any]:
        """Return process memory as allocated, reserved, active and requested bytes; raw allocations as counts."""
        self._check(device)
        with self._lock:
            used = self._sample(device).as_dict()
            requests = self._requests[device].as_dict()
        stats: dict[str, Any] = {
            "num_alloc_retries": 0,
            "num_ooms": self._ooms[device],
            "max_split_size": self.shown_split,
            "num_sync_all_streams": 0,
            "num_device_alloc": requests["allocated"],
            "num_device_free": requests["freed"],
            "num_oom_rejections": 0,
        }
        for name in (*_COUNTED, *_BYTES):
            stats[name] = {pool: _zero() for pool in _POOLS}
        for name in ("allocation", "segment", "active"):
            stats[name]["all"] = dict(requests)
            stats[name]["large_pool"] = dict(requests)
        for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
            stats[name]["all"] = dict(used)
            stats[name]["large_pool"] = dict(used)
        stats.update({name: _zero() for name in _OVERSIZE})
        return stats

    def reset_peak(self, device: int) -> None:
        """Reset the peak to the current figure."""
        self._check(device)
        with self._lock:
            self._sample(device).reset_peak()
            self._requests[device].reset_peak()
            self._mark_at_reset = high_water_mark()

    def reset_accumulated(self, device: int) -> None:
        """Reset the sums of allocations and frees to zero."""
        self._check(device)
        with self._lock:
            self._sample(device).reset_accumulated()
            self._requests[device].reset_accumulated()
            self._ooms[device] = 0

    def info(self, device: int) -> tuple[int, int]:
        """Return free and total bytes: of main memory, or of the configured size."""
        most = machine.limit()
        total = min(self._limit or most, most)
        with self._lock:
            used = self._sample(device).current
        return max(0, min(machine.available(), total - used)), total

    def in_use(self, device: int) -> int:
        """Return the memory in use on the whole machine."""
        free, total = self.info(device)
        return total - free

    # ---------------------------------------------------------------- allocation
    def empty_cache(self, pool: PoolId = COMMON) -> None:
        """Return freed heap memory to the system if the C library can (glibc); pools cache nothing."""
        if pool != COMMON:
            return
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
        if trim is not None:
            trim(0)

    def allocate(self, size: int, device: int, stream: int) -> int:
        """Return a raw block of host memory, or raise CUDA's error if it exceeds the device's memory."""
        free, total = self.info(device)
        if size == 0:
            return 0
        if not 0 < size <= min(free, int(total * self._fractions[device])):
            raise self.out_of_memory(size, device)
        pools: list[PoolId] = self._pools(device)
        block = _Block(size, device, stream, pools[-1] if pools else COMMON)
        with self._lock:
            self._blocks[block.address] = block
            self._requests[device].add(1)
            self._trace("alloc", block)
        return block.address

    def release(self, address: int) -> None:
        """Free a raw block."""
        with self._lock:
            block = self._blocks.pop(address, None)
            if block is None:
                raise RuntimeError(f"invalid device pointer: {address:#x}")
            self._requests[block.device].add(-1)
            self._trace("free_completed", block)

    def out_of_memory(self, size: int, device: int) -> Exception:
        """Return CUDA's error for a request that does not fit; count it and call the observers."""
        import torch

        free, total = self.info(device)
        self._ooms[device] += 1
        for observer in tuple(self._observers):  # an observer may add another
            observer(device, size, total, free)
        if size >= _EXABYTE:
            return torch._C.OutOfMemoryError("CUDA out of memory. Tried to allocate more than 1EB memory.")
        used = self._used[device].current
        gib = 1 << 30
        return torch._C.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / gib:.2f} GiB. GPU {device} has a total capacity of "
            f"{total / gib:.2f} GiB of which {free / gib:.2f} GiB is free. Including non-PyTorch memory, this process "
            f"has {used / gib:.2f} GiB memory in use."
        )

    def translated(self, error: BaseException, device: int = 0) -> BaseException:
        """Return CUDA's out-of-memory error for that of torch's allocator on the host."""
        match = _HOST_FULL.search(str(error))
        return self.out_of_memory(int(match[1]), device) if match else error

    # ------------------------------------------------------------------ snapshots
    def _trace(self, action: str, block: _Block) -> None:
        if self._history_limit and action not in self._skipped:
            entries = self._history[block.device]
            entries.append(
                {
                    "action": action,
                    "addr": block.address,
                    "size": block.size,
                    "stream": block.stream,
                    "frames": [],
                    "time_us": time.time_ns() // 1000,
                    "compile_context": "N/A",
                    "user_metadata": self.metadata,
                    "pool_id": block.pool,
                }
            )
            del entries[: -self._history_limit]

    def snapshot(self, pool: PoolId | None = None, with_traces: bool = True) -> dict[str, Any]:
        """Return the raw blocks as segments of one block each; resident memory has no segments."""
        with self._lock:
            segments = [
                {
                    "device": block.device,
                    "address": block.address,
                    "total_size": block.size,
                    "allocated_size": block.size,
                    "active_size": block.size,
                    "requested_size": block.requested,
                    "stream": block.stream,
                    "segment_type": "large" if block.size > 1 << 20 else "small",
                    "segment_pool_id": block.pool,
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [
                        {
                            "address": block.address,
                            "size": block.size,
                            "requested_size": block.requested,
                            "state": "active_allocated",
                            "frames": [],
                        }
                    ],
                }
                for block in self._blocks.values()
                if pool in (None, block.pool)
            ]
            traces = [list(entries) if with_traces else [] for entries in self._history]
        return {
            "segments": sorted(segments, key=lambda segment: segment["address"]),
            "device_traces": traces,
            "allocator_settings": self.settings.shown(),
            "external_annotations": [],
        }

    def record_history(self, wanted: Recording) -> None:
        """Start or stop tracing raw allocations; the host records no stacks."""
        with self._lock:
            self._history_limit = wanted.max_entries if wanted.enabled == "all" else 0
            self._skipped = frozenset(wanted.skipped)
            if wanted.clear or wanted.enabled is None:
                for entries in self._history:
                    entries.clear()

    # ---------------------------------------------------------------------- pools
    def _pools(self, device: int) -> list[PoolId]:
        return self._entered.pools[device]

    def retain_pool(self, device: int, pool: PoolId) -> None:
        with self._lock:
            self._holders[device, _as_id(pool)] += 1

    def release_pool(self, device: int, pool: PoolId) -> None:
        """Remove one owner of a pool; its blocks are not cached, so nothing is left to free."""
        with self._lock:
            key = (device, _as_id(pool))
            left = self._holders.pop(key, 0) - 1
            if left > 0:
                self._holders[key] = left

    def pool_holders(self, device: int, pool: PoolId) -> int:
        return self._holders.get((device, _as_id(pool)), 0)

    def enter_pool(self, device: int, pool: PoolId, every_thread: bool = False) -> None:
        """Assign the calling thread's raw allocations to a pool; those of other threads are not tracked here."""
        self.retain_pool(device, pool)
        self._pools(device).append(_as_id(pool))

    def leave_pool(self, device: int, pool: PoolId) -> None:
        """Stop assigning raw allocations to a pool."""
        if _as_id(pool) in self._pools(device):
            self._pools(device).remove(_as_id(pool))

    def on_out_of_memory(self, observer: OutOfMemoryObserver) -> None:
        """Call a function whenever torchdevice_cuda refuses memory."""
        self._observers.append(observer)

    # --------------------------------------------------------------------- limits
    def apply(self, settings: allocation.Settings) -> None:
        """Store the settings; the system's allocator follows only the initial memory fraction of a process."""
        if self._settings is None and settings.fraction < 1:
            for device in range(len(self._fractions)):
                self.set_fraction(settings.fraction, device)
        super().apply(settings)

    def fraction(self, device: int) -> float:
        _ = self.settings  # applies the environment's fraction
        return self._fractions[device]

    def set_fraction(self, fraction: float, device: int) -> None:
        """Limit raw allocations to a fraction of the device's memory."""
        self._fractions[device] = fraction

    # ---------------------------------------------------------------- pinned memory
    def host_stats(self) -> dict[str, Any]:
        """Return empty statistics: no host memory is pinned."""
        times = {"total": 0, "max": 0, "min": 0, "count": 0, "avg": 0}
        gauges = ("allocations", "active_requests", "allocated_bytes", "active_bytes")
        return {
            "num_host_alloc": 0,
            "num_host_free": 0,
            **{name: _zero() for name in gauges},
            "host_alloc_time": dict(times),
            "host_free_time": dict(times),
        }

    def reset_host_peak(self) -> None:
        """Do nothing: without pinned memory there is no peak."""

    def reset_host_accumulated(self) -> None:
        """Do nothing: without pinned memory there are no sums."""
