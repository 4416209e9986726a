"""Functions that make tensors, and moves, where the accelerator is the Apple GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .devices import Translator, names_a_device
from .factories import LIKE, OVERRIDABLE, injection, takes_generator
from .float64 import LENIENT, NARROW, conversion, refuse_complex128
from .patches import Editor, patch
from .tensors import NEW
from .wrapping import PLAIN, Function, disguise, dispatched, install, modes

_CPU = torch.device("cpu")
#: Looked up rather than asked for their type, which makes a new string each time (0.6 us).
_GPU = frozenset({torch.device("mps"), torch.device("mps", 0)})
# ``Tensor.to(device, dtype, non_blocking, copy)``: where ``non_blocking`` stands.
_NON_BLOCKING = 2
_on_gpu = torch._C.TensorBase.is_mps.__get__


def on_apple(editor: Editor, name: str, original: Function) -> Function:
    """A factory: its device is translated, float64 and errors of the GPU are dealt with, memory peaks are seen."""
    translator, driver, known = editor.translator, editor.translator.driver, editor.translator.on_cuda
    like, overridable = name in LIKE, name in OVERRIDABLE
    refused, uncommon, note = _refused(editor, name, original), _uncommon(editor, name, original), driver.memory.note
    injecting, overridden = injection(translator, name) is not None, torch._C._has_torch_function
    caller = sys._getframe

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or (like and (not args or args[0].__class__ not in PLAIN)) or (overridable and overridden(args)):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            handled = dispatched(wrapper, subjects, args, kwargs)
            if handled is not NotImplemented:
                return handled
        # The commonest of all: for CUDA, which has been used before, or for no device, by the program itself.
        if driver.cold or "pin_memory" in kwargs or "generator" in kwargs or "out" in kwargs:
            return uncommon(args, kwargs)
        asked = kwargs.get("device")
        if asked is not None:
            try:
                target = known.get(asked)
            except TypeError:  # unhashable: torch will say what a device is
                target = None
            if target is None:
                return uncommon(args, kwargs)
            kwargs["device"] = target
        elif not like:
            if not injecting and not kwargs:
                return original(*args)
            if overridable or not injecting or not translator.injects_for(caller(1)):
                return uncommon(args, kwargs)
            kwargs["device"] = translator.unasked
        try:
            made = original(*args, **kwargs) if kwargs else original(*args)
            if LENIENT:
                refuse_complex128(made)
        except (TypeError, RuntimeError) as error:
            return refused(error, args, kwargs)
        note()
        return made if asked is not None or like else translator.at_home.add(made)

    return wrapper


def _uncommon(editor: Editor, name: str, original: Function) -> Callable[[tuple, dict[str, Any]], Any]:
    """The rest of a call of a factory: for no device, for another, pinned, with a generator, the first for CUDA."""
    translator, driver, precision = editor.translator, editor.translator.driver, editor.precision
    injects, draws_at_home = injection(translator, name), _draws_at_home(translator)
    redirects = translator.unasked is not None
    refused, pinned, note = _refused(editor, name, original), editor.pinned, driver.memory.note

    def finish(args: tuple, kwargs: dict[str, Any]) -> Any:
        asked, target, at_home = kwargs.get("device"), None, False
        if "generator" in kwargs and draws_at_home(asked, kwargs["generator"], args):
            kwargs["device"] = _CPU
            return precision.settle(original(*args, **kwargs))
        if asked is None:
            if injects is not None and injects(args, kwargs):
                kwargs["device"] = target = translator.unasked
                translator.log("no device", target)
                at_home = True
        elif names_a_device(asked):
            kwargs["device"] = target = translator.device(asked)
            at_home = redirects and target in _GPU and not translator.names_accelerator(asked)
        if kwargs.get("pin_memory") and target in _GPU and not translator.names_cuda(asked):
            kwargs["device"] = target = _CPU  # pinned memory is the host's by definition
        if target not in _GPU:
            if kwargs.pop("pin_memory", False):
                return pinned.adopt(original(*args, **kwargs))
        elif driver.cold:
            torch.cuda._lazy_init()
        try:
            made = original(*args, **kwargs)
            if LENIENT:
                refuse_complex128(made)
        except (TypeError, RuntimeError) as error:
            return refused(error, args, kwargs)
        note()
        return translator.at_home.add(made) if at_home else made

    return finish


def _draws_at_home(translator: Translator) -> Callable[[Any, torch.Generator | None, tuple], bool]:
    """Whether a random tensor that goes to the GPU unasked is drawn from a generator of the CPU: it is moved then."""

    def draws(asked: Any, generator: torch.Generator | None, args: tuple) -> bool:
        if translator.unasked is None or generator is None or generator.device.type != "cpu":
            return False
        if any(isinstance(value, torch.Tensor) for value in args):
            return False  # whose device is the result's
        if asked is None:
            return translator.injects()
        return names_a_device(asked) and translator.device(asked) in _GPU and not translator.names_cuda(asked)

    return draws


def _refused(editor: Editor, name: str, original: Function) -> Callable[[Exception, tuple, dict[str, Any]], Any]:
    """What to do about an error of a factory: another dtype, the CPU, or another error."""
    precision, translated = editor.precision, editor.errors.translated
    random = takes_generator(name)

    def resolve(error: Exception, args: tuple, kwargs: dict[str, Any]) -> Any:
        if not precision.refused(error):
            raise translated(error) from None
        dtype = kwargs.get("dtype") or (torch.get_default_dtype() if random else None)
        if precision.choice == "downcast" and dtype in NARROW:
            precision.note(dtype)
            return original(*args, **{**kwargs, "dtype": NARROW[dtype]})
        return precision.settle(original(*args, **{**kwargs, "device": _CPU}))

    return resolve


# ---------------------------------------------------------------------------------- moves
def _crossing(translator: Translator) -> Callable[[torch.Tensor, bool], bool]:
    """Whether a tensor on the GPU that is to stay there goes from the CPU to CUDA, or back, as the program sees it."""

    def crosses(tensor: torch.Tensor, wants_gpu: bool) -> bool:
        return translator.unasked is not None and _on_gpu(tensor) and translator.is_at_home(tensor) == wants_gpu

    return crosses


@patch("mps")
def to(editor: Editor, driver: Driver) -> None:
    """Tensor.to: with a device, by position or by name, it is translated; float64 becomes what the setting says.

    Copies that do not wait are not safe here: one to the CPU can be read before it has arrived, one from memory that
    is not the GPU's can be overtaken by what the program does to its source. All copies wait.

    Where requests for the CPU go to the GPU too, a move between the two still copies: a program changes the one and
    goes on with the other.
    """
    original = torch.Tensor.to
    translator, known, note = editor.translator, editor.translator.on_cuda, driver.memory.note
    refused, device_class, dtype_class = conversion(editor, "to"), torch.device, torch.dtype
    redirects, crosses = translator.unasked is not None, _crossing(translator)

    def translated(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a move, with the real device and without haste."""
        asked = args[0] if args else kwargs.get("device")
        if asked is None or not names_a_device(asked):
            return args, kwargs
        target = translator.device(asked)
        if driver.cold and target in _GPU:
            torch.cuda._lazy_init()
        if args:
            args = (target, *args[1:])
        else:
            kwargs["device"] = target
        if "non_blocking" in kwargs:
            kwargs["non_blocking"] = False
        elif len(args) > _NON_BLOCKING:
            args = (*args[:_NON_BLOCKING], False, *args[_NON_BLOCKING + 1 :])
        return args, kwargs

    def redirected(self: torch.Tensor, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """A move where requests for the CPU go to the GPU too."""
        asked = args[0] if args else kwargs.get("device")
        if asked is None or not names_a_device(asked):
            return original(self, *args, **kwargs)
        args, kwargs = translated(args, kwargs)
        wants_gpu = translator.names_accelerator(asked)
        to_gpu = (args[0] if args else kwargs["device"]) in _GPU
        if to_gpu and crosses(self, wants_gpu):
            args, kwargs = args[:_NON_BLOCKING], {**kwargs, "copy": True}
        moved = original(self, *args, **kwargs)
        return translator.at_home.add(moved) if to_gpu and not wants_gpu and moved is not self else moved

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        try:
            if redirects:
                moved = redirected(self, args, kwargs)
            elif kwargs or len(args) != 1:
                args, kwargs = translated(args, kwargs)
                moved = original(self, *args, **kwargs)
            else:
                asked = args[0]
                if asked.__class__ is str or asked.__class__ is device_class:
                    target = known.get(asked)
                    if target is None or driver.cold:
                        ((target,), _) = translated(args, kwargs)
                    moved = original(self, target)
                elif asked.__class__ is dtype_class:
                    moved = original(self, asked)
                    if not LENIENT:
                        return moved
                else:
                    args, kwargs = translated(args, kwargs)
                    moved = original(self, *args)
            if LENIENT:
                refuse_complex128(moved)
        except (TypeError, RuntimeError) as error:
            return refused(error, self, args, kwargs)
        if moved is not self:
            note()
        return moved

    install(editor, torch.Tensor, "to", disguise(wrapper, original), original)


@patch("mps")
def cuda(editor: Editor, driver: Driver) -> None:
    """Tensor.cuda: a move to the GPU."""
    original, move = torch.Tensor.cuda, torch._C.TensorBase.to
    translator, note = editor.translator, driver.memory.note
    refused, target = conversion(editor, "cuda"), torch.device(driver.device_type, 0)
    redirects, crosses = translator.unasked is not None, _crossing(translator)

    def arguments(
        device: Any = None, non_blocking: bool = False, memory_format: torch.memory_format = torch.preserve_format
    ) -> torch.memory_format:
        asked = "cuda" if device is None else device
        translator.device(asked)  # whose errors are CUDA's
        if not translator.names_cuda(asked):
            raise RuntimeError(f"Invalid device, must be cuda device but got {torch.device(asked)}")
        return memory_format

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        if driver.cold:
            torch.cuda._lazy_init()
        memory_format = arguments(*args, **kwargs) if args or kwargs else torch.preserve_format
        try:
            copy = redirects and crosses(self, True)
            if memory_format is torch.preserve_format and not copy:
                moved = move(self, target)
            else:
                moved = move(self, target, copy=copy, memory_format=memory_format)
            if LENIENT:
                refuse_complex128(moved)
        except (TypeError, RuntimeError) as error:
            return refused(error, self, args, kwargs)
        if moved is not self:
            note()
        return moved

    install(editor, torch.Tensor, "cuda", disguise(wrapper, original), original)


@patch("mps")
def cpu(editor: Editor, driver: Driver) -> None:
    """Tensor.cpu is a request for the CPU like any other, where those are redirected."""
    translator = editor.translator
    if translator.unasked is None:
        return
    original, move, note = torch.Tensor.cpu, torch._C.TensorBase.to, driver.memory.note
    crosses = _crossing(translator)

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        target = translator.device("cpu")
        if target not in _GPU:
            return original(self, *args, **kwargs)
        if args:
            kwargs["memory_format"] = args[0]
        if self.dtype in NARROW:
            moved = editor.precision.settle(self)
        else:
            moved = move(self, target, copy=crosses(self, False), **kwargs)
        note()
        return moved if moved is self else translator.at_home.add(moved)

    install(editor, torch.Tensor, "cpu", disguise(wrapper, original), original)


@patch("mps")
def new(editor: Editor, driver: Driver) -> None:
    """Tensor.new_zeros and its kin take a device, and may be asked for float64."""
    for name in NEW:
        original = getattr(torch.Tensor, name)
        install(editor, torch.Tensor, name, disguise(_new(editor, name, original), original), original)


def _new(editor: Editor, name: str, original: Function) -> Function:
    translator, note = editor.translator, editor.translator.driver.memory.note
    refused = conversion(editor, name)

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if modes or self.__class__ not in PLAIN:
            handled = dispatched(wrapper, (self,), (self, *args), kwargs)
            if handled is not NotImplemented:
                return handled
        if kwargs:
            asked = kwargs.get("device")
            if asked is not None and names_a_device(asked):
                kwargs["device"] = translator.device(asked)
        try:
            made = original(self, *args, **kwargs) if kwargs else original(self, *args)
            if LENIENT:
                refuse_complex128(made)
        except (TypeError, RuntimeError) as error:
            return refused(error, self, args, kwargs)
        note()
        return made

    return wrapper


class _CurrentDevice:
    """``with torch.mps.device(...)``: there is one device, and it is the current one."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        pass


@patch("mps")
def device_module(editor: Editor, driver: Driver) -> None:
    """torch's own code (storages, checkpointing) enters ``torch.<type>.device`` of a tensor; torch.mps has none."""
    for name, value in (("device", _CurrentDevice), ("_initialized", True)):
        if not hasattr(torch.mps, name):
            editor.set(torch.mps, name, value)


@patch("mps")
def copies(editor: Editor, driver: Driver) -> None:
    """``Tensor.copy_(non_blocking=True)`` between the CPU and the GPU waits, like every copy here."""
    original = torch.Tensor.copy_

    def wrapper(self: torch.Tensor, src: Any, non_blocking: bool = False) -> torch.Tensor:
        return original(self, src)

    install(editor, torch.Tensor, "copy_", disguise(wrapper, original), original)
