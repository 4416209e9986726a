"""Functions that make tensors: their ``device`` argument is translated, and only it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .devices import Translator, host_allocation_error, names_a_device
from .patches import Editor, patch
from .policy import CPU
from .wrapping import PLAIN, Function, disguise, dispatched, install, modes

# Beyond torch's own list of functions that a default device applies to: functions that take a device all the same.
LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_OTHERS = (
    "normal",
    "from_file",
    "_efficientzerotensor",
    "_empty_affine_quantized",
    "_empty_per_channel_affine_quantized",
)
# Functions that bring host data in and take no device, or none but the CPU: what they give follows the table, so that
# the data can meet the rest.
_ENTRANCES = ("from_numpy", "frombuffer", "from_file", "from_dlpack")
# Functions that give the data itself where it is on the device already.
_ADOPTING = frozenset({"as_tensor", "asarray"})
# Functions that may be given tensors, and hand the call to the tensors' own torch functions.
OVERRIDABLE = frozenset({"arange", "full", "linspace", "logspace", "normal", "range", "scalar_tensor"})
# Functions for which naming the CPU and naming no device are the same: torch reads a call without one much faster.
_PLAIN_FACTORIES = frozenset(
    "arange bartlett_window blackman_window empty empty_permuted empty_strided eye hamming_window hann_window "
    "kaiser_window ones rand randint randn randperm range tril_indices triu_indices zeros".split()
)
# Data of which torch makes a tensor by copying, wherever the tensor is to live.
_COPIED = (list, tuple, int, float, complex, bool)


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
    for name in (*LIKE, *_OTHERS):
        if hasattr(torch, name):
            found[name] = (torch, name, getattr(torch, name))
    return found


def takes_generator(name: str) -> bool:
    """Whether every form of a function can be given a generator, as only random functions can."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return any(argument.name == "generator" for schema in schemas for argument in schema.arguments)


# --------------------------------------------------------------- where CUDA's memory is the host's
def _generator(driver: Driver, asked: Any) -> torch.Generator:
    """The generator from which a random tensor for CUDA is drawn where CUDA's generator is not the CPU's."""
    generators = driver.generators()
    if len(generators) == 1:
        return generators[0]
    index = asked if asked.__class__ is int else torch.device(asked).index
    return generators[driver.current_device() if index is None else index]


def _uncommon(editor: Editor, name: str, original: Function) -> Callable[[tuple, dict[str, Any]], Any]:
    """The rest of a call on the host that is none of the common ones: the first for CUDA, pinned, for the CPU, ..."""
    translator, marks, driver = editor.translator, editor.translator.marks, editor.translator.driver
    random, like = takes_generator(name), name in LIKE
    dispatch_modes = torch._C._len_torch_dispatch_stack

    def finish(args: tuple, kwargs: dict[str, Any]) -> Any:
        asked = kwargs.get("device")
        if asked is None:
            wanted = like and bool(args) and args[0] in marks
        elif names_a_device(asked):
            kwargs["device"] = translator.device(asked)
            wanted = translator.names_cuda(asked)
        else:
            return original(*args, **kwargs)
        if kwargs.get("pin_memory"):
            if wanted:
                raise RuntimeError("Only dense CPU tensors can be pinned")
            del kwargs["pin_memory"]
            return editor.pinned.adopt(original(*args, **kwargs))
        if not wanted:
            return original(*args, **kwargs)
        if driver.cold:
            torch.cuda._lazy_init()
        # Where calls are recorded (torch.export, make_fx) a generator of this process has no place.
        if random and kwargs.get("generator") is None and not dispatch_modes():
            kwargs["generator"] = _generator(driver, "cuda" if asked is None else asked)
        try:
            return marks.add(original(*args, **kwargs))
        except RuntimeError as error:
            raise host_allocation_error(driver, error) from None

    return finish


def on_host(editor: Editor, name: str, original: Function) -> Function:
    """A factory where CUDA's memory is the host's: what is made for CUDA is marked as CUDA's."""
    if name in LIKE:
        return _like_on_host(editor, name, original)
    if name in _ADOPTING:
        return _adopting_on_host(editor, name, original)
    driver, marks, known = editor.translator.driver, editor.translator.marks, editor.translator.on_cuda
    uncommon, refs, ref = _uncommon(editor, name, original), editor.translator.marks.refs, weakref.ref
    random, overridable, plain = takes_generator(name), name in OVERRIDABLE, name in _PLAIN_FACTORIES
    function_modes, dispatch_modes = torch._C._is_torch_function_mode_enabled, torch._C._len_torch_dispatch_stack

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable:
            handled = dispatched(wrapper, args if overridable else (), args, kwargs)
            if handled is not NotImplemented:
                return handled
        if not kwargs:
            return original(*args)
        asked = kwargs.get("device")
        try:
            target = known.get(asked)
        except TypeError:  # unhashable: torch will say what a device is
            return original(*args, **kwargs)
        if target is None or driver.cold or "pin_memory" in kwargs:
            return uncommon(args, kwargs) if asked is not None or "pin_memory" in kwargs else original(*args, **kwargs)
        if random and "generator" not in kwargs and not dispatch_modes():
            kwargs["generator"] = _generator(driver, asked)
        if plain and not function_modes():  # with torch.device(...) would fill the device in again
            del kwargs["device"]
        else:
            kwargs["device"] = target
        try:
            made = original(*args, **kwargs) if kwargs else original(*args)
        except RuntimeError as error:
            raise host_allocation_error(driver, error) from None
        refs[id(made)] = ref(made)
        if len(refs) > marks.limit:
            marks.sweep()
        return made

    return wrapper


def _like_on_host(editor: Editor, name: str, original: Function) -> Function:
    """A factory that makes a tensor like another: on CUDA if that one is, unless it is told otherwise."""
    marks, refs, ref = editor.translator.marks, editor.translator.marks.refs, weakref.ref
    uncommon, random = _uncommon(editor, name, original), takes_generator(name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or not args or args[0].__class__ not in PLAIN:
            handled = dispatched(wrapper, (args[0] if args else kwargs.get("input"),), args, kwargs)
            if handled is not NotImplemented:
                return handled
        mark = refs.get(id(args[0])) if args else None
        marked = mark is not None and mark() is args[0]
        if kwargs:
            if "device" in kwargs or "pin_memory" in kwargs or (marked and random):
                return uncommon(args, kwargs)
            made = original(*args, **kwargs)
        elif marked and random:
            return uncommon(args, kwargs)
        else:
            made = original(*args)
        if marked:
            refs[id(made)] = ref(made)
            if len(refs) > marks.limit:
                marks.sweep()
        return made

    return wrapper


def _adopting_on_host(editor: Editor, name: str, original: Function) -> Function:
    """``as_tensor`` and ``asarray`` give the data itself if it is there; between the CPU and CUDA they copy."""
    translator, marks, driver = editor.translator, editor.translator.marks, editor.translator.driver

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes:
            handled = dispatched(wrapper, (), args, kwargs)
            if handled is not NotImplemented:
                return handled
        asked = kwargs.get("device")
        if asked is None or not args or not names_a_device(asked):
            return original(*args, **kwargs)
        kwargs["device"] = target = translator.device(asked)
        data = args[0]
        there, wanted = data.__class__ in PLAIN and data in marks, translator.names_cuda(asked)
        if target.type != "cpu" or there == wanted:
            made = original(*args, **kwargs)
            return marks.add(made) if wanted else made
        if wanted and driver.cold:
            torch.cuda._lazy_init()
        if kwargs.get("copy") is False and isinstance(data, torch.Tensor):
            one, other = ("cuda:0", "cpu") if there else ("cpu", "cuda:0")
            raise ValueError(f"can't alias tensor from device '{one}' to '{other}'.")
        made = original(*args, **kwargs)
        if not isinstance(data, _COPIED) and not kwargs.get("copy"):
            made = made.clone()
        return marks.add(made) if wanted else made

    return wrapper


# ------------------------------------------------------------------------------- elsewhere
def elsewhere(editor: Editor, name: str, original: Function) -> Function:
    """A factory where the accelerator has memory of its own; under ``accelerate`` it is where tensors go unasked."""
    translator = editor.translator
    injects = injection(translator, name)
    like, overridable = name in LIKE, name in OVERRIDABLE

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable or (like and (not args or args[0].__class__ not in PLAIN)):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            handled = dispatched(wrapper, subjects, args, kwargs)
            if handled is not NotImplemented:
                return handled
        asked = kwargs.get("device")
        if asked is None:
            if injects is not None and injects(args, kwargs):
                kwargs["device"] = translator.unasked
                translator.log("no device", translator.unasked)
        elif names_a_device(asked):
            kwargs["device"] = translator.device(asked)
        return original(*args, **kwargs)

    return wrapper


def injection(translator: Translator, name: str) -> Callable[[tuple, dict[str, Any]], bool] | None:
    """Whether a call that names no device is to be given one; ``None`` if never."""
    if translator.unasked is None or name in LIKE or name in _ENTRANCES:
        return None
    overridable = name in OVERRIDABLE

    def injects(args: tuple, kwargs: dict[str, Any]) -> bool:
        # Pinned memory is the host's by definition.
        if kwargs.get("out") is not None or kwargs.get("pin_memory") or not translator.injects():
            return False
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != translator.accelerator:
            return False
        # With tensors among their arguments, these take the tensors' device.
        return not (overridable and any(isinstance(arg, torch.Tensor) for arg in args))

    return injects


def entering(editor: Editor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What becomes of a CPU tensor that a program made without naming a device: it goes where the table says."""
    translator, precision = editor.translator, editor.precision
    move = torch._C.TensorBase.to

    def enter(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != CPU or not translator.injects():
            return tensor
        translator.log("host data", translator.unasked)
        try:
            return translator.at_home.add(move(tensor, translator.unasked))
        except TypeError as error:
            if not precision.refused(error):
                raise
        return precision.settle(tensor)

    return enter


# -------------------------------------------------------------------------------- patches
@patch("cpu", "mps", "cuda")
def constructors(editor: Editor, driver: Driver) -> None:
    """Every factory of torch that takes a device."""
    from .apple import on_apple

    make = {"cpu": on_host, "mps": on_apple}.get(editor.translator.accelerator, elsewhere)
    for name, (owner, attribute, original) in _constructors().items():
        install(editor, owner, attribute, disguise(make(editor, name, original), original), original)


@patch("cpu", "mps", "cuda")
def entrances(editor: Editor, driver: Driver) -> None:
    """from_numpy and its kin give CPU tensors; where unasked requests go to the accelerator, these follow."""
    if editor.translator.unasked is None:
        return
    enter = entering(editor)
    for name in _ENTRANCES:
        original = getattr(torch, name)

        def wrapper(*args: Any, _original: Function = original, **kwargs: Any) -> torch.Tensor:
            return enter(_original(*args, **kwargs))

        install(editor, torch, name, disguise(wrapper, original), original)
    # The name under which programs older than torch.from_dlpack know it.
    editor.set(torch.utils.dlpack, "from_dlpack", torch.from_dlpack)


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
