"""The backends of process groups, and calls in flight to one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from torch._C._distributed_c10d import _ProcessGroupWrapper

from .communicator import made

if TYPE_CHECKING:
    from .backend import ProcessGroupNCCL

#: A backend that is made in Python lives as long as its object; C++ keeps only its own part of it.
_backends: WeakKeyDictionary[Any, ProcessGroupNCCL] = WeakKeyDictionary()
#: The reduction of the call that this thread makes, as Python gave it: the dispatcher shows no factors.
noted = threading.local()


def taken(group: Any, backend: Any) -> bool:
    """Register the backend of a group; return whether it is ours, or one that checks our calls."""
    ours: ProcessGroupNCCL | None = getattr(made, "backend", None)
    if ours is None or not (backend is ours or isinstance(backend, _ProcessGroupWrapper)):
        return backend_of(group) is not None
    if backend is not ours:
        ours.checking = backend
    ours.bound_device_id = group.bound_device_id
    _backends[group] = ours
    made.backend = None
    return True


def backend_of(group: Any) -> ProcessGroupNCCL | None:
    """Return the backend of ours that a group has, if it has one."""
    return _backends.get(group)
