"""The backends of process groups, and the reduction of the current call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from torch._C._distributed_c10d import _ProcessGroupWrapper

from .communicator import made

if TYPE_CHECKING:
    from .backend import ProcessGroupNCCL

#: A backend created in Python lives as long as its Python object; C++ keeps only its own part alive.
_backends: WeakKeyDictionary[Any, ProcessGroupNCCL] = WeakKeyDictionary()
#: The reduction of this thread's call, as Python passed it: the dispatcher does not show factors.
noted = threading.local()


def taken(group: Any, backend: Any) -> bool:
    """Register the backend of a group; return whether it is torchdevice_cuda's, or one that checks its calls."""
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
    """Return the ``ProcessGroupNCCL`` of a group, if it has one."""
    return _backends.get(group)
