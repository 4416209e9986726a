"""The devices that tensors on the accelerator report if requests for the CPU go there, too.

A tensor's device is known if the program requested it: the tensor was created or moved for the CPU (or for no device),
or for CUDA. It is stored by the tensor's memory, so that views, ``detach()``, parameters and the result of
``x.data = y`` report the same device. The device of operator results is not tracked, because operators are not wrapped.
They report the CPU until the program first requests CUDA, and CUDA afterwards; tensors that exist at that moment keep
reporting the CPU.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ...wrapper_tensors.doubles import HostDoubleTensor
from .marks import References

_ref = weakref.ref
_storage: Callable[[torch.Tensor], Any] = torch._C.TensorBase.untyped_storage


#: Tensor classes that own a storage.
_HOLDING = frozenset({torch.Tensor, torch.nn.Parameter})


def _memory(tensor: torch.Tensor) -> Any:
    """Return the key of a tensor's memory: its storage, of which there is one object, or else the tensor itself."""
    try:
        if tensor.__class__ in _HOLDING:
            return tensor.untyped_storage()
        if tensor.__class__ is HostDoubleTensor:
            return tensor._host.untyped_storage()
        with torch._C.DisableTorchFunctionSubclass():
            return _storage(tensor)
    except (NotImplementedError, RuntimeError):  # sparse tensors, wrappers of others
        return tensor


def _kinds(kind: Any) -> set[Any]:
    """Return a class and all its subclasses."""
    return {kind}.union(*(_kinds(derived) for derived in type.__subclasses__(kind)))


class Memories(References):
    """Memory whose device is known, stored weakly beside the tensors."""

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record a tensor's memory, and return the tensor."""
        # Hot: does what ``note`` does, without a call.
        memory, refs = _memory(tensor), self.refs
        refs[id(memory)] = _ref(memory)
        if len(refs) > self.limit:
            self.sweep()
        return tensor

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return self.holds(_memory(tensor))


class ApparentDevices:
    """The devices that tensors on the accelerator report to the program."""

    def __init__(self, on_gpu: Callable[[torch.Tensor], bool]) -> None:
        #: Memory that the program requested on the CPU.
        self.known_cpu = Memories()
        self._known_cuda = Memories()
        self._on_gpu = on_gpu
        #: Whether the program has requested CUDA.
        self.cuda_named = False
        #: Record a tensor that the program requested on the CPU, or on no device, and return it. Hot: one call only.
        self.add_cpu: Callable[[torch.Tensor], torch.Tensor] = self.known_cpu.add

    def add_cuda(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record a tensor that the program requested on CUDA, and return it."""
        self._known_cuda.add(tensor)
        if not self.cuda_named:
            self._settle()
        return tensor

    def add_cuda_memory(self, memory: Any) -> None:
        """Record memory as CUDA's."""
        self._known_cuda.note(memory)
        if not self.cuda_named:
            self._settle()

    def _settle(self) -> None:
        """Handle the first request for CUDA: all other tensors on the accelerator report the CPU from now on."""
        self.cuda_named = True
        kinds, on_gpu = _kinds(torch.Tensor), self._on_gpu
        # Run no code of the program: a subclass would be called for each query, and so would properties of other
        # objects.
        with torch._C.DisableTorchFunctionSubclass():
            for value in gc.get_objects():
                if type(value) in kinds and on_gpu(value):
                    memory = _memory(value)
                    if not self._known_cuda.holds(memory):
                        self.known_cpu.note(memory)

    def is_cpu(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor on the accelerator reports the CPU."""
        if not self.cuda_named:
            return True
        memory = _memory(tensor)
        reference = self.known_cpu.refs.get(id(memory))
        return reference is not None and reference() is memory

    def is_cpu_memory(self, memory: Any) -> bool:
        """Return whether a storage reports the CPU."""
        return not self.cuda_named or self.known_cpu.holds(memory)

    def is_known_cuda(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor was created for CUDA; False for operator results, which are not tracked."""
        return tensor in self._known_cuda

    def carry(self, source: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        """Give a tensor the apparent device of the one that it was created from, and return it."""
        if made is source or not self._on_gpu(made):
            return made
        memory = _memory(source)
        if self.known_cpu.holds(memory):
            return self.known_cpu.add(made)
        return self._known_cuda.add(made) if self._known_cuda.holds(memory) else made
