"""The compiled module's functions for memory: the device's, its pools, and pinned host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class NativeMemory(Protocol):
    """Statistics, pools and blocks."""

    def memory_stats(self, device: int) -> dict[str, Any]:
        """Return nested statistics."""

    def mem_info(self, device: int) -> tuple[int, int]:
        """Return free and total bytes."""

    def reset_peak_stats(self, device: int) -> None:
        """Reset the peaks to the current figures."""

    def reset_accumulated_stats(self, device: int) -> None:
        """Reset the sums to zero."""

    def set_fraction(self, fraction: float, device: int) -> None:
        """Limit this process to a fraction of the device's memory."""

    def get_fraction(self, device: int) -> float:
        """Return the fraction."""

    def empty_cache(self, pool_a: int = 0, pool_b: int = 0) -> None:
        """Return unused segments to the host: all, or those of a pool without owners."""

    def raw_alloc(self, size: int, device: int, stream: int) -> int:
        """Allocate raw memory and return its address."""

    def raw_delete(self, address: int) -> None:
        """Free raw memory."""

    def attach_out_of_memory_observer(self, observer: Callable[[int, int, int, int], object]) -> None:
        """Call an observer whenever memory runs out from now on, before the error, without any lock."""

    def resize_storage(self, storage: int, size: int) -> None:
        """Resize a storage of the device, given by its address, in bytes."""

    def allocator_address(self) -> int:
        """Return torch's pointer to the allocator."""

    def allocate_on(self, device: int) -> int:
        """Allocate this thread's CPU memory on a device, -1 for the host; return the previous device."""

    def snapshot(self, pool_a: int = 0, pool_b: int = 0, with_traces: bool = True) -> dict[str, Any]:
        """Return segments, blocks and history, of a pool or of everything."""

    def record_history(
        self,
        enabled: bool,
        max_entries: int = 1,
        keeping: int = 3,
        with_cpp: bool = False,
        clear: bool = False,
        skipped: list[str] = ...,
        with_compiled: bool = False,
        every_thread: bool = False,
    ) -> None:
        """Start or stop recording a history."""

    def frames_at(self, address: int) -> list[dict[str, Any]] | None:
        """Return the stack that was recorded with the block at an address."""

    def hide_frames(self, path: str) -> None:
        """Hide frames of files whose names begin with ``path``."""

    def set_metadata(self, text: str) -> None:
        """Set the metadata of the calling thread's allocations."""

    def get_metadata(self) -> str:
        """Return the metadata of the calling thread's allocations."""

    def configure(self, chosen: dict[str, Any]) -> None:
        """Set the allocator options; every option is named."""

    def set_caching(self, on: bool) -> None:
        """Set whether freed memory is cached."""

    def watch_host(self, groups: Sequence[tuple[int, str, str]]) -> None:
        """Set control groups to check besides the machine: a limit, the files with the usage and its cached part."""

    def host_left(self) -> int:
        """Return the memory that the machine has available now."""

    def pool_no_split(self, device: int, a: int, b: int) -> None:
        """Do not split a pool's blocks."""

    def pool_use_on_oom(self, device: int, a: int, b: int, use: bool) -> None:
        """Set whether others may use a pool's free blocks when memory is short."""

    def pool_retain(self, device: int, a: int, b: int) -> None:
        """Add one owner of a private pool; the first creates it."""

    def pool_release(self, device: int, a: int, b: int) -> None:
        """Remove one owner."""

    def pool_use_count(self, device: int, a: int, b: int) -> int:
        """Return the number of owners of a pool."""

    def pool_begin(self, device: int, a: int, b: int, this_thread_only: bool) -> None:
        """Assign allocations to a private pool, and add one owner."""

    def pool_end(self, device: int, a: int, b: int) -> None:
        """Stop assigning allocations to a pool."""

    def checkpoint_pool(self, device: int, pool_a: int, pool_b: int) -> object:
        """Save a pool's blocks and their allocations."""

    def restore_pool(self, checkpoint: object, stale: Sequence[int], live: Sequence[int]) -> None:
        """Restore a pool: ``stale`` storages no longer free memory, ``live`` ones own the blocks at their addresses.

        A storage is given by its ``_cdata``, here and below.
        """

    def owns_device_memory(self, storage: int) -> bool:
        """Return whether a storage frees memory of the device's allocator."""

    def free_under(self, storage: int) -> None:
        """Free a storage's memory, while the storage still points to it."""

    def forbid_storage(self, storage: int, message: str) -> None:
        """Raise this error on access to a storage's memory."""

    def allow_storage(self, storage: int) -> None:
        """Allow access to a storage's memory again."""

    def forbid_tensor(self, tensor: torch.Tensor, message: str) -> None:
        """Raise the message on access to a tensor, which loses its storage."""

    def host_stats(self) -> dict[str, Any]:
        """Return statistics of pinned memory."""

    def host_reset_peak_stats(self) -> None:
        """Reset the peaks of pinned memory to the current figures."""

    def host_reset_accumulated_stats(self) -> None:
        """Reset the sums of pinned memory to zero."""

    def host_empty_cache(self) -> None:
        """Release unused pinned memory."""

    def register_pinned(self, address: int, size: int) -> None:
        """Count the program's own memory as pinned."""

    def unregister_pinned(self, address: int) -> None:
        """Stop counting memory as pinned."""
