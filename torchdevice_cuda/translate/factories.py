"""Functions that make tensors: their ``device`` argument is translated, and only it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .devices import host_allocation_error
from .patches import Editor, patch
from .wrapping import Function, disguise, dispatched, install, modes

# Beyond torch's own list of functions that a default device applies to: functions that take a device all the same.
_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_OTHERS = (
    "normal",
    "from_file",
    "_efficientzerotensor",
    "_empty_affine_quantized",
    "_empty_per_channel_affine_quantized",
)
# Functions that bring host data in and take no device: they follow the table so that the data can meet the rest.
_ENTRANCES = ("from_numpy", "frombuffer")
_RANDOM = frozenset({"rand", "randn", "randint", "randperm", "normal", "rand_like", "randint_like", "randn_like"})
# Functions whose device can be given by position: name -> its place.
_POSITIONAL = {"as_tensor": 2}


def _constructors() -> dict[str, tuple[Any, str, Function]]:
    """Every function to wrap: ``{dotted name: (owner, attribute, function)}``."""
    from torch.utils._device import _device_constructors

    homes = {id(value): (torch, name) for name, value in vars(torch).items() if callable(value)}
    homes.update({id(torch.fft.fftfreq): (torch.fft, "fftfreq"), id(torch.fft.rfftfreq): (torch.fft, "rfftfreq")})
    homes[id(torch.nested.nested_tensor)] = (torch.nested, "nested_tensor")
    found = {}
    for function in _device_constructors():
        if id(function) in homes:
            owner, name = homes[id(function)]
            found[name] = (owner, name, function)
    for name in (*_LIKE, *_OTHERS):
        if hasattr(torch, name):
            found[name] = (torch, name, getattr(torch, name))
    return found


def _generator(asked: Any) -> torch.Generator:
    """The generator from which a random tensor for CUDA is drawn where CUDA's generator is not the CPU's."""
    index = asked if isinstance(asked, int) else torch.device(asked).index
    return torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]


def translating(editor: Editor, name: str, original: Function) -> Function:
    """A factory whose device argument is translated; a call without one runs as it is."""
    translator = editor.translator
    position = _POSITIONAL.get(name)
    like = name in _LIKE
    get, resolve = translator.cache.get, translator.resolve
    finish = _host_finish(editor, name, original) if translator.accelerator == "cpu" else None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes.count or like:
            handled = dispatched(wrapper, args[0] if like and args else None, args, kwargs)
            if handled is not NotImplemented:
                return handled
        if position is not None and len(args) > position:
            kwargs["device"], args = args[position], args[:position]
        if not kwargs:
            return original(*args)
        asked = kwargs.get("device")
        if asked is not None:
            kwargs["device"] = (get(asked) if asked.__class__ is not int else None) or resolve(asked)
        if finish is not None:
            return finish(asked, args, kwargs)
        return original(*args, **kwargs)

    return wrapper


def _host_finish(editor: Editor, name: str, original: Function) -> Function:
    """The end of a call where CUDA's memory is the host's: mark what is CUDA's, pin what is to be pinned."""
    translator, marks, driver = editor.translator, editor.translator.marks, editor.translator.driver
    random = name in _RANDOM

    def finish(asked: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if "pin_memory" in kwargs and kwargs.pop("pin_memory"):
            return editor.pinned.adopt(original(*args, **kwargs))
        if asked is None or not translator.names_cuda(asked):
            return original(*args, **kwargs)
        if driver.cold:
            torch.cuda._lazy_init()
        if random and kwargs.get("generator") is None:
            kwargs["generator"] = _generator(asked)
        try:
            return marks.add(original(*args, **kwargs))
        except RuntimeError as error:
            raise host_allocation_error(driver, error) from None

    return finish


def injecting(editor: Editor, name: str, original: Function) -> Function:
    """A factory that goes to the accelerator unless the program is in a ``with torch.device(...)`` block."""
    translated = translating(editor, name, original)
    translator = editor.translator
    position = _POSITIONAL.get(name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("device") is not None or kwargs.get("out") is not None
        positional = position is not None and len(args) > position and args[position] is not None
        if not given and not positional and not modes.count and translator.injects():
            kwargs["device"] = translator.unasked
        return translated(*args, **kwargs)

    return wrapper


@patch("cpu", "mps", "cuda")
def constructors(editor: Editor, driver: Driver) -> None:
    """Every factory of torch that takes a device."""
    make: Callable[[Editor, str, Function], Function] = injecting if editor.translator.unasked else translating
    for name, (owner, attribute, original) in _constructors().items():
        chosen = translating if name in _LIKE else make
        install(editor, owner, attribute, disguise(chosen(editor, name, original), original), original)


@patch("cpu", "mps", "cuda")
def entrances(editor: Editor, driver: Driver) -> None:
    """from_numpy and frombuffer give CPU tensors; where unasked requests go to the accelerator, these follow."""
    translator = editor.translator
    if translator.unasked is None:
        return
    for name in _ENTRANCES:
        original = getattr(torch, name)

        def wrapper(*args: Any, _original: Function = original, **kwargs: Any) -> torch.Tensor:
            made = _original(*args, **kwargs)
            return translator.to(made, translator.unasked) if translator.injects() else made

        install(editor, torch, name, disguise(wrapper, original), original)


@patch("cpu", "mps", "cuda")
def device_contexts(editor: Editor, driver: Driver) -> None:
    """``with torch.device("cuda")`` fills the device in and calls the original: it must call the wrapper."""
    from torch.utils._device import DeviceContext, _device_constructors

    original = DeviceContext.__torch_function__
    wrapped = editor.wrapped

    def __torch_function__(self: Any, func: Function, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
            entry = wrapped.get(id(func))
            func = entry[1] if entry is not None else func
        return func(*args, **kwargs)

    editor.set(DeviceContext, "__torch_function__", disguise(__torch_function__, original))
