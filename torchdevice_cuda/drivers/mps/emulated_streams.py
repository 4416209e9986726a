"""``torch.mps.Stream`` of an emulated Apple GPU: torch 2.15 has the class, but builds without MPS lack its base."""

from __future__ import annotations

import threading
from typing import Any

import torch

DEFAULT = 0


class _Current(threading.local):
    stream_id = DEFAULT


def _new(cls: type, *, stream_id: int = DEFAULT) -> Any:
    return object.__new__(cls)


def _init(self: Any, *, stream_id: int = DEFAULT) -> None:
    self.__dict__["stream_id"] = stream_id


def _is_same(self: Any, other: Any) -> Any:
    return self.stream_id == other.stream_id if isinstance(other, type(self)) else NotImplemented


def complete() -> None:
    """Add the missing methods to the class that torch creates in place of the base class, and the functions to torch.

    The GPU has one queue, whichever stream is chosen. The additions stay until the process ends, as the device does.
    """
    base: Any = getattr(torch._C, "_MPSStreamBase", None)
    if base is None or hasattr(torch._C, "_mps_getCurrentStream"):
        return
    current = _Current()

    def set_current(stream: Any) -> None:
        current.stream_id = stream.stream_id

    base.__new__, base.__init__ = staticmethod(_new), _init
    base.__eq__, base.__hash__ = _is_same, lambda self: hash(self.stream_id)
    base.stream_id = property(lambda self: self.__dict__["stream_id"])
    base.synchronize = lambda self: torch._C._mps_deviceSynchronize()
    functions = {
        "_mps_getCurrentStream": lambda: base(stream_id=current.stream_id),
        "_mps_setStream": set_current,
    }
    for name, function in functions.items():
        setattr(torch._C, name, function)
