"""The devices that tensors on the accelerator report if requests for the CPU go there, too.

Known is what the program asked for: a tensor that was made or moved for the CPU (or for no device), and one that was
for CUDA. It is known by its memory, so that views, ``detach()``, parameters and what ``x.data = y`` gives are believed
to be where that memory is. Results of operators are not known: nobody stands in an operator's way. They are the CPU's
as long as the program has not asked for CUDA, and then CUDA's; what lives at that moment stays the CPU's.
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
    """Return the key of a tensor's memory: its storage, of which there is one object; or itself, if it has none."""
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
    """Return a class and all that are derived from it."""
    return {kind}.union(*(_kinds(derived) for derived in type.__subclasses__(kind)))


class Memories(References):
    """Memory that is known to be somewhere, kept weakly beside the tensors."""

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor's memory, and return the tensor."""
        # Hot: what ``note`` does, without its call.
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
        #: Memory that the program wanted on the CPU.
        self.known_cpu = Memories()
        self._known_cuda = Memories()
        self._on_gpu = on_gpu
        #: Whether the program has asked for CUDA.
        self.cuda_named = False
        #: Note a tensor that the program wanted on the CPU, or on no device, and return it. Hot, so not one call more.
        self.add_cpu: Callable[[torch.Tensor], torch.Tensor] = self.known_cpu.add

    def add_cuda(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor that the program wanted on CUDA, and return it."""
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
        """CUDA is asked for the first time: whatever else is on the accelerator by now is the CPU's to the program."""
        self.cuda_named = True
        kinds, on_gpu = _kinds(torch.Tensor), self._on_gpu
        # No code of the program's is to run: a subclass would hear of each question, and objects of their classes.
        with torch._C.DisableTorchFunctionSubclass():
            for value in gc.get_objects():
                if type(value) in kinds and on_gpu(value):
                    memory = _memory(value)
                    if not self._known_cuda.holds(memory):
                        self.known_cpu.note(memory)

    def is_cpu(self, tensor: torch.Tensor) -> bool:
        """Return whether the program believes that a tensor on the accelerator is the CPU's."""
        if not self.cuda_named:
            return True
        memory = _memory(tensor)
        reference = self.known_cpu.refs.get(id(memory))
        return reference is not None and reference() is memory

    def is_cpu_memory(self, memory: Any) -> bool:
        """Return whether a storage reports the CPU."""
        return not self.cuda_named or self.known_cpu.holds(memory)

    def is_known_cuda(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor was made for CUDA; of results of operators that is not known."""
        return tensor in self._known_cuda

    def carry(self, source: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        """Believe of a tensor what is believed of the one that it was made of; and return it."""
        if made is source or not self._on_gpu(made):
            return made
        memory = _memory(source)
        if self.known_cpu.holds(memory):
            return self.known_cpu.add(made)
        return self._known_cuda.add(made) if self._known_cuda.holds(memory) else made
