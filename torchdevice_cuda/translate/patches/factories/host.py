"""Factories if CUDA's memory is the host's: tensors created for CUDA are marked as CUDA's."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ....drivers import Driver
from ....drivers.recording.mode import only_recorded
from ...core.context import Context
from ...core.requests import names_a_device
from ...core.wrapping import PLAIN, Function, dispatch_torch_function, modes
from .common import ADOPTING, LIKE, OVERRIDABLE, Arguments, Keywords, takes_generator

# Functions for which the CPU and no device mean the same: torch parses a call without a device much faster.
_PLAIN_FACTORIES = frozenset(
    "arange bartlett_window blackman_window empty empty_permuted empty_strided eye hamming_window hann_window "
    "kaiser_window ones rand randint randn randperm range tril_indices triu_indices zeros".split()
)
# Data that torch copies into a tensor on any device.
_COPIED = (list, tuple, int, float, complex, bool)


_dispatch_modes = torch._C._len_torch_dispatch_stack


def is_traced() -> bool:
    """Return whether anything other than a graph capture observes what the thread computes."""
    return _dispatch_modes() != 0 and not only_recorded()


def _generator(driver: Driver, asked: Any) -> torch.Generator:
    """Return the generator for a random tensor on CUDA if CUDA's generator is not the CPU's."""
    generators = driver.generators()
    if len(generators) == 1:
        return generators[0]
    index = asked if asked.__class__ is int else torch.device(asked).index
    return generators[driver.current_device() if index is None else index]


def _slow_path(context: Context, name: str, original: Function) -> Callable[[Arguments, Keywords], Any]:
    """Return the path of less common calls: the first for CUDA, pinned, for the CPU, ..."""
    translator, marks, driver = context.translator, context.translator.marks, context.driver
    random, like = takes_generator(name), name in LIKE

    def finish(args: Arguments, kwargs: Keywords) -> Any:
        asked = kwargs.get("device")
        if asked is None:
            wanted = like and bool(args) and args[0] in marks
        elif names_a_device(asked):
            kwargs["device"] = translator.device(asked)
            wanted = translator.names_accelerator(asked)
        else:
            return original(*args, **kwargs)
        if kwargs.get("pin_memory"):
            if wanted:
                raise RuntimeError("Only dense CPU tensors can be pinned")
            del kwargs["pin_memory"]
            return context.pinned.adopt(original(*args, **kwargs))
        if not wanted:
            return original(*args, **kwargs)
        if driver.needs_init:
            torch.cuda._lazy_init()
        # While calls are traced (torch.export, make_fx), a generator of this process cannot be used.
        if random and kwargs.get("generator") is None and not is_traced():
            kwargs["generator"] = _generator(driver, "cuda" if asked is None else asked)
        try:
            return marks.add(original(*args, **kwargs))
        except RuntimeError as error:
            raise driver.memory.translated(error, driver.current_device()) from None

    return finish


def on_host(context: Context, name: str, original: Function) -> Function:
    """Return a factory if CUDA's memory is the host's: tensors created for CUDA are marked as CUDA's."""
    if name in LIKE:
        return _like_on_host(context, name, original)
    if name in ADOPTING:
        return _adopting_on_host(context, name, original)
    if name in _PLAIN_FACTORIES and name not in OVERRIDABLE and not takes_generator(name):
        return _plain_on_host(context, name, original)
    driver, marks, known = context.driver, context.translator.marks, context.translator.on_gpu
    slow_path, refs, ref = _slow_path(context, name, original), context.translator.marks.refs, weakref.ref
    random, overridable, plain = takes_generator(name), name in OVERRIDABLE, name in _PLAIN_FACTORIES
    function_modes = torch._C._is_torch_function_mode_enabled

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable:
            subjects = args if overridable else ()
            if (handled := dispatch_torch_function(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        if not kwargs:
            return original(*args)
        asked = kwargs.get("device")
        try:
            target = known.get(asked)
        except TypeError:  # unhashable: torch raises its own error
            return original(*args, **kwargs)
        if target is None or driver.needs_init or "pin_memory" in kwargs:
            return slow_path(args, kwargs) if asked is not None or "pin_memory" in kwargs else original(*args, **kwargs)
        if random and "generator" not in kwargs and not is_traced():
            kwargs["generator"] = _generator(driver, asked)
        if plain and not function_modes():  # with torch.device(...) would add the device again
            del kwargs["device"]
        else:
            kwargs["device"] = target
        try:
            made = original(*args, **kwargs) if kwargs else original(*args)
        except RuntimeError as error:
            raise driver.memory.translated(error, driver.current_device()) from None
        refs[id(made)] = ref(made)
        if len(refs) > marks.limit:
            marks.sweep()
        return made

    return wrapper


def _plain_on_host(context: Context, name: str, original: Function) -> Function:
    """Wrap ``zeros`` and the other most called factories: Python reads a device faster as a named parameter.

    This way, creating a tensor for CUDA takes 1.15 of stock torch's time for a CPU tensor; with a lookup among all
    keyword arguments it took 1.26.
    """
    driver, marks, known = context.driver, context.translator.marks, context.translator.on_gpu
    slow_path, refs, ref = _slow_path(context, name, original), context.translator.marks.refs, weakref.ref
    function_modes, not_given = torch._C._is_torch_function_mode_enabled, object()

    def wrapper(*args: Any, device: Any = not_given, **kwargs: Any) -> Any:
        if device is not_given:
            if modes and (handled := dispatch_torch_function(wrapper, (), args, kwargs)) is not NotImplemented:
                return handled
            if not kwargs:
                return original(*args)
            return slow_path(args, kwargs) if "pin_memory" in kwargs else original(*args, **kwargs)
        if (
            modes
            and (handled := dispatch_torch_function(wrapper, (), args, {"device": device, **kwargs}))
            is not NotImplemented
        ):
            return handled
        try:
            target = known.get(device)
        except TypeError:  # unhashable: torch raises its own error
            return original(*args, device=device, **kwargs)
        if target is None or driver.needs_init or "pin_memory" in kwargs:
            if device is None and "pin_memory" not in kwargs:
                return original(*args, device=None, **kwargs)
            return slow_path(args, {"device": device, **kwargs})
        try:
            if function_modes():  # with torch.device(...) would add the device again
                made = original(*args, device=target, **kwargs)
            else:
                made = original(*args, **kwargs) if kwargs else original(*args)
        except RuntimeError as error:
            raise driver.memory.translated(error, driver.current_device()) from None
        refs[id(made)] = ref(made)
        if len(refs) > marks.limit:
            marks.sweep()
        return made

    return wrapper


def _like_on_host(context: Context, name: str, original: Function) -> Function:
    """Return a factory that creates a tensor like another: on CUDA if that one is, unless a device is named."""
    marks, refs, ref = context.translator.marks, context.translator.marks.refs, weakref.ref
    slow_path, random = _slow_path(context, name, original), takes_generator(name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or not args or args[0].__class__ not in PLAIN:
            subjects = (args[0] if args else kwargs.get("input"),)
            if (handled := dispatch_torch_function(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        mark = refs.get(id(args[0])) if args else None
        marked = mark is not None and mark() is args[0]
        if kwargs:
            if "device" in kwargs or "pin_memory" in kwargs or (marked and random):
                return slow_path(args, kwargs)
            made = original(*args, **kwargs)
        elif marked and random:
            return slow_path(args, kwargs)
        else:
            made = original(*args)
        if marked:
            refs[id(made)] = ref(made)
            if len(refs) > marks.limit:
                marks.sweep()
        return made

    return wrapper


def _adopting_on_host(context: Context, name: str, original: Function) -> Function:
    """Wrap ``as_tensor`` and ``asarray``, which return data on the same device; between CPU and CUDA they copy."""
    translator, marks, driver = context.translator, context.translator.marks, context.driver

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes and (handled := dispatch_torch_function(wrapper, (), args, kwargs)) is not NotImplemented:
            return handled
        asked = kwargs.get("device")
        if asked is None or not args or not names_a_device(asked):
            return original(*args, **kwargs)
        kwargs["device"] = target = translator.device(asked)
        data = args[0]
        there, wanted = data.__class__ in PLAIN and data in marks, translator.names_accelerator(asked)
        if target.type != "cpu" or there == wanted:
            made = original(*args, **kwargs)
            return marks.add(made) if wanted else made
        if wanted and driver.needs_init:
            torch.cuda._lazy_init()
        if kwargs.get("copy") is False and isinstance(data, torch.Tensor):
            one, other = ("cuda:0", "cpu") if there else ("cpu", "cuda:0")
            raise ValueError(f"can't alias tensor from device '{one}' to '{other}'.")
        made = original(*args, **kwargs)
        if not isinstance(data, _COPIED) and not kwargs.get("copy"):
            made = made.clone()
        return marks.add(made) if wanted else made

    return wrapper
