"""The memory of Metal buffers, which the host reaches if their storage mode is shared.

torch's allocator makes private buffers before 2.12 and shared ones since; from 2.13 on it returns a CPU storage over a
shared buffer. Before, host code gets copies.
"""

from __future__ import annotations

import os
from typing import Any, cast

import torch

from ..._compat import named

#: The storage mode of the emulated GPU's buffers: shared if unset.
EMULATED_MODE = "TORCHDEVICE_EMULATE_MPS_STORAGE"
#: torch's error for a private buffer.
_NOT_SHARED = "getHostAliasStorage: storage is not backed by a shared (unified) MTLBuffer"


def find_alias(storage: torch.UntypedStorage) -> torch.UntypedStorage | None:
    """Return a CPU storage over a buffer's memory, or ``None`` if the host does not reach it."""
    find = named("torch._C._mps_host_alias_storage")
    if find is None:
        return None
    try:
        alias: torch.UntypedStorage = find(storage)
    except RuntimeError:  # a private buffer, none, or one that another library made
        return None
    return alias


def complete() -> None:
    """Add the function to torch, whose builds without MPS lack it. It stays until the process ends, as the device."""

    def _mps_host_alias_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if os.environ.get(EMULATED_MODE) == "private":
            raise RuntimeError(_NOT_SHARED)
        made: Any = torch._C._construct_storage_from_data_pointer(
            storage.data_ptr(), torch.device("cpu"), storage.nbytes()
        )
        return cast("torch.UntypedStorage", made)

    if not hasattr(torch._C, "_mps_host_alias_storage"):
        torch._C._mps_host_alias_storage = _mps_host_alias_storage
