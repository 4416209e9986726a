"""The last step of a fallback: move arguments to the CPU, and results back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .devices import is_cpu, is_stranger, mixed
from .refusals import NARROW

if TYPE_CHECKING:
    from .operators import Operator, Shape

_CPU = torch.device("cpu")
_COMPLEX128 = torch.complex128  # torch moves it to the device, where nothing can compute with it
_base = torch._C.TensorBase
_to, _cpu, _copy, _resize = _base.to, _base.cpu, _base.copy_, _base.resize_
#: Wrappers of CPU tensors that a device cannot hold, by device type: for float64, and for quantized ones.
homes_of_doubles: dict[str, Any] = {}
homes_of_quantized: dict[str, Any] = {}


def to_cpu(value: Any, device: torch.device) -> Any:
    """Return an argument with its tensors on the CPU and the device replaced by the CPU."""
    if isinstance(value, torch.Tensor):
        return value if is_cpu(value) else _to(value, _CPU)
    kind = value.__class__
    if kind is list or kind is tuple:
        return kind([to_cpu(item, device) for item in value])
    if kind is torch.device and value.type == device.type:
        return _CPU
    return value


def to_device(value: Any, device: torch.device) -> Any:
    """Return a result on the device, in a dtype that the device supports."""
    if isinstance(value, torch.Tensor):
        if value.dtype in NARROW:
            home = homes_of_doubles.get(device.type)
            if home is not None:
                return home.wrap(value)
            value = _to(value, NARROW[value.dtype])
        try:
            return _to(value, device)
        except NotImplementedError as error:
            return place_quantized(value, device, error)
    if isinstance(value, (list, tuple)):
        items = [to_device(item, device) for item in value]
        return items if isinstance(value, list) else tuple(items)  # the dispatcher restores the names of tuples
    return value


def place_quantized(value: torch.Tensor, device: torch.device, error: Exception) -> torch.Tensor:
    """Wrap a quantized tensor of the CPU for a device that refused it; raise ``error`` for any other."""
    home = homes_of_quantized.get(device.type)
    if home is None or not value.is_quantized:
        raise error
    wrapped: torch.Tensor = home.wrap(value)
    return wrapped


def _room(value: Any) -> Any:
    """Allocate CPU memory for an argument that an operator overwrites."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return _to(value, _CPU)
        return torch._C._VariableFunctions.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_CPU)
    return [_room(item) for item in value] if isinstance(value, (list, tuple)) else value


def write_back(target: Any, source: Any) -> None:
    """Copy an operator's output from the CPU to the original argument."""
    if isinstance(target, torch.Tensor):
        # A wrapper tensor, recognized by its method: its class depends on this module, so it cannot be imported.
        if target.layout is not torch.strided and hasattr(target, "become"):
            target.become(source)
            return
        # A sparse tensor takes the shape of the tensor that is copied to it.
        if target.shape != source.shape and target.layout is torch.strided:
            _resize(target, source.shape)
        _copy(target, source)
    elif isinstance(target, (list, tuple)):
        for one, other in zip(target, source, strict=True):
            write_back(one, other)


def seeded(generator: torch.Generator | None, device: torch.device) -> torch.Generator:
    """Return a CPU generator that continues the device's: equal seeds there give equal numbers here."""
    seed = torch._C._VariableFunctions.randint(0, 2**31 - 1, (1,), device=device, generator=generator).item()
    made = torch._C.Generator()
    made.manual_seed(int(seed))
    return made


@dataclasses.dataclass(frozen=True)
class Passage:
    """The transfer of an operator's arguments and results, at each fallback."""

    #: counts a fallback; returns the number of earlier ones
    count: Callable[[], int] = lambda: 1
    #: called at the first fallback, that is, whenever ``count`` returns 0
    announce: Callable[[], None] = lambda: None
    #: called when the results are back: memory was allocated for them
    allocated: Callable[[], None] = lambda: None
    #: translates an error of the device for the program
    translated: Callable[[BaseException], BaseException] = lambda error: error

    def refuse_mixed(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise CUDA's error if CUDA compares devices; there is a CPU tensor among the arguments."""
        error = mixed(op, args, kwargs)
        if error is not None:
            raise self.translated(error)


#: A transfer without counters or messages.
_SILENT = Passage()


def carried(
    shape: Shape, device: torch.device, passage: Passage = _SILENT, inner: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function that computes an operator on the CPU for device arguments, with results on the device.

    ``inner`` computes instead of the operator, with the same arguments.
    """
    return (_plain if shape.plain else _writing)(shape, device, passage, inner or shape.call)


def _plain(shape: Shape, device: torch.device, passage: Passage, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel for operators that only return new tensors.

    Small operators in loops use this: a call with unpacked arguments costs 1.5 us more than one without, and a separate
    function for each step as much again.
    """
    places, unary, single = shape.places, shape.unary, shape.single
    count, announce, allocated = passage.count, passage.announce, passage.allocated

    def compute(*args: Any, **kwargs: Any) -> Any:
        if not count():
            announce()
        if kwargs:
            if any(map(is_stranger, kwargs.values())):
                passage.refuse_mixed(shape.op, args, kwargs)
            kwargs = {name: to_cpu(value, device) for name, value in kwargs.items()}
        if not unary:
            brought = [*args]
            for place in places:
                if place < len(args):
                    value = args[place]
                    home = brought[place] = to_cpu(value, device)
                    if (home is value or home.__class__ is list) and is_stranger(value):
                        passage.refuse_mixed(shape.op, args, kwargs)
            made = call(*brought, **kwargs)
        elif kwargs or len(args) > 1:
            made = call(_cpu(args[0]), *args[1:], **kwargs)
        else:
            made = call(_cpu(args[0]))
        try:
            if single:
                made = to_device(made, device) if made.dtype is _COMPLEX128 else _to(made, device)
            else:
                made = tuple([to_device(one, device) for one in made])
        # A dtype that the device lacks, a quantized tensor, a list of tensors, or None.
        except (AttributeError, TypeError, NotImplementedError):
            made = to_device(made, device)
        allocated()
        return made

    return compute


def _writing(shape: Shape, device: torch.device, passage: Passage, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel for operators that write into their arguments, return them, or draw random numbers."""
    names, written, outs, results = shape.names, shape.written, shape.outs, shape.results

    def compute(*args: Any, **kwargs: Any) -> Any:
        if not passage.count():
            passage.announce()
        named = dict(zip(names, args, strict=False), **kwargs)
        if any(map(is_stranger, named.values())):
            passage.refuse_mixed(shape.op, args, kwargs)
        brought = {name: _room(value) if name in outs else to_cpu(value, device) for name, value in named.items()}
        if shape.draws:
            brought["generator"] = seeded(named.get("generator"), device)
        positional = [brought[name] for name in names[: len(args)]]
        given = call(*positional, **{name: brought[name] for name in brought if name not in names[: len(args)]})
        for name in written:
            if named.get(name) is not None:
                write_back(named[name], brought[name])
        passage.allocated()
        if not results:
            return None
        if len(results) == 1:
            return to_device(given, device) if results[0] is None else named[results[0]]
        return tuple(
            to_device(value, device) if owner is None else named[owner]
            for value, owner in zip(given, results, strict=True)
        )

    return compute
