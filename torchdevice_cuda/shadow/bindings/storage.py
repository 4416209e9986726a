"""Storages: operations of graph memory pools, and reading from and writing to files (GPUDirect Storage)."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...drivers import active
from .allocators import graph_memory

__all__ = [
    "_clear_storage_data_ptr_access_error_msg",
    "_construct_CUDA_Tensor_From_Storage_And_Metadata",
    "_free_And_Remove_DeleterFn",
    "_has_Standard_Deleter",
    "_has_gds",
    "_set_storage_access_error_msg",
    "_set_storage_data_ptr_access_error_msg",
    "_tensors_data_ptrs_at_indices_equal",
]


_has_gds = True  # the host's own file transfers


# --------------------------------------------------------------- graph memory pools
def _set_storage_access_error_msg(t: torch.Tensor, s: str) -> None:
    """Remove a tensor's memory, which a graph's next replay overwrites; an access raises this message."""
    graph_memory("_set_storage_access_error_msg").forbid_tensor(t, s)


def _set_storage_data_ptr_access_error_msg(storage_ptr: int, s: str) -> None:
    """Make access to a storage's memory raise this message."""
    graph_memory("_set_storage_data_ptr_access_error_msg").forbid_storage(storage_ptr, s)


def _clear_storage_data_ptr_access_error_msg(storage_ptr: int) -> None:
    """Allow access to a storage's memory again."""
    if active().pools_graphs:  # otherwise nothing is ever forbidden
        graph_memory("_clear_storage_data_ptr_access_error_msg").allow_storage(storage_ptr)


def _free_And_Remove_DeleterFn(storage_ptr: int) -> None:
    """Free memory of a graph pool under a storage that still points to it."""
    graph_memory("_free_And_Remove_DeleterFn").free_under(storage_ptr)


def _has_Standard_Deleter(storage_ptr: int) -> bool:
    """Return whether CUDA's caching allocator owns a storage's memory; false if the host's allocator does."""
    return active().pools_graphs and graph_memory("_has_Standard_Deleter").owns_device_memory(storage_ptr)


def _construct_CUDA_Tensor_From_Storage_And_Metadata(
    metadata: dict[str, Any], storage: torch.UntypedStorage | torch.TypedStorage
) -> torch.Tensor:
    """Return a tensor over a storage with the layout of ``metadata``."""
    made = torch.empty(0, dtype=metadata["dtype"], device=storage.device)
    return made.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])


def _tensors_data_ptrs_at_indices_equal(
    tensors: Sequence[torch.Tensor], data_ptrs: Sequence[int | None], indices: Sequence[int]
) -> bool:
    """Return whether the tensors at these positions have these addresses; positions without one are skipped."""
    return all(data_ptrs[i] is None or tensors[i].data_ptr() == data_ptrs[i] for i in indices)


# ---------------------------------------------------------------- GPUDirect Storage
_lock = threading.Lock()
_buffers: set[int] = set()
_files: dict[int, int] = {}  # handle -> file descriptor
_next_handle = 1


def _untyped(storage: object) -> torch.UntypedStorage:
    """Return the untyped storage of a storage on the driver's device, or raise CUDA's error."""
    untyped = getattr(storage, "_untyped_storage", storage)
    if not isinstance(untyped, torch.UntypedStorage):
        raise TypeError(f"expected a storage, but got {type(storage).__name__}")
    if untyped.device.type != active().device_type:
        raise RuntimeError(f"CUDAGuardImpl initialized with non-CUDA DeviceType: {untyped.device.type}")
    return untyped


def _gds_register_buffer(storage: object) -> None:
    """Prepare a storage for file transfers; host memory needs no preparation."""
    address = _untyped(storage).data_ptr()
    with _lock:
        if address in _buffers:
            raise RuntimeError("cuFileBufRegister failed: device pointer is already registered")
        _buffers.add(address)


def _gds_deregister_buffer(storage: object) -> None:
    """Undo ``_gds_register_buffer``."""
    address = _untyped(storage).data_ptr()
    with _lock:
        if address not in _buffers:
            raise RuntimeError("cuFileBufDeregister failed: device pointer is not registered")
        _buffers.remove(address)


def _gds_register_handle(fd: int) -> int:
    """Register an open file for transfers; return its handle."""
    global _next_handle
    try:
        os.fstat(fd)
    except OSError as error:
        raise RuntimeError(f"cuFileHandleRegister failed: {error.strerror} (file descriptor {fd})") from None
    with _lock:
        if fd in _files.values():
            raise RuntimeError("cuFileHandleRegister failed: file descriptor is already registered")
        handle, _next_handle = _next_handle, _next_handle + 1
        _files[handle] = fd
    return handle


def _gds_deregister_handle(handle: int) -> None:
    """Unregister a file; it stays open."""
    with _lock:
        _files.pop(handle, None)


def _descriptor(handle: int, function: str) -> int:
    with _lock:
        if handle not in _files:
            raise RuntimeError(f"{function} failed: file descriptor is not registered")
        return _files[handle]


def _view(storage: torch.UntypedStorage) -> memoryview:
    """Return the bytes of a host storage."""
    if not storage.nbytes():
        return memoryview(b"")
    return memoryview((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())).cast("B")


def _transfer(
    handle: int, storage: object, offset: int, move: Callable[[int, list[memoryview], int], int], function: str
) -> tuple[torch.UntypedStorage, torch.UntypedStorage]:
    """Transfer all bytes between a storage and the file, as far as possible; return the storage and the host's."""
    fd = _descriptor(handle, function)
    target = _untyped(storage)
    host = target
    if target.device.type != "cpu":
        # UntypedStorage(bytes) is in host memory whatever the program's default device is.
        host = torch.UntypedStorage(target.nbytes())
        host.copy_(target)
    left, position = _view(host), offset
    try:
        while left and (count := move(fd, [left], position)):
            left, position = left[count:], position + count
    except OSError as error:
        raise RuntimeError(f"{function} failed: {error.strerror}") from error
    return target, host


def _gds_load_storage(handle: int, storage: object, offset: int) -> None:
    """Fill a storage from the file; if the file ends early the rest stays unchanged, as with cuFileRead."""
    target, host = _transfer(handle, storage, offset, os.preadv, "cuFileRead")
    if host is not target:
        target.copy_(host)


def _gds_save_storage(handle: int, storage: object, offset: int) -> None:
    """Write all bytes of a storage to the file."""
    _transfer(handle, storage, offset, os.pwritev, "cuFileWrite")
