"""Files read into and written from device memory (GPUDirect Storage).

On the host that memory is ordinary memory, and the transfers are ordinary file input and output.
"""

import os
import sys
from typing import TYPE_CHECKING

from torchdevice_cuda.shadow import stock

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda.gds import GdsFile

_file: "type[GdsFile]" = globals().get("GdsFile") or globals()["_GdsFile"]  # private in torch 2.6


def _init(self: "GdsFile", filename: str, flags: int) -> None:
    """Open a file; ``flags`` are ``os.open``'s.

    CUDA adds ``os.O_DIRECT``, which not every system has. Host transfers go through the page cache instead, so that
    storages of any size and offset work.
    """
    if sys.platform == "win32":
        raise RuntimeError("GdsFile is not supported on this platform.")
    self.filename = filename
    self.flags = flags
    self.handle = None
    self.fd = os.open(filename, flags)
    self.register_handle()


_stock_del = _file.__del__


def _del(self: "GdsFile") -> None:
    if hasattr(self, "fd"):  # otherwise opening it failed
        _stock_del(self)


_file.__init__ = _init  # type: ignore[method-assign]
_file.__del__ = _del  # type: ignore[method-assign]
