"""Methods of tensors that name a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from ..drivers.handles import CStream
from .devices import host_allocation_error
from .patches import Editor, patch
from .wrapping import PLAIN, Function, disguise, dispatched, install, modes

_NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "new_tensor")
# ``Tensor.to(device, dtype, non_blocking, copy)``: where ``copy`` stands when given by position.
_COPY_POSITION = 3


def _mover(editor: Editor) -> Callable[..., torch.Tensor]:
    """``move(tensor, asked, target, args, kwargs)``: the rest of a move whose device has been translated."""
    original = torch._C.TensorBase.to
    translator, marks, driver = editor.translator, editor.translator.marks, editor.translator.driver
    if translator.accelerator != "cpu":

        def move(self: torch.Tensor, asked: Any, target: torch.device, args: tuple, kwargs: dict) -> torch.Tensor:
            return original(self, target, *args, **kwargs)

        return move

    def move_on_host(self: torch.Tensor, asked: Any, target: torch.device, args: tuple, kwargs: dict) -> torch.Tensor:
        # Between CUDA and the CPU a move copies, even if both are this memory; to where the tensor is, it does not.
        there = self in marks
        to_cuda = translator.names_cuda(asked)
        if there == to_cuda:
            if not args and not kwargs and there:
                return self
            moved = original(self, target, *args, **kwargs)
        elif target.type == "cpu" and self.device.type == "cpu":
            if len(args) >= _COPY_POSITION:
                args = (*args[: _COPY_POSITION - 1], True, *args[_COPY_POSITION:])
            else:
                kwargs["copy"] = True
            if to_cuda and driver.cold:
                torch.cuda._lazy_init()
            try:
                moved = original(self, target, *args, **kwargs)
            except RuntimeError as error:
                raise host_allocation_error(driver, error) from None
        else:
            return original(self, target, *args, **kwargs)
        return marks.add(moved) if to_cuda else moved

    return move_on_host


@patch("cpu", "mps", "cuda")
def to(editor: Editor, driver: Driver) -> None:
    """Tensor.to with a device, by position or by name; with a dtype or another tensor it is not about devices."""
    original = torch.Tensor.to
    move = _mover(editor)
    translator = editor.translator
    get, resolve = translator.cache.get, translator.resolve
    named = (str, torch.device)

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes.count or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, self, (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        if args:
            asked = args[0]
            if asked.__class__ in named:
                return move(self, asked, get(asked) or resolve(asked), args[1:], kwargs)
            if asked.__class__ is int:
                return move(self, asked, resolve(asked), args[1:], kwargs)
        asked = kwargs.get("device")
        if asked is None:
            return original(self, *args, **kwargs)
        rest = {key: value for key, value in kwargs.items() if key != "device"}
        if args:
            return original(self, *args, **kwargs | {"device": translator.device(asked)})
        return move(self, asked, translator.device(asked), (), rest)

    install(editor, torch.Tensor, "to", disguise(wrapper, original), original)


@patch("cpu", "mps")
def cuda(editor: Editor, driver: Driver) -> None:
    """Tensor.cuda: a move to the current CUDA device, or the one given."""
    original = torch.Tensor.cuda
    move = _mover(editor)
    translator = editor.translator

    def wrapper(
        self: torch.Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        if modes.count or self.__class__ not in PLAIN:
            kwargs = {"device": device, "non_blocking": non_blocking, "memory_format": memory_format}
            handled = dispatched(wrapper, self, (self,), kwargs)
            if handled is not NotImplemented:
                return handled
        if driver.cold:
            torch.cuda._lazy_init()
        asked = "cuda" if device is None else device
        target = translator.device(asked)
        if not translator.names_cuda(asked):
            raise RuntimeError(f"Invalid device, must be cuda device but got {torch.device(asked)}")
        kwargs = {} if memory_format is torch.preserve_format else {"memory_format": memory_format}
        return move(self, asked, target, (), kwargs | ({"non_blocking": True} if non_blocking else {}))

    install(editor, torch.Tensor, "cuda", disguise(wrapper, original), original)


@patch("cpu", "mps", "cuda")
def cpu(editor: Editor, driver: Driver) -> None:
    """Tensor.cpu: a request for the CPU like any other."""
    original = torch.Tensor.cpu
    move = _mover(editor)
    translator, marks = editor.translator, editor.translator.marks
    if translator.accelerator == "cpu":

        def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            if self in marks:
                return move(self, "cpu", translator.device("cpu"), (), kwargs)
            return original(self, *args, **kwargs)
    else:

        def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            target = translator.device("cpu")
            return original(self, *args, **kwargs) if target.type == "cpu" else move(self, "cpu", target, (), kwargs)

    install(editor, torch.Tensor, "cpu", disguise(wrapper, original), original)


@patch("cpu", "mps", "cuda")
def new(editor: Editor, driver: Driver) -> None:
    """Tensor.new_zeros and its kin take a device."""
    translator = editor.translator
    for name in _NEW:
        original = getattr(torch.Tensor, name)
        wrapper = _new_wrapper(translator, original)
        install(editor, torch.Tensor, name, disguise(wrapper, original), original)


def _new_wrapper(translator: Any, original: Function) -> Function:
    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes.count or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, self, (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        asked = kwargs.get("device")
        if asked is not None:
            kwargs["device"] = translator.device(asked)
        return original(self, *args, **kwargs)

    return wrapper


@patch("cpu", "mps")
def record_stream(editor: Editor, driver: Driver) -> None:
    """Tensor.record_stream keeps memory from reuse while a stream works on it; the host's work is done at once."""
    original = torch.Tensor.record_stream

    def wrapper(self: torch.Tensor, stream: Any) -> None:
        if not isinstance(stream, CStream):
            raise RuntimeError(f"record_stream(): argument 's' must be Stream, not {type(stream).__name__}")

    install(editor, torch.Tensor, "record_stream", disguise(wrapper, original), original)


@patch("cuda", "mps")
def leaving(editor: Editor, driver: Driver) -> None:
    """Where the CPU is redirected a program cannot bring a tensor home itself: numpy and DLPack do it for it."""
    translator = editor.translator
    if translator.unasked is None:
        return
    home = torch._C.TensorBase.cpu  # torch.Tensor.cpu is redirected
    for name in ("numpy", "__dlpack__", "__dlpack_device__"):
        original = getattr(torch.Tensor, name)

        def wrapper(self: torch.Tensor, *args: Any, _original: Function = original, **kwargs: Any) -> Any:
            return _original(home(self) if self.device.type == translator.accelerator else self, *args, **kwargs)

        install(editor, torch.Tensor, name, disguise(wrapper, original), original)
