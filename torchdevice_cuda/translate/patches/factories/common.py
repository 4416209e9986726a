"""The functions of torch that create tensors, and their properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...._compat import present
from ...core.context import Context
from ...core.moving import crossing
from ...core.policy import ACCELERATORS, CPU
from ...core.requests import TOGGLE, Translator, as_device, names_a_device
from ...core.wrapping import Function

# Functions that take a device but are not in torch's list of functions that a default device applies to.
LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_OTHERS = (
    "normal",
    "from_file",
    "_efficientzerotensor",
    "_empty_affine_quantized",
    "_empty_per_channel_affine_quantized",
)
# Functions that import host data and take no device, or only the CPU: their results follow the policy, so that they can
# be combined with other tensors.
ENTRANCES = ("from_numpy", "frombuffer", "from_file", "from_dlpack")
# Functions that may take tensors, and dispatch to the tensors' ``__torch_function__``.
OVERRIDABLE = frozenset({"arange", "full", "linspace", "logspace", "normal", "range", "scalar_tensor"})

# Functions without values: their results have the requested dtype, or torch's default.
OF_NO_VALUES = frozenset({"empty", "empty_strided", "eye", "ones", "rand", "randint", "randn", "randperm", "zeros"})

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
Injects = Callable[[Arguments, Keywords], bool]
Handler = Callable[[Arguments, Keywords], Any]

#: The argument that decides the device if the call names none: its name and position.
_DATA = {
    "tensor": ("data", 0),
    "as_tensor": ("data", 0),
    "asarray": ("obj", 0),
    "nested_tensor": ("tensor_list", 0),
    "sparse_coo_tensor": ("values", 1),
    **{f"sparse_{layout}_tensor": ("values", 2) for layout in ("compressed", "csr", "csc", "bsr", "bsc")},
}
#: Functions that return the tensor itself, or an alias of it, if it is on the device already.
ADOPTING = frozenset({"as_tensor", "asarray"})


def constructors() -> dict[str, tuple[Any, str, Function]]:
    """Return every function to wrap: ``{dotted name: (owner, attribute, function)}``."""
    from torch.utils._device import _device_constructors

    owners: dict[int, tuple[Any, str]] = {
        id(value): (torch, name) for name, value in vars(torch).items() if callable(value)
    }
    owners.update({id(torch.fft.fftfreq): (torch.fft, "fftfreq"), id(torch.fft.rfftfreq): (torch.fft, "rfftfreq")})
    owners[id(torch.nested.nested_tensor)] = (torch.nested, "nested_tensor")
    found: dict[str, tuple[Any, str, Function]] = {}
    for function in _device_constructors():
        if id(function) in owners:
            owner, name = owners[id(function)]
            found[name] = (owner, name, function)
    for name in present(torch, (*LIKE, *_OTHERS)):
        found[name] = (torch, name, getattr(torch, name))
    return found


def takes_generator(name: str) -> bool:
    """Return whether every overload of a function takes a generator, as only random functions do."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return any(argument.name == "generator" for schema in schemas for argument in schema.arguments)


def injection(translator: Translator, name: str) -> Injects | None:
    """Return the check whether a call that names no device gets the default target; ``None`` if it never does."""
    if translator.default_target is None or name in LIKE or name in ENTRANCES:
        return None
    overridable = name in OVERRIDABLE

    def injects(args: Arguments, kwargs: Keywords) -> bool:
        # Pinned memory is on the host by definition.
        if kwargs.get("out") is not None or kwargs.get("pin_memory") or not translator.applies_default_target():
            return False
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != translator.accelerator:
            return False
        # With tensor arguments these use the tensors' device.
        return not (overridable and any(isinstance(arg, torch.Tensor) for arg in args))

    return injects


def data_finder(name: str) -> Handler | None:
    """Return the function that finds the tensor on whose device a call creates its result; ``None`` without one."""
    if name not in _DATA:
        return None
    keyword, place = _DATA[name]
    in_list = name == "nested_tensor"

    def find(args: Arguments, kwargs: Keywords) -> Any:
        data = args[place] if len(args) > place else kwargs.get(keyword)
        return data[0] if in_list and isinstance(data, (list, tuple)) and data else data

    return find


def given_tensors(context: Context, name: str, create: Function) -> Handler | None:
    """Return the factory for tensors that are on the accelerator: without a device the result keeps theirs.

    ``create`` is the factory that gives calls for no device no target. The result of other calls is ``NotImplemented``.
    """
    find, translator, on_gpu = data_finder(name), context.translator, context.on_gpu
    if find is None or translator.default_target is None:
        return None
    adopts, crosses, carry = name in ADOPTING, crossing(context), translator.apparent_devices.carry
    function_modes, is_cpu = torch._C._is_torch_function_mode_enabled, translator.apparent_devices.is_cpu
    keyword, _ = _DATA[name]

    def handle(args: Arguments, kwargs: Keywords) -> Any:
        data = find(args, kwargs)
        if not isinstance(data, torch.Tensor) or not on_gpu(data):
            return NotImplemented
        asked = kwargs.get("device")
        if asked is None:
            if function_modes():  # with torch.device(...) names a device, and calls again
                return NotImplemented
            return carry(data, create(*args, **kwargs))
        if (
            adopts
            and names_a_device(asked)
            and asked != TOGGLE
            and crosses(data, as_device(asked).type in ACCELERATORS)
        ):
            # On CUDA this copies; an alias would give the tensor itself another apparent device.
            if kwargs.get("copy") is False:
                at = "cpu" if is_cpu(data) else "cuda:0"
                raise ValueError(f"can't alias tensor from device '{at}' to '{as_device(asked)}'.")
            copy = data.clone()
            args, kwargs = ((copy, *args[1:]), kwargs) if args else (args, {**kwargs, keyword: copy})
        return create(*args, **kwargs)

    return handle


#: Draws for the host, such as indices into a dataset. With a CPU generator they stay on the CPU.
_FOR_THE_HOST = frozenset({"randperm"})
_CPU = torch.device("cpu")


def drawing_on_cpu(context: Context, name: str, original: Function) -> Handler:
    """Return a random factory for a CPU generator whose request is redirected to the accelerator.

    It draws on the CPU and moves the result; it returns ``NotImplemented`` in all other cases.
    """
    translator, gpu, admit = context.translator, context.gpu, context.precision.admit
    stays = name in _FOR_THE_HOST

    def redirected(asked: Any) -> bool:
        if asked is None:
            return translator.applies_default_target()
        return names_a_device(asked) and translator.device(asked) in gpu and not translator.names_accelerator(asked)

    def draw(args: Arguments, kwargs: Keywords) -> Any:
        generator = kwargs["generator"]
        if translator.default_target is None or generator is None or generator.device.type != CPU:
            return NotImplemented
        # With tensor arguments the result is on their device.
        if any(isinstance(value, torch.Tensor) for value in args) or not redirected(kwargs.get("device")):
            return NotImplemented
        drawn = original(*args, **{**kwargs, "device": _CPU})
        return drawn if stays else translator.apparent_devices.add_cpu(admit(drawn))

    return draw
