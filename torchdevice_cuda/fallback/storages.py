"""Resizing a storage on a GPU for which torch refuses: "got unexpected device type mps".

torch has no function that shrinks such a storage. But ``Tensor.resize_`` makes the storage of a tensor grow, and keeps
its bytes, and the functions with which its C++ resizes storages of the CPU and of the meta device can be called. The
first, with 0 bytes, frees the memory of any device and labels the storage as the CPU's; the second changes only the
number of bytes. Neither checks the device.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

_CPU = "_ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm"
_META = "_ZN2at6native17resize_bytes_metaEPN3c1011StorageImplENS1_6SymIntE"


class _Shrinking(NamedTuple):
    """Functions that shrink a storage, given by its address, to 0 bytes."""

    free: Callable[[int], None]
    forget: Callable[[int], None]


@functools.cache
def _shrinking() -> _Shrinking:
    folder = Path(torch.__file__).parent / "lib"
    library = ctypes.CDLL(str(next(folder.glob("libtorch_cpu.*"), folder)))
    try:
        cpu, meta = library[_CPU], library[_META]
    except AttributeError:
        raise RuntimeError(
            f"UntypedStorage.resize_: torch {torch.__version__} cannot shrink a storage on this GPU, and the functions "
            "with which torchdevice_cuda does it are not in this build of it; install another release"
        ) from None
    cpu.restype = meta.restype = None
    cpu.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    # C++ takes the number of bytes as an object with a destructor, which is passed by address.
    meta.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
    return _Shrinking(lambda storage: cpu(storage, 0), lambda storage: meta(storage, ctypes.c_int64(0)))


def resize(storage: torch.UntypedStorage, size: int) -> None:
    """Resize in bytes and keep the bytes that fit. For 0 bytes one stays allocated: the storage has an address."""
    if size < 0:
        raise RuntimeError(f"Requested storage size ({size}) cannot be represented as a size_t")
    if not storage.resizable():
        raise RuntimeError("Trying to resize storage that is not resizable")
    before = storage.nbytes()
    if size == before:
        return
    device = vars(torch._C.StorageBase)["device"].__get__(storage)
    # Not torch.empty, which the program may replace.
    whole = torch._C._VariableFunctions.empty(0, dtype=torch.uint8, device=device).set_(storage)
    if size > before:
        whole.resize_(size)
        return
    shrinking = _shrinking()
    kept = whole[:size].clone()
    whole.resize_(0)
    shrinking.free(storage._cdata)
    whole.resize_(max(size, 1))  # GPU memory again
    if size:
        whole.copy_(kept)
    else:
        shrinking.forget(storage._cdata)
