"""The program sees CUDA: a tensor on the Apple GPU says so when the program asks, and the truth when torch does.

``x.device`` is a property that looks at who asks: one look at the caller's module. Nothing else about tensors changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install

_frame = sys._getframe
#: The roots of modules that are told the truth.
_INSIDERS = ("torch", "torchdevice_cuda")
_CUDA = torch.device("cuda", 0)
#: The real devices, and what the program is told they are.
_ANSWERS = {torch.device("mps", 0): _CUDA, torch.device("mps"): _CUDA}


class _Insiders(dict):
    """Whether code of a module is told the truth, remembered by the module's name."""

    def __missing__(self, module: str | None) -> bool:
        inside = self[module] = (module or "").partition(".")[0] in _INSIDERS
        return inside


_inside = _Insiders()


def _masked(getter: Callable[[Any], Any], answers: dict[Any, Any], doc: str | None) -> property:
    """A property whose real value is replaced for the program, where ``answers`` has a replacement."""

    def read(self: Any) -> Any:
        real = getter(self)
        if real in answers and not _inside[_frame(1).f_globals.get("__name__")]:
            return answers[real]
        return real

    return property(read, doc=doc)


def _on_gpu(device_of: Callable[[Any], torch.device], getter: Callable[[Any], bool], answer: bool) -> property:
    """A property that says whether a tensor is of a device type: ``answer`` for the program's tensors on the GPU."""

    def read(self: Any) -> bool:
        if device_of(self) in _ANSWERS and not _inside[_frame(1).f_globals.get("__name__")]:
            return answer
        return getter(self)

    return property(read, doc=getattr(getter, "__doc__", None))


def _wanted(editor: Editor) -> bool:
    return editor.settings.identity == "cuda"


@patch("mps")
def tensors(editor: Editor, driver: Driver) -> None:
    """Tensors on the GPU say ``cuda:0``, are CUDA's and not MPS's."""
    if not _wanted(editor):
        return
    base = torch._C.TensorBase
    device = base.device.__get__
    editor.set(torch.Tensor, "device", _masked(device, _ANSWERS, base.device.__doc__))
    editor.set(torch.Tensor, "is_cuda", _on_gpu(device, base.is_cuda.__get__, True))
    editor.set(torch.Tensor, "is_mps", _on_gpu(device, base.is_mps.__get__, False))


@patch("mps")
def storages(editor: Editor, driver: Driver) -> None:
    """A storage says what its tensor says."""
    if not _wanted(editor):
        return
    device = torch._C.StorageBase.device.__get__
    editor.set(torch.UntypedStorage, "device", _masked(device, _ANSWERS, None))
    editor.set(torch.UntypedStorage, "is_cuda", _on_gpu(device, lambda self: device(self).type == "cuda", True))
    typed = torch.TypedStorage

    def of_typed(self: Any) -> torch.device:
        return device(self._untyped_storage)

    editor.set(typed, "device", _masked(of_typed, _ANSWERS, None))
    editor.set(typed, "is_cuda", _on_gpu(of_typed, lambda self: of_typed(self).type == "cuda", True))


@patch("mps")
def packed_sequences(editor: Editor, driver: Driver) -> None:
    """A packed sequence asks its data, from torch's own code, whether it is CUDA's."""
    if not _wanted(editor):
        return
    from torch.nn.utils.rnn import PackedSequence

    editor.set(PackedSequence, "is_cuda", property(lambda self: self.data.device.type in ("cuda", driver.device_type)))


@patch("mps")
def type_names(editor: Editor, driver: Driver) -> None:
    """``x.type()`` names the class that ``torch.cuda`` has for it."""
    if not _wanted(editor):
        return
    original = torch.Tensor.type
    prefix, shown = f"torch.{driver.device_type}.", "torch.cuda."

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        return shown + found[len(prefix) :] if found.__class__ is str and found.startswith(prefix) else found

    install(editor, torch.Tensor, "type", disguise(wrapper, original), original)


@patch("mps")
def numpy_refusal(editor: Editor, driver: Driver) -> None:
    """Where ``x.numpy()`` is refused for a tensor on the GPU, the refusal names the device that the program knows."""
    if not _wanted(editor) or editor.translator.unasked is not None:
        return
    original = torch.Tensor.numpy

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except TypeError:
            if self.device.type != driver.device_type:
                raise
        raise TypeError(
            f"can't convert {_CUDA} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    install(editor, torch.Tensor, "numpy", disguise(wrapper, original), original)


@patch("mps")
def printing(editor: Editor, driver: Driver) -> None:
    """``repr(x)`` shows the device that the program knows; everything else about printing goes by the real one."""
    if not _wanted(editor):
        return
    from torch import _tensor_str

    original = _tensor_str._add_suffixes
    real, shown = {f"device='{device}'" for device in _ANSWERS}, f"device='{_CUDA}'"

    def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
        return original(tensor_str, [shown if s in real else s for s in suffixes], indent, force_newline)

    editor.set(_tensor_str, "_add_suffixes", disguise(_add_suffixes, original))


@patch("mps")
def default_device(editor: Editor, driver: Driver) -> None:
    """``torch.get_default_device()`` makes a tensor to learn the device's index, and reads its real device."""
    if not _wanted(editor):
        return
    original = torch.get_default_device

    def get_default_device() -> torch.device:
        found = original()
        return _ANSWERS.get(found, found)

    install(editor, torch, "get_default_device", disguise(get_default_device, original), original)


@patch("mps")
def checkpoints(editor: Editor, driver: Driver) -> None:
    """A storage saved from the GPU is tagged as CUDA's: what a program saves here loads where it was written for."""
    if not _wanted(editor):
        return
    from torch import serialization

    def tag(storage: Any) -> str | None:
        return str(_CUDA) if storage.device.type == driver.device_type else None

    entry = (9, tag, lambda storage, location: None)  # before torch's own, which start at 10
    serialization._package_registry.append(entry)
    serialization._package_registry.sort(key=lambda row: row[0])
    editor.on_undo(lambda: serialization._package_registry.remove(entry))
