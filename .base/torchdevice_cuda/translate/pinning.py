"""Pinned memory where all memory is the host's: it is what it is, but programs ask whether a tensor is pinned."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install


class Pinned:
    """The storages that count as pinned, known by their address for as long as they live."""

    def __init__(self, driver: Driver) -> None:
        self._registered = driver.registered_host_memory
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def adopt(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor's storage as pinned, and return the tensor."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address:
            self._storages[address] = weakref.ref(storage, lambda _: self._storages.pop(address, None))
        return tensor

    def __contains__(self, tensor: torch.Tensor) -> bool:
        if not (self._storages or self._registered):
            return False
        if tensor.layout is not torch.strided:
            return False
        address = tensor.untyped_storage().data_ptr()
        return address in self._storages or any(
            start <= address < start + size for start, size in self._registered.items()
        )


@patch("cpu")
def tensors(editor: Editor, driver: Driver) -> None:
    """torch's pinned memory comes from an accelerator's allocator, which a CPU build lacks."""
    pinned, marks = editor.pinned, editor.translator.marks
    pin, asks = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        if self in pinned:
            return self
        if self in marks or self.layout is not torch.strided or self.device.type != "cpu":
            kind = self.type().replace("torch.", "torch.cuda.", 1) if self in marks else self.type()
            raise RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")
        copy = self.detach().clone(memory_format=torch.contiguous_format)
        return pinned.adopt(copy.requires_grad_(self.requires_grad))

    def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
        return self in pinned

    install(editor, torch.Tensor, "pin_memory", disguise(pin_memory, pin), pin)
    install(editor, torch.Tensor, "is_pinned", disguise(is_pinned, asks), asks)


class _Done:
    """A DataLoader's "done" event, which sets torch's number of threads when it is first looked at."""

    def __init__(self, event: Any, threads: int) -> None:
        self._event = event
        self._threads: int | None = threads

    def is_set(self) -> bool:
        """Whether the DataLoader is done."""
        if self._threads is not None:
            torch.set_num_threads(self._threads)
            self._threads = None
        return self._event.is_set()


@patch("cpu", "virtual")
def threads(editor: Editor, driver: Driver) -> None:
    """The thread that pins a DataLoader's batches sets torch to one thread; it is to compute on all of them.

    The setting reaches every thread that has not computed yet, the main one too. Beside a GPU that does not matter;
    where the host computes, all training after it would run on a single core. The thread first sets, then looks
    whether it is done: it is there that the number it found is put back.
    """
    from torch.utils.data._utils import pin_memory as module

    original = module._pin_memory_loop
    torch.get_num_threads()  # the calling thread takes its number now, whatever a pinning thread sets later

    def _pin_memory_loop(in_queue: Any, out_queue: Any, device_id: Any, done_event: Any, *rest: Any) -> None:
        original(in_queue, out_queue, device_id, _Done(done_event, torch.get_num_threads()), *rest)

    editor.set(module, "_pin_memory_loop", disguise(_pin_memory_loop, original))
