"""Methods of tensors that name a device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from ..drivers.handles import CStream
from .devices import host_allocation_error, names_a_device
from .patches import Editor, patch
from .wrapping import PLAIN, Function, disguise, dispatched, install, modes

#: Methods that make a new tensor.
NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "new_tensor")
# ``Tensor.to(device, dtype, non_blocking, copy)``: where ``copy`` stands when given by position.
_COPY_POSITION = 3


def _mover(editor: Editor) -> Callable[..., torch.Tensor]:
    """``move(tensor, to_cuda, target, args, kwargs)``: the rest of a move whose device has been translated."""
    original = torch._C.TensorBase.to
    translator, marks, driver = editor.translator, editor.translator.marks, editor.translator.driver
    if translator.accelerator != "cpu":

        def move(self: torch.Tensor, to_cuda: bool, target: torch.device, args: tuple, kwargs: dict) -> torch.Tensor:
            return original(self, target, *args, **kwargs)

        return move

    def move_on_host(
        self: torch.Tensor, to_cuda: bool, target: torch.device, args: tuple, kwargs: dict
    ) -> torch.Tensor:
        # torch.jit.trace compares runs with clones that nobody marked, down to the line that a call comes from.
        if torch._C._get_tracing_state() is not None:
            return original(self, target, *args, **kwargs)
        # Between CUDA and the CPU a move copies, even if both are this memory; to where the tensor is, it does not.
        there = self in marks
        if there == to_cuda:
            moved = original(self, target, *args, **kwargs)
            if moved is self:
                # Not marked for itself: a parameter stays the same object when ``Module.cpu`` takes it elsewhere.
                return self
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
        return marks.add_moved(moved) if to_cuda else moved

    return move_on_host


@patch("cpu", "cuda")
def to(editor: Editor, driver: Driver) -> None:
    """Tensor.to with a device, by position or by name; with a dtype or another tensor it is not about devices."""
    original = torch.Tensor.to
    move = _mover(editor)
    translator, marks = editor.translator, editor.translator.marks
    known, marked = translator.on_cuda, marks.refs.get
    device_class, dtype_class, tracing = torch.device, torch.dtype, torch._C._get_tracing_state
    on_host = translator.accelerator == "cpu"

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        if args:
            asked = args[0]
            kind = asked.__class__
            if kind is str or kind is device_class:
                # The commonest of all: a tensor that is there already. (Only the host's tensors have marks.)
                if asked in known and not kwargs and len(args) == 1:
                    mark = marked(id(self))
                    if mark is not None and mark() is self and tracing() is None:
                        return self
            elif kind is dtype_class or asked is None:
                return original(self, *args, **kwargs) if kwargs else original(self, *args)
            elif isinstance(asked, torch.Tensor):
                if on_host and asked in marks and self not in marks:
                    return move(self, True, translator.device("cuda"), (asked.dtype, *args[1:]), kwargs)
                return original(self, *args, **kwargs)
            elif not names_a_device(asked):
                return original(self, *args, **kwargs)
            target = translator.device(asked)
            return move(self, translator.names_cuda(asked), target, args[1:], kwargs)
        asked = kwargs.get("device")
        if asked is None or not names_a_device(asked):
            return original(self, *args, **kwargs)
        del kwargs["device"]
        if not kwargs and asked in known:
            mark = marked(id(self))
            if mark is not None and mark() is self and tracing() is None:
                return self
        target = translator.device(asked)
        return move(self, translator.names_cuda(asked), target, (), kwargs)

    install(editor, torch.Tensor, "to", disguise(wrapper, original), original)


@patch("cpu")
def cuda(editor: Editor, driver: Driver) -> None:
    """Tensor.cuda: a move to the current CUDA device, or the one given."""
    original = torch.Tensor.cuda
    move = _mover(editor)
    translator, marked = editor.translator, editor.translator.marks.refs.get
    tracing = torch._C._get_tracing_state

    def arguments(
        device: Any = None, non_blocking: bool = False, memory_format: torch.memory_format = torch.preserve_format
    ) -> tuple[Any, dict[str, Any]]:
        kwargs: dict[str, Any] = {"non_blocking": True} if non_blocking else {}
        if memory_format is not torch.preserve_format:
            kwargs["memory_format"] = memory_format
        return device, kwargs

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        if not args and not kwargs:
            mark = marked(id(self))
            if mark is not None and mark() is self and tracing() is None:
                return self
        device, rest = arguments(*args, **kwargs)
        if driver.cold:
            torch.cuda._lazy_init()
        asked = "cuda" if device is None else device
        target = translator.device(asked)
        if not translator.names_cuda(asked):
            raise RuntimeError(f"Invalid device, must be cuda device but got {torch.device(asked)}")
        return move(self, True, target, (), rest)

    install(editor, torch.Tensor, "cuda", disguise(wrapper, original), original)


@patch("cpu", "cuda")
def cpu(editor: Editor, driver: Driver) -> None:
    """Tensor.cpu: a request for the CPU like any other."""
    original = torch.Tensor.cpu
    move = _mover(editor)
    translator, marks = editor.translator, editor.translator.marks
    on_host = translator.accelerator == "cpu"

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        if (self not in marks) if on_host else translator.device("cpu").type == "cpu":
            return original(self, *args, **kwargs)
        if args:
            kwargs["memory_format"] = args[0]
        return move(self, False, translator.device("cpu"), (), kwargs)

    install(editor, torch.Tensor, "cpu", disguise(wrapper, original), original)


@patch("cpu", "cuda")
def new(editor: Editor, driver: Driver) -> None:
    """Tensor.new_zeros and its kin take a device."""
    for name in NEW:
        original = getattr(torch.Tensor, name)
        wrapper = _new_wrapper(editor, original)
        install(editor, torch.Tensor, name, disguise(wrapper, original), original)


def _new_wrapper(editor: Editor, original: Function) -> Function:
    translator, marks = editor.translator, editor.translator.marks
    on_host, refs, ref = translator.accelerator == "cpu", marks.refs, weakref.ref

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        asked = kwargs.get("device")
        if asked is None:
            # A tensor made by one on CUDA is on CUDA.
            made = original(self, *args, **kwargs) if kwargs else original(self, *args)
            mark = refs.get(id(self))
            if mark is not None and mark() is self:
                refs[id(made)] = ref(made)
                if len(refs) > marks.limit:
                    marks.sweep()
            return made
        if not names_a_device(asked):
            return original(self, *args, **kwargs)
        kwargs["device"] = translator.device(asked)
        made = original(self, *args, **kwargs)
        return marks.add(made) if on_host and translator.names_cuda(asked) else made

    return wrapper


@patch("cpu", "mps")
def packed_sequences(editor: Editor, driver: Driver) -> None:
    """PackedSequence.cuda looks whether a tensor it moved says it is on CUDA, and asks twice if it does not."""
    from torch.nn.utils.rnn import PackedSequence

    original = PackedSequence.cuda

    def cuda(self: PackedSequence, *args: Any, **kwargs: Any) -> PackedSequence:
        if not args and kwargs.get("device") is None:
            kwargs["device"] = "cuda"
        return self.to(*args, **kwargs)

    install(editor, PackedSequence, "cuda", disguise(cuda, original), original)


@patch("cpu", "mps")
def record_stream(editor: Editor, driver: Driver) -> None:
    """Tensor.record_stream keeps memory from reuse while a stream works on it; the host's work is done at once."""
    original = torch.Tensor.record_stream

    def wrapper(self: torch.Tensor, stream: Any) -> None:
        if driver.device_type != "cpu" and self.device.type == "cpu":
            original(self, stream)  # whose error says that the CPU has no streams
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
