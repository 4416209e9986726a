"""The compiled module's part for memory: the device's, the pools in it, and pinned memory of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class NativeMemory(Protocol):
    """Books, pools and blocks."""

    def memory_stats(self, device: int) -> dict[str, Any]:
        """Nested statistics."""

    def mem_info(self, device: int) -> tuple[int, int]:
        """Free and total bytes."""

    def reset_peak_stats(self, device: int) -> None:
        """Start the peaks from the present."""

    def reset_accumulated_stats(self, device: int) -> None:
        """Start the sums from zero."""

    def set_fraction(self, fraction: float, device: int) -> None:
        """Limit this process to a share of the device."""

    def get_fraction(self, device: int) -> float:
        """Return the fraction."""

    def empty_cache(self, pool_a: int = 0, pool_b: int = 0) -> None:
        """Give segments that nothing uses back to the host: everywhere, or of a pool that nobody holds any more."""

    def raw_alloc(self, size: int, device: int, stream: int) -> int:
        """Raw memory; its address."""

    def raw_delete(self, address: int) -> None:
        """Free raw memory."""

    def attach_out_of_memory_observer(self, observer: Callable[[int, int, int, int], object]) -> None:
        """Call it at every shortage from now on, before the error, without any lock."""

    def resize_storage(self, storage: int, size: int) -> None:
        """Give a storage of the device, by its address, another size in bytes."""

    def allocator_address(self) -> int:
        """torch's pointer to the allocator."""

    def allocate_on(self, device: int) -> int:
        """Serve this thread's CPU allocations from a device, -1 for the host; the device before."""

    def snapshot(self, pool_a: int = 0, pool_b: int = 0, with_traces: bool = True) -> dict[str, Any]:
        """Segments, blocks and history, of a pool or of everything."""

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
        """Keep a history, or stop keeping one."""

    def frames_at(self, address: int) -> list[dict[str, Any]] | None:
        """Return the stack that was recorded with the block at an address."""

    def hide_frames(self, path: str) -> None:
        """Do not show frames of files whose names begin so."""

    def set_metadata(self, text: str) -> None:
        """Set the metadata of the calling thread's allocations."""

    def get_metadata(self) -> str:
        """Return the metadata of the calling thread's allocations."""

    def configure(self, chosen: dict[str, Any]) -> None:
        """Set the allocator options; every option is named."""

    def set_caching(self, on: bool) -> None:
        """Return whether freed memory is kept."""

    def watch_host(self, groups: Sequence[tuple[int, str, str]]) -> None:
        """Control groups to look at besides the machine: a limit, the files with what is used and what is cached."""

    def host_left(self) -> int:
        """Return the memory that the machine can give now."""

    def pool_no_split(self, device: int, a: int, b: int) -> None:
        """Leave a pool's blocks whole."""

    def pool_use_on_oom(self, device: int, a: int, b: int, use: bool) -> None:
        """Let others have a pool's free blocks when memory is short."""

    def pool_retain(self, device: int, a: int, b: int) -> None:
        """Add one owner of a private pool; the first creates it."""

    def pool_release(self, device: int, a: int, b: int) -> None:
        """Remove one owner."""

    def pool_use_count(self, device: int, a: int, b: int) -> int:
        """Return the number of its owners."""

    def pool_begin(self, device: int, a: int, b: int, this_thread_only: bool) -> None:
        """Send allocations to a private pool, as one more holder of it."""

    def pool_end(self, device: int, a: int, b: int) -> None:
        """Stop sending them there."""

    def checkpoint_pool(self, device: int, pool_a: int, pool_b: int) -> object:
        """Save a pool's blocks and their allocations."""

    def restore_pool(self, checkpoint: object, stale: Sequence[int], live: Sequence[int]) -> None:
        """Make it so again: the first storages free nothing any more, the others own what is handed out where they are.

        A storage is named by its ``_cdata``, here and below.
        """

    def owns_device_memory(self, storage: int) -> bool:
        """Return whether a storage frees memory of the device's allocator."""

    def free_under(self, storage: int) -> None:
        """Free it, while the storage goes on pointing there."""

    def forbid_storage(self, storage: int, message: str) -> None:
        """Have whoever looks at a storage's memory get this error."""

    def allow_storage(self, storage: int) -> None:
        """Let it be looked at again."""

    def forbid_tensor(self, tensor: torch.Tensor, message: str) -> None:
        """Raise the message on access to a tensor, which loses its storage."""

    def host_stats(self) -> dict[str, Any]:
        """Statistics of pinned memory."""

    def host_reset_peak_stats(self) -> None:
        """Start the peaks of pinned memory from the present."""

    def host_reset_accumulated_stats(self) -> None:
        """Start the sums of pinned memory from zero."""

    def host_empty_cache(self) -> None:
        """Give pinned memory that nothing uses back."""

    def register_pinned(self, address: int, size: int) -> None:
        """Count memory of the program's own as pinned."""

    def unregister_pinned(self, address: int) -> None:
        """Stop counting it."""
