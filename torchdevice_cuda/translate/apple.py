"""Functions that make tensors, and moves, where the accelerator is the Apple GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .devices import Translator, names_a_device
from .factories import LIKE, OVERRIDABLE, injection, takes_generator
from .float64 import NARROW
from .patches import Editor, patch
from .wrapping import PLAIN, Function, disguise, dispatched, install, modes

_CPU = torch.device("cpu")
#: Looked up rather than asked for their type, which makes a new string each time (0.6 us).
_GPU = frozenset({torch.device("mps"), torch.device("mps", 0)})
# ``Tensor.to(device, dtype, non_blocking, copy)``: where the last two stand after the device.
_NON_BLOCKING = 1
_COPY = 2
_on_gpu = torch._C.TensorBase.is_mps.__get__


def on_apple(editor: Editor, name: str, original: Function) -> Function:
    """A factory: its device is translated, float64 and errors of the GPU are dealt with, memory peaks are seen."""
    translator, driver = editor.translator, editor.translator.driver
    injects = injection(translator, name)
    like, overridable = name in LIKE, name in OVERRIDABLE
    refused, pinned, note = _refused(editor, name, original), editor.pinned, driver.memory.note
    known, named = translator.cache, (str, torch.device)
    always, plain = overridable or like, not like
    precision, draws_at_home = editor.precision, _draws_at_home(translator)
    redirects = translator.unasked is not None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if (modes or always) and (modes or plain or not args or args[0].__class__ not in PLAIN):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            handled = dispatched(wrapper, subjects, args, kwargs)
            if handled is not NotImplemented:
                return handled
        asked, target, at_home = kwargs.get("device"), None, False
        if "generator" in kwargs and draws_at_home(asked, kwargs["generator"], args):
            kwargs["device"] = _CPU
            return precision.settle(original(*args, **kwargs))
        if asked is None:
            if injects is not None and injects(args, kwargs):
                kwargs["device"] = target = translator.unasked
                translator.log("no device", target)
                at_home = True
        elif asked.__class__ in named and asked in known:
            kwargs["device"] = target = known[asked]
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
        except (TypeError, RuntimeError) as error:
            return refused(error, args, kwargs)
        note()
        return translator.at_home.add(made) if at_home else made

    return wrapper


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
    precision, memory = editor.precision, editor.translator.driver.memory
    random = takes_generator(name)

    def resolve(error: Exception, args: tuple, kwargs: dict[str, Any]) -> Any:
        if not precision.refused(error):
            raise memory.translated(error) if isinstance(error, RuntimeError) else error
        dtype = kwargs.get("dtype") or (torch.get_default_dtype() if random else None)
        if precision.choice == "downcast" and dtype in NARROW:
            precision.note(dtype)
            return original(*args, **{**kwargs, "dtype": NARROW[dtype]})
        return precision.settle(original(*args, **{**kwargs, "device": _CPU}))

    return resolve


def mover(editor: Editor) -> Callable[..., torch.Tensor]:
    """The rest of a move whose device has been translated.

    Copies that do not wait are not safe here: one to the CPU can be read before it has arrived, one from memory that
    is not the GPU's can be overtaken by what the program does to its source. All copies wait.

    Where requests for the CPU go to the GPU too, a move between the two still copies: a program changes the one and
    goes on with the other.
    """
    original = torch._C.TensorBase.to
    translator, driver = editor.translator, editor.translator.driver
    memory = driver.memory
    note = memory.note

    def move(self: torch.Tensor, to_cuda: bool, target: torch.device, args: tuple, kwargs: dict) -> torch.Tensor:
        if driver.cold and target.type == "mps":
            torch.cuda._lazy_init()
        if "non_blocking" in kwargs:
            kwargs["non_blocking"] = False
        elif len(args) > _NON_BLOCKING:
            args = (*args[:_NON_BLOCKING], False, *args[_NON_BLOCKING + 1 :])
        crosses = translator.unasked is not None and _on_gpu(self) and translator.is_at_home(self) == to_cuda
        if crosses and target.type == "mps":
            args, kwargs = args[:_COPY], {**kwargs, "copy": True}
        try:
            moved = original(self, target, *args, **kwargs)
        except RuntimeError as error:
            raise memory.translated(error) from None
        note()
        return translator.at_home.add(moved) if crosses and not to_cuda and _on_gpu(moved) else moved

    return move


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
