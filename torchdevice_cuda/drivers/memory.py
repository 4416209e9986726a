"""The memory of a driver's devices, as CUDA's caching allocator shows its own: what the others may ask of it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

PoolId = tuple[int, int]
#: where memory comes from that belongs to no pool
COMMON: PoolId = (0, 0)
#: ``observer(device, wanted, total, free)``
OutOfMemoryObserver = Callable[[int, int, int, int], None]


def _nothing() -> None:
    """What is to be done where the books are kept elsewhere."""


class Memory(abc.ABC):
    """Statistics, raw memory, limits and pools of a driver's devices."""

    #: where the figures come from, for ``--info``
    source: str
    #: Called wherever torchdevice_cuda has had memory allocated, so that peaks are seen where the device keeps none. An
    #: attribute, since every allocation passes there: a closure takes half the time of a method.
    observe: Callable[[], None] = staticmethod(_nothing)

    @abc.abstractmethod
    def stats(self, device: int) -> dict[str, Any]:
        """The nested statistics of ``torch.cuda.memory_stats_as_nested_dict``."""

    @abc.abstractmethod
    def reset_peak(self, device: int) -> None:
        """Start a device's peaks from the present figures."""

    @abc.abstractmethod
    def reset_accumulated(self, device: int) -> None:
        """Start a device's sums from zero."""

    @abc.abstractmethod
    def info(self, device: int) -> tuple[int, int]:
        """``(free, total)`` bytes of the device."""

    @abc.abstractmethod
    def empty_cache(self, pool: PoolId = COMMON) -> None:
        """Give memory kept for reuse back: what nobody holds a pool for, or of one such pool."""

    @abc.abstractmethod
    def allocate(self, size: int, device: int, stream: int) -> int:
        """Take ``size`` raw bytes; the address."""

    @abc.abstractmethod
    def release(self, address: int) -> None:
        """Free raw memory."""

    @abc.abstractmethod
    def snapshot(self, pool: PoolId | None = None) -> dict[str, Any]:
        """``{"segments": [...], "device_traces": [...], ...}`` as ``torch.cuda.memory._snapshot`` gives it."""

    @abc.abstractmethod
    def record_history(self, enabled: str | None, max_entries: int, clear: bool) -> None:
        """Keep, or stop keeping, a history of allocations."""

    @abc.abstractmethod
    def fraction(self, device: int) -> float:
        """The share of a device's memory that this process may take."""

    @abc.abstractmethod
    def set_fraction(self, fraction: float, device: int) -> None:
        """Set that share."""

    @abc.abstractmethod
    def host_stats(self) -> dict[str, Any]:
        """The nested statistics of pinned host memory."""

    @abc.abstractmethod
    def reset_host_peak(self) -> None:
        """Start the peaks of pinned memory from the present figures."""

    @abc.abstractmethod
    def reset_host_accumulated(self) -> None:
        """Start the sums of pinned memory from zero."""

    @abc.abstractmethod
    def retain_pool(self, device: int, pool: PoolId) -> None:
        """One holder of a pool more."""

    @abc.abstractmethod
    def release_pool(self, device: int, pool: PoolId) -> None:
        """One holder of a pool less; of a pool without holders memory can go back."""

    @abc.abstractmethod
    def pool_holders(self, device: int, pool: PoolId) -> int:
        """How many hold a pool."""

    @abc.abstractmethod
    def enter_pool(self, device: int, pool: PoolId, every_thread: bool = False) -> None:
        """File the calling thread's allocations on a device, or everybody's, under a pool, as one holder of it more."""

    @abc.abstractmethod
    def leave_pool(self, device: int, pool: PoolId) -> None:
        """Stop filing allocations under a pool."""

    @abc.abstractmethod
    def on_out_of_memory(self, observer: OutOfMemoryObserver) -> None:
        """Call an observer whenever memory runs out, under no lock; an error of its own is what the program sees."""

    @abc.abstractmethod
    def out_of_memory(self, size: int, device: int) -> Exception:
        """The error for a request of ``size`` bytes that does not fit, counted."""

    def translated(self, error: BaseException, device: int = 0) -> BaseException:
        """CUDA's out-of-memory error for the device's own, counted; any other error is returned as it is."""
        return error

    @abc.abstractmethod
    def in_use(self, device: int) -> int:
        """Bytes of the device in use by every process on the machine."""
