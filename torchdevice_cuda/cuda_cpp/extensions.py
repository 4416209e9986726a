"""Call extensions that are compiled from CUDA C++ with the tensors of a GPU whose memory is not the host's.

Their kernels run on the host, and their C++ code wants CUDA tensors. So each function of such a library gets CUDA
tensors of a device in host memory, over the memory that the GPU lends; results become the GPU's.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..drivers.loans import Loan, bytes_of
from .leaving import leaving

Function = Callable[..., Any]
#: A section of libraries with kernels (include/host_cuda/kernel_abi.h).
_MARK = b"td_cuda_kernels"
#: Where names of sections are: at the end of an ELF file, at the beginning of a Mach-O file.
_PART = 1 << 15
#: Copied as tensors: the Apple GPU has no such elements.
_NOT_ON_THE_GPU = (torch.float64, torch.complex128)
_INDEX = 0


def has_kernels(path: str) -> bool:
    """Return whether a library has kernels that were compiled from CUDA C++ for the host."""
    try:
        with open(path, "rb") as file:
            start = file.read(_PART)
            file.seek(max(len(start), os.fstat(file.fileno()).st_size - _PART))
            return _MARK in start or _MARK in file.read()
    except OSError:  # loading it gives the reason
        return False


class _Tracked(torch.autograd.Function):
    """A tensor of the device that requires gradients, as the GPU's does: so results that depend on it are known."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, lent: torch.Tensor) -> torch.Tensor:
        return lent.detach()


def _track(tensor: torch.Tensor, lent: torch.Tensor) -> torch.Tensor:
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return lent
    tracked: torch.Tensor = _Tracked.apply(tensor, lent)  # type: ignore[no-untyped-call]
    return tracked


def _lend(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors of the device over the memory of the host's."""
    lent: list[torch.Tensor] = torch.ops.hostdevice_cuda.lend(tensors, _INDEX)
    return lent


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the host over the memory of the device's."""
    made: list[torch.Tensor] = torch.ops.hostdevice_cuda.to_cpu([tensor.detach()])
    return made[0]


class Extensions:
    """Libraries of compiled CUDA C++, whose functions are given tensors of a device in host memory."""

    def __init__(
        self,
        make_loan: Callable[[], Loan],
        on_gpu: Callable[[torch.Tensor], bool],
        home: Function,
        run: Callable[[str, Callable[[], Any]], Any],
    ) -> None:
        """`home` moves a CPU tensor to the GPU; `run` runs a function on the device."""
        self._make_loan, self._on_gpu, self._home, self._run = make_loan, on_gpu, home, run

    def wrap(self, function: Function, name: str) -> Function:
        """Return a function that calls one of a library."""

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, function, args, kwargs)

        called._torchdynamo_disable = True  # type: ignore[attr-defined]  # not traced, as what it calls
        return called

    def call(self, name: str, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a library's function."""
        moved, storages = self._compute(name, function, args, kwargs)
        _refuse_kept(name, storages)
        return moved

    def _compute(
        self, name: str, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[torch.UntypedStorage]]:
        """Return a call's result, and the storages that were lent."""
        tensors: dict[int, torch.Tensor] = {}
        tree_map_only(torch.Tensor, lambda t: tensors.setdefault(id(t), t), (args, kwargs))
        tensors = {key: tensor for key, tensor in tensors.items() if self._on_gpu(tensor)}
        if tensors:
            leaving(name)
        loan = self._make_loan()
        bare = _lend([loan.tensor(tensor) for tensor in tensors.values()]) if tensors else []
        given = {key: _track(tensor, lent) for (key, tensor), lent in zip(tensors.items(), bare, strict=True)}
        returned = _Results(name, tensors, given, self._home)
        args, kwargs = tree_map_only(torch.Tensor, lambda t: given.get(id(t), t), (args, kwargs))
        with loan:
            result = self._run(name, lambda: function(*args, **kwargs))
            moved = tree_map_only(torch.Tensor, returned.take, result)
        return moved, [lent.untyped_storage() for lent in bare]


def find_functions(module: ModuleType) -> Iterator[tuple[Any, str, Function]]:
    """Yield the compiled functions of a module and of its classes: each with its owner and name."""
    for name, value in list(vars(module).items()):
        if isinstance(value, BuiltinFunctionType):
            yield module, name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            methods = {key: method for key, method in vars(value).items() if type(method).__name__ == "instancemethod"}
            yield from ((value, key, method) for key, method in methods.items())


class _Results:
    """Results of one call, which may be its arguments, views of these, or new."""

    def __init__(
        self, name: str, tensors: dict[int, torch.Tensor], given: dict[int, torch.Tensor], home: Function
    ) -> None:
        self._name = name
        self._arguments = {id(lent): tensors[key] for key, lent in given.items()}
        self._owners = {lent.untyped_storage()._cdata: tensors[key] for key, lent in given.items()}
        self._home = home
        self._new: dict[int, torch.Tensor] = {}

    def take(self, result: torch.Tensor) -> torch.Tensor:
        """Return a result as a tensor of the GPU."""
        if result.device.type != "cuda":
            return result
        if id(result) in self._arguments:
            return self._arguments[id(result)]
        if result.requires_grad:
            # PyTorch's engine takes gradients on the CPU and on one accelerator.
            raise RuntimeError(
                f"{self._name} computes gradients in C++, which is not possible on an Apple GPU: call it under "
                "torch.no_grad() or in a torch.autograd.Function, or use --driver virtual"
            )
        if result.layout is not torch.strided or result.dtype in _NOT_ON_THE_GPU:
            made: torch.Tensor = self._home(_on_host(result))
            return made
        storage = result.untyped_storage()
        owner = self._owners.get(storage._cdata)
        if owner is None:
            if storage._cdata not in self._new:
                self._new[storage._cdata] = self._home(_on_host(bytes_of(storage, result.device)))
            owner = self._new[storage._cdata]
        empty = torch.ops.aten.empty.memory_format([0], dtype=result.dtype, device=owner.device)
        place = owner.untyped_storage(), result.storage_offset(), result.size(), result.stride()
        view: torch.Tensor = torch.ops.aten.set_.source_Storage_storage_offset(empty, *place)
        return view


def _refuse_kept(name: str, storages: list[torch.UntypedStorage]) -> None:
    """Refuse that a library keeps memory which is the GPU's again: it would read and write beside the GPU's work."""
    if any(torch._C._storage_Use_Count(storage._cdata) > 1 for storage in storages):
        raise RuntimeError(
            f"{name} kept a tensor that it was given; on an Apple GPU its memory is lent for the call only. "
            "Give it a tensor at each call, or use --driver virtual"
        )
