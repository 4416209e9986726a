"""numba.cuda's own simulator over the memory of our devices.

The simulator keeps device arrays in memory of numpy's and knows no ``__cuda_array_interface__``. Here its arrays lie in
the device's memory, and it takes and gives that interface, as numba does with a GPU.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ..drivers.loans import Loan

Function = Callable[..., Any]
_INTERFACE = "__cuda_array_interface__"


class _Memory:
    """Memory that a numpy array looks at, and whoever has to live as long."""

    def __init__(self, owner: Any, **interface: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, **interface}


def over(interface: dict[str, Any], owner: Any) -> Any:
    """Return a numpy array over the memory that ``__cuda_array_interface__`` describes."""
    if interface.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    if 0 in shape:
        return np.empty(shape, dtype=interface["typestr"])
    told = {"shape": shape, "strides": strides, "typestr": interface["typestr"], "data": tuple(interface["data"])}
    return np.asarray(_Memory(owner, **told))


class Arrays:
    """Changes of the simulator."""

    def __init__(self, on_gpu: Callable[[torch.Tensor], bool], exports: bool, lend: Callable[[], Loan] | None) -> None:
        """``exports``: whether tensors can be made over the arrays' memory; ``lend``: for a GPU with its own memory."""
        self._on_gpu, self._exports, self._lend = on_gpu, exports, lend

    def interface(self, value: Any) -> dict[str, Any] | None:
        """Return the interface of what is in the device's memory; of our tensors even where they say ``cpu``."""
        if isinstance(value, torch.Tensor) and self._on_gpu(value):
            if self._lend is not None:
                return None  # it is lent for a launch only
            with torch.no_grad():
                bare = value.detach()
            array = bare.__array__() if bare.device.type == "cpu" else None
            if array is not None:
                made = array.__array_interface__
                return {**{k: made[k] for k in ("shape", "strides", "typestr", "data")}, "version": 3}
        found = getattr(value, _INTERFACE, None)
        return found if isinstance(found, dict) else None

    def of_arrays(self, module: ModuleType) -> dict[tuple[Any, str], Any]:
        """Return the changes of the module with the simulator's arrays: owner and name, and the new value."""
        kind = vars(module)["FakeCUDAArray"]
        init = kind.__init__

        @functools.wraps(init)
        def __init__(array: Any, ary: Any, stream: Any = 0) -> None:
            init(array, self._moved(ary), stream)

        changed: dict[tuple[Any, str], Any] = {(kind, "__init__"): __init__}
        if self._exports:
            changed[kind, _INTERFACE] = property(_told)
        return changed

    def _moved(self, ary: Any) -> Any:
        """Return a whole array, in the device's memory: parts of one look at what is there already."""
        whole = ary if ary.base is None else ary.base
        plain = isinstance(ary, np.ndarray) and ary.dtype.kind in "biufc" and ary.size
        if not self._exports or not plain or not isinstance(whole, np.ndarray) or whole.nbytes != ary.nbytes:
            return ary
        memory = torch.empty(ary.nbytes, dtype=torch.uint8, device="cuda")
        told = {
            "shape": ary.shape,
            "strides": ary.strides,
            "typestr": ary.dtype.str,
            "data": (memory.data_ptr(), False),
        }
        moved = np.asarray(_Memory(memory, **told))
        np.copyto(moved, ary)
        return moved

    def of_kernels(self, module: ModuleType) -> dict[tuple[Any, str], Any]:
        """Return the changes of the module with the simulator's kernels."""
        kind, array = vars(module)["FakeCUDAKernel"], vars(module)["FakeCUDAArray"]
        call = kind.__call__

        @functools.wraps(call)
        def __call__(kernel: Any, *args: Any) -> Any:
            loan = None if self._lend is None else self._lend()
            given = [self._argument(array, value, loan) for value in args]
            with contextlib.nullcontext() if loan is None else loan:
                return call(kernel, *given)

        return {(kind, "__call__"): __call__}

    def _argument(self, array: Any, value: Any, loan: Loan | None) -> Any:
        if isinstance(value, (array, np.ndarray)) or not hasattr(value, "__class__"):
            return value
        if loan is not None and isinstance(value, torch.Tensor) and self._on_gpu(value):
            return array(loan.tensor(value).__array__())
        interface = self.interface(value)
        return value if interface is None else array(over(interface, value))

    def of_module(self, module: ModuleType, array: Any) -> dict[tuple[Any, str], Any]:
        """Return the changes of ``numba.cuda``: functions that numba has and its simulator lacks."""

        def from_cuda_array_interface(desc: dict[str, Any], owner: Any = None, sync: bool = True) -> Any:
            return array(over(desc, owner))

        def as_cuda_array(obj: Any, sync: bool = True) -> Any:
            interface = self.interface(obj)
            if interface is None:
                raise TypeError("*obj* doesn't implement the cuda array interface.")
            return from_cuda_array_interface(interface, owner=obj, sync=sync)

        def is_cuda_array(obj: Any) -> bool:
            return self.interface(obj) is not None

        def __getattr__(name: str) -> Any:
            """Find what kernels use: the simulator puts it in place of a global ``cuda``, not of a function's own."""
            running = getattr(sys.modules.get(f"{module.__name__}.simulator.kernel"), "_kernel_context", None)
            if running is None or name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return getattr(running, name)

        added: list[Function] = [from_cuda_array_interface, as_cuda_array, is_cuda_array]
        if "__getattr__" not in vars(module):
            added.append(__getattr__)
        return {(module, function.__name__): function for function in added}


def _told(array: Any) -> dict[str, Any]:
    """Return the interface of one of the simulator's arrays, as numba's own have it."""
    inner = array._ary
    address = inner.__array_interface__["data"][0] if inner.size else 0
    return {
        "shape": tuple(inner.shape),
        "strides": None if inner.flags["C_CONTIGUOUS"] else tuple(inner.strides),
        "data": (address, False),
        "typestr": inner.dtype.str,
        "stream": None if not array.stream else int(getattr(array.stream, "handle", 0) or 0) or None,
        "version": 3,
    }
