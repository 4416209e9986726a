"""Files read into and written from the memory of the device (GPUDirect Storage).

On the host that memory is ordinary memory, and the transfers are ordinary file input and output.
"""

import os
import sys
from collections.abc import Callable

import torch
from torch.types import Storage

__all__: list[str] = [
    "gds_register_buffer",
    "gds_deregister_buffer",
    "GdsFile",
]


def _dummy_fn(name: str) -> Callable:
    """A function that refuses because the platform lacks it."""

    def refuse(*args, **kwargs):
        raise RuntimeError(f"torch._C.{name} is not supported on this platform")

    return refuse


def gds_register_buffer(s: Storage) -> None:
    """Prepare a storage of the device for transfers."""
    torch._C._gds_register_buffer(s)


def gds_deregister_buffer(s: Storage) -> None:
    """Undo :func:`gds_register_buffer`."""
    torch._C._gds_deregister_buffer(s)


class GdsFile:
    """A file for transfers to and from storages of the device.

    Args:
        filename: the file to open
        flags: as for ``os.open``. CUDA adds ``os.O_DIRECT``; host transfers go through the page cache instead, so that
            storages of any size and offset work.
    """

    def __init__(self, filename: str, flags: int):
        if sys.platform == "win32":
            raise RuntimeError("GdsFile is not supported on this platform.")
        self.filename = filename
        self.flags = flags
        self.handle: int | None = None
        self.fd = os.open(filename, flags)
        self.register_handle()

    def __del__(self) -> None:
        if not hasattr(self, "fd"):
            return  # opening it failed
        if self.handle is not None:
            self.deregister_handle()
        os.close(self.fd)

    def register_handle(self) -> None:
        """Take the open file for transfers."""
        if self.handle is not None:
            raise AssertionError("Cannot register a handle that is already registered.")
        self.handle = torch._C._gds_register_handle(self.fd)

    def deregister_handle(self) -> None:
        """Let the file go; transfers need :meth:`register_handle` again."""
        if self.handle is None:
            raise AssertionError("Cannot deregister a handle that is not registered.")
        torch._C._gds_deregister_handle(self.handle)
        self.handle = None

    def load_storage(self, storage: Storage, offset: int = 0) -> None:
        """Fill a storage from the file, starting ``offset`` bytes into it."""
        if self.handle is None:
            raise AssertionError("Cannot load data from a file that is not registered.")
        torch._C._gds_load_storage(self.handle, storage, offset)

    def save_storage(self, storage: Storage, offset: int = 0) -> None:
        """Write all bytes of a storage to the file, starting ``offset`` bytes into it."""
        if self.handle is None:
            raise AssertionError("Cannot save data to a file that is not registered.")
        torch._C._gds_save_storage(self.handle, storage, offset)
