"""The memory of a driver's devices, with the functions and statistics of CUDA's caching allocator."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import allocation

PoolId = tuple[int, int]
#: the pool of memory that belongs to no pool
COMMON: PoolId = (0, 0)
#: ``observer(device, wanted, total, free)``
OutOfMemoryObserver = Callable[[int, int, int, int], None]


def _nothing() -> None:
    """Do nothing: the statistics are kept elsewhere."""


def _ignore(device: int, size: int) -> None:
    """Discard the update."""


class Recording(NamedTuple):
    """Options of a history: the recorded events, and those with the program's stack."""

    #: ``None`` ends it; ``"state"`` keeps only the last event
    enabled: str | None
    #: events with stacks: none, live blocks, allocations too, frees too
    context: str | None = None
    #: whether stacks include C++ frames
    with_cpp: bool = False
    max_entries: int = 1
    clear: bool = False
    skipped: Sequence[str] = ()
    #: whether stacks include compiled functions
    with_compiled: bool = False
    #: whether regions of all threads are recorded, not only of this one
    every_thread: bool = False


class _OfThread(threading.local):
    """The metadata of a thread's allocations."""

    metadata = ""


class Memory(abc.ABC):
    """Statistics, raw memory, limits and pools of a driver's devices."""

    #: where the figures come from, for ``--info``
    source: str
    #: Called after torchdevice_cuda allocates, so that peaks are observed if the device has none. An attribute, since
    #: every allocation calls it: a closure takes half the time of a method.
    observe: Callable[[], None] = staticmethod(_nothing)

    #: Called with a device and its bytes in use, after they were read: publishes them to other processes, if the device
    #: does not do so itself.
    tell: Callable[[int, int], None] = staticmethod(_ignore)

    _settings: allocation.Settings | None = None
    _first_split = -1
    _caching = True
    _of_thread = _OfThread()

    # ----------------------------------------------------------------- settings
    @property
    def settings(self) -> allocation.Settings:
        """Return the allocator options: the environment's until the program sets others."""
        if self._settings is None:
            self.apply(allocation.from_environment())
        assert self._settings is not None
        return self._settings

    def configure(self, text: str) -> None:
        """Apply settings of the program."""
        self.apply(self.read(text))

    def read(self, text: str) -> allocation.Settings:
        """Parse options of the program; earlier ones stay where CUDA keeps them."""
        return allocation.read(text, self.settings, backend=self.settings.backend)

    def apply(self, settings: allocation.Settings) -> None:
        """Apply settings, as far as the device supports them."""
        if self._settings is None:
            self._first_split = allocation.signed(settings.max_split)
        self._settings = settings

    @property
    def shown_split(self) -> int:
        """Return the largest block that is split, for statistics: the value when the device was initialized."""
        return 0 if self.settings.backend == allocation.ASYNC else self._first_split

    @property
    def caching(self) -> bool:
        """Return whether freed memory is cached."""
        return self._caching

    def set_caching(self, on: bool) -> None:
        """Enable or disable caching of freed memory."""
        self._caching = on

    @property
    def metadata(self) -> str:
        """Return the metadata of the calling thread's allocations."""
        return self._of_thread.metadata

    def set_metadata(self, text: str) -> None:
        """Set the metadata of the calling thread's allocations."""
        self._of_thread.metadata = text

    @abc.abstractmethod
    def stats(self, device: int) -> dict[str, Any]:
        """Return the nested statistics of ``torch.cuda.memory_stats_as_nested_dict``."""

    @abc.abstractmethod
    def reset_peak(self, device: int) -> None:
        """Reset a device's peaks to the current figures."""

    @abc.abstractmethod
    def reset_accumulated(self, device: int) -> None:
        """Reset a device's sums to zero."""

    @abc.abstractmethod
    def info(self, device: int) -> tuple[int, int]:
        """Return ``(free, total)`` bytes of the device."""

    @abc.abstractmethod
    def empty_cache(self, pool: PoolId = COMMON) -> None:
        """Release cached memory: that of pools without owners, or of one such pool."""

    @abc.abstractmethod
    def allocate(self, size: int, device: int, stream: int) -> int:
        """Allocate ``size`` raw bytes and return the address."""

    @abc.abstractmethod
    def release(self, address: int) -> None:
        """Free raw memory."""

    @abc.abstractmethod
    def snapshot(self, pool: PoolId | None = None, with_traces: bool = True) -> dict[str, Any]:
        """Return ``{"segments": [...], "device_traces": [...], ...}``, as ``torch.cuda.memory._snapshot`` does."""

    @abc.abstractmethod
    def record_history(self, wanted: Recording) -> None:
        """Start or stop recording a history of allocations."""

    def frames_at(self, address: int) -> list[dict[str, Any]] | None:
        """Return the stack that allocated the block at an address; ``None`` if it was not recorded."""
        return None

    @abc.abstractmethod
    def fraction(self, device: int) -> float:
        """Return the fraction of a device's memory that this process may use."""

    @abc.abstractmethod
    def set_fraction(self, fraction: float, device: int) -> None:
        """Set the fraction of a device's memory that this process may use."""

    @abc.abstractmethod
    def host_stats(self) -> dict[str, Any]:
        """Return the nested statistics of pinned host memory."""

    @abc.abstractmethod
    def reset_host_peak(self) -> None:
        """Reset the peaks of pinned memory to the current figures."""

    @abc.abstractmethod
    def reset_host_accumulated(self) -> None:
        """Reset the sums of pinned memory to zero."""

    def empty_host_cache(self) -> None:
        """Release cached pinned memory; most drivers do not cache it separately."""
        self.empty_cache()

    @abc.abstractmethod
    def retain_pool(self, device: int, pool: PoolId) -> None:
        """Add one owner of a pool."""

    @abc.abstractmethod
    def release_pool(self, device: int, pool: PoolId) -> None:
        """Remove one owner of a pool; the memory of a pool without owners can be freed."""

    @abc.abstractmethod
    def pool_holders(self, device: int, pool: PoolId) -> int:
        """Return the number of owners of a pool."""

    def set_pool_options(  # noqa: B027 (only an allocator that cuts blocks has something to do)
        self, device: int, pool: PoolId, *, use_on_oom: bool, no_split: bool
    ) -> None:
        """Set whether others may use a pool's free blocks when memory is short, and whether its blocks stay whole."""

    @abc.abstractmethod
    def enter_pool(self, device: int, pool: PoolId, every_thread: bool = False) -> None:
        """Assign allocations of the calling thread, or of all threads, on a device to a pool, and add one owner."""

    @abc.abstractmethod
    def leave_pool(self, device: int, pool: PoolId) -> None:
        """Stop assigning allocations to a pool."""

    @abc.abstractmethod
    def on_out_of_memory(self, observer: OutOfMemoryObserver) -> None:
        """Call an observer whenever memory runs out, without a lock; the program sees an error that it raises."""

    @abc.abstractmethod
    def out_of_memory(self, size: int, device: int) -> Exception:
        """Return the error for a request of ``size`` bytes that does not fit, and count it."""

    def translated(self, error: BaseException, device: int = 0) -> BaseException:
        """Return CUDA's out-of-memory error for the device's own, and count it; return any other error unchanged."""
        return error

    @abc.abstractmethod
    def in_use(self, device: int) -> int:
        """Return the bytes of the device in use by every process on the machine."""
