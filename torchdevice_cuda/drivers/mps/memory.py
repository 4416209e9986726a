"""Memory of the Apple GPU, from torch.mps: tensors' bytes, Metal's bytes for the process, and its recommended limit.

torch.mps has no counts and no list of allocations. Peaks are those of torch's allocator from 2.13 on. Before, a peak is
the highest figure seen at a query, at a synchronization, or where torchdevice_cuda itself allocates (factories, moves,
fallbacks): peaks between those are missed. Counts are those of raw allocations only. A snapshot lists the memory of
tensors that Python knows.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._compat import named
from ..host.memory import Gauge, ProcessMemory
from ..memory import COMMON, PoolId
from . import metal

if TYPE_CHECKING:
    import torch

_REFUSED = re.compile(r"MPS backend out of memory.*?Tried to allocate ([\d.]+) (bytes|KB|MB|GB|KiB|MiB|GiB)", re.DOTALL)
_TOO_LARGE = re.compile(r"Invalid buffer size: ([\d.]+) (bytes|KB|MB|GB|KiB|MiB|GiB)")
_SMALL = 1 << 20  # CUDA's limit between its small and its large pool
_UNITS = {"bytes": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Books(NamedTuple):
    """The statistics of torch's allocator, and torch's functions that reset their peaks."""

    read: Callable[[int], dict[str, Any]]
    reset_peak: Callable[[int], None]

    @classmethod
    def of_torch(cls) -> Books | None:
        """Return those of the running torch; none before 2.9."""
        read, reset = named("torch._C._accelerator_getDeviceStats"), named("torch._C._accelerator_resetPeakStats")
        return cls(read, reset) if read is not None and reset is not None else None

    def peaks(self) -> tuple[int, int] | None:
        """Return the peaks of allocated and reserved bytes; none if the allocator has none."""
        try:
            told = self.read(0)
        except RuntimeError:  # until 2.12 its allocator has no such statistics
            return None
        return told["allocated_bytes"]["all"]["peak"], told["reserved_bytes"]["all"]["peak"]


class MpsMemory(ProcessMemory):
    """The figures of torch.mps with CUDA's names."""

    source = (
        "torch.mps; peaks are its allocator's from torch 2.13 on, before the highest figures seen at queries, "
        "synchronizations and allocations made through us"
    )

    def __init__(self, device_count: int, limit: int | None, books: Books | None = None) -> None:
        super().__init__(device_count, limit)
        import torch

        self._books = books

        self._allocated: Callable[[], int] = torch._C._mps_currentAllocatedMemory
        self._driver: Callable[[], int] = torch._C._mps_driverAllocatedMemory
        self._recommended: Callable[[], int] = torch._C._mps_recommendedMaxMemory
        self._reserved = Gauge()
        self._tensors: dict[int, torch.Tensor] = {}
        if limit is not None:
            self._apply_fraction(1.0)

    def start(self) -> None:
        """Do nothing: torch.mps itself counts from zero."""

    @functools.cached_property
    def observe(self) -> Callable[[], None]:  # type: ignore[override]  # an attribute, made at first use
        """Return the function that observes allocated memory, for peaks; a no-op if torch's allocator has them."""
        if self._books is not None and self._books.peaks() is not None:
            return super().observe
        allocated, gauge = self._allocated, self._used[0] if self._used else Gauge()

        def observe() -> None:
            used = allocated()
            if used > gauge.peak:
                with self._lock:
                    gauge.set(used)
                    self._reserved.set(self._driver())

        return observe

    def _sample(self, device: int) -> Gauge:
        gauge = self._used[device]
        gauge.set(self._allocated())
        self._reserved.set(max(self._driver(), gauge.current))
        peaks = None if self._books is None else self._books.peaks()
        if peaks is not None:
            allocated, reserved = peaks
            gauge.peak, self._reserved.peak = max(gauge.peak, allocated), max(self._reserved.peak, reserved)
        self.tell(device, self._reserved.current)
        return gauge

    def stats(self, device: int) -> dict[str, Any]:
        """Return tensors' bytes as allocated, active and requested, and Metal's bytes for the process as reserved."""
        stats = super().stats(device)
        for pool in ("all", "large_pool"):
            stats["reserved_bytes"][pool] = self._reserved.as_dict()
        unused = self._reserved.current - self._used[device].current
        stats["inactive_split_bytes"]["all"] = {"current": unused, "peak": unused, "allocated": 0, "freed": 0}
        return stats

    def reset_peak(self, device: int) -> None:
        if self._books is not None:
            with contextlib.suppress(RuntimeError):
                self._books.reset_peak(0)
        super().reset_peak(device)
        self._reserved.reset_peak()

    def reset_accumulated(self, device: int) -> None:
        super().reset_accumulated(device)
        self._reserved.reset_accumulated()

    def total(self) -> int:
        """Return the device's memory: Metal's recommended limit, or the configured size if that is less."""
        recommended = self._recommended() or metal.gpu().working_set or 0
        return min(self._limit or recommended, recommended)

    def info(self, device: int) -> tuple[int, int]:
        """Return free and total bytes of Metal's recommended limit."""
        total = self.total()
        with self._lock:
            self._sample(device)
        return max(0, total - self._reserved.current), total

    def empty_cache(self, pool: PoolId = COMMON) -> None:
        """Release the caches of torch and MLX to Metal; pools cache nothing."""
        if pool == COMMON:
            import torch

            torch._C._mps_emptyCache()
            mlx = sys.modules.get("mlx.core")  # without an import it caches nothing
            # In older releases of MLX the function is in its Metal module.
            clear = getattr(mlx, "clear_cache", None) or getattr(getattr(mlx, "metal", None), "clear_cache", None)
            if clear is not None:
                clear()

    def allocate(self, size: int, device: int, stream: int) -> int:
        """Return a raw block: the memory of a tensor that lives until the block is released."""
        if size == 0:
            return 0
        import torch

        if size < 0 or size > self.total():
            raise self.out_of_memory(size, device)
        try:
            tensor = torch._C._VariableFunctions.empty(size, dtype=torch.uint8, device="mps")
        except RuntimeError as error:
            raise self.translated(error) from None
        address = tensor.untyped_storage().data_ptr()
        with self._lock:
            self._tensors[address] = tensor
            self._requests[device].add(1)
        self.observe()
        return address

    def release(self, address: int) -> None:
        """Free a raw block."""
        with self._lock:
            if self._tensors.pop(address, None) is None:
                raise RuntimeError(f"invalid device pointer: {address:#x}")
            self._requests[0].add(-1)

    def snapshot(self, pool: PoolId | None = None, with_traces: bool = True) -> dict[str, Any]:
        """Return live tensors, each in its own segment, and the rest in one more segment without an address."""
        found = super().snapshot(pool, with_traces)
        if pool is None:
            with self._lock:
                allocated, reserved = self._sample(0).current, self._reserved.current
            segments = [_segment(address, size, size) for address, size in sorted(_held().items())]
            known = sum(segment["total_size"] for segment in segments)
            if reserved > known:
                segments.insert(0, _segment(0, reserved - known, max(0, allocated - known)))
            found["segments"] = segments
        return found

    def translated(self, error: BaseException, device: int = 0) -> BaseException:
        """Return CUDA's out-of-memory error for the Apple GPU's."""
        match = _REFUSED.search(str(error)) or _TOO_LARGE.search(str(error))
        return self.out_of_memory(int(float(match[1]) * _UNITS[match[2]]), 0) if match else error

    def set_fraction(self, fraction: float, device: int) -> None:
        """Make torch refuse allocations beyond a fraction of the device's memory."""
        super().set_fraction(fraction, device)
        self._apply_fraction(fraction)

    def _apply_fraction(self, fraction: float) -> None:
        import torch

        # For torch.mps zero means no limit; for CUDA it means no memory at all.
        share = fraction * self.total() / max(1, self._recommended() or self.total())
        torch._C._mps_setMemoryFraction(max(share, 1e-9))


def _held() -> dict[int, int]:
    """Return address and size of the memory of every GPU tensor that Python knows."""
    import torch

    found = {}
    for one in gc.get_objects():
        if not issubclass(type(one), torch.Tensor):
            continue
        try:
            if one.device.type == "mps" and one.layout is torch.strided:
                storage = one.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
        except (NotImplementedError, RuntimeError):  # a tensor without its own memory
            continue
    found.pop(0, None)
    return found


def _segment(address: int, size: int, used: int) -> dict[str, Any]:
    """Return a segment of a snapshot, of which ``used`` bytes are in use."""
    parts = ((address, used, "active_allocated"), (address + used, size - used, "inactive"))
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large" if size > _SMALL else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {"address": start, "size": length, "requested_size": length, "state": state, "frames": []}
            for start, length, state in parts
            if length
        ],
    }
