"""The last link of the chain: arguments brought to the CPU, results brought back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

_CPU = torch.device("cpu")
_base = torch._C.TensorBase
_to, _copy, _resize = _base.to, _base.copy_, _base.resize_
_is_cpu = _base.is_cpu.__get__  # a device's type makes a new string each time it is asked for
NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What of an operator's schema matters here: who is written to, and what each result is."""

    op: Any
    #: names of the arguments the operator writes to
    written: frozenset[str]
    #: for each result: the name of the argument that it is, ``None`` for a new tensor
    results: tuple[str | None, ...]
    #: names of all arguments, in order
    names: tuple[str, ...]
    #: whether the operator draws random numbers from a generator it is given
    draws: bool
    #: whether it only makes new tensors of those it is given, as most operators do
    plain: bool

    @classmethod
    def of(cls, op: Any) -> Shape:
        """Read an operator's schema."""
        schema = op._schema
        owners: dict[str, str] = {}
        written = set()
        for argument in schema.arguments:
            # What is not written to can only be viewed, and a view of a copy is a tensor of its own.
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.add(argument.name)
                for label in argument.alias_info.before_set:
                    owners[label] = argument.name
        results = []
        for result in schema.returns:
            labels = result.alias_info.before_set if result.alias_info is not None else ()
            results.append(next((owners[label] for label in labels if label in owners), None))
        names = tuple(argument.name for argument in schema.arguments)
        draws = "generator" in names
        plain = not written and not draws and not any(results) and bool(results)
        return cls(op, frozenset(written), tuple(results), names, draws, plain)


def home(value: Any, device: torch.device) -> Any:
    """An argument with its tensors on the CPU and the device replaced by the CPU."""
    if isinstance(value, torch.Tensor):
        return value if _is_cpu(value) else _to(value, _CPU)
    kind = value.__class__
    if kind is list or kind is tuple:
        return kind(home(item, device) for item in value)
    if kind is torch.device and value.type == device.type:
        return _CPU
    return value


def away(value: Any, device: torch.device) -> Any:
    """A result on the device, in a dtype that the device has."""
    if isinstance(value, torch.Tensor):
        if value.dtype in NARROW:
            value = _to(value, NARROW[value.dtype])
        return _to(value, device)
    kind = value.__class__
    if kind is list or kind is tuple:
        return kind(away(item, device) for item in value)
    return value


def write_back(target: Any, source: Any) -> None:
    """Put what an operator wrote into a copy where it should have gone."""
    if isinstance(target, torch.Tensor):
        if target.layout is not torch.strided and hasattr(target, "become"):
            target.become(source)
            return
        # A sparse tensor takes the shape of what is copied to it.
        if target.shape != source.shape and target.layout is torch.strided:
            _resize(target, source.shape)
        _copy(target, source)
    elif isinstance(target, (list, tuple)):
        for one, other in zip(target, source, strict=True):
            write_back(one, other)


def seeded(generator: torch.Generator | None, device: torch.device) -> torch.Generator:
    """A generator of the CPU that goes on where the device's is: the same seed there draws the same numbers here."""
    seed = torch._C._VariableFunctions.randint(0, 2**31 - 1, (1,), device=device, generator=generator).item()
    made = torch._C.Generator()
    made.manual_seed(seed)
    return made


#: Operators that keep less for the gradient where none of their arguments requires one.
ASKING = frozenset({"aten::_sparse_mm_reduce_impl"})


def asked(op: Any, *args: Any) -> Any:
    """Compute one of those as if a gradient were wanted: it is the device's tensors that may require one."""
    given = [value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in args]
    with torch._C._AutoDispatchBelowAutograd():
        return op(*given)


def compute(
    shape: Shape, device: torch.device, args: tuple, kwargs: dict[str, Any], inner: Callable[..., Any] | None = None
) -> Any:
    """Call an operator on the CPU for arguments on the device; the results are on the device.

    ``inner`` computes in the operator's place, with the same arguments.
    """
    if shape.plain:
        at_home = {name: home(value, device) for name, value in kwargs.items()} if kwargs else {}
        return away((inner or shape.op)(*[home(value, device) for value in args], **at_home), device)
    named = dict(zip(shape.names, args, strict=False), **kwargs)
    at_home = {name: home(value, device) for name, value in named.items()}
    if shape.draws:
        at_home["generator"] = seeded(named.get("generator"), device)
    positional = [at_home.pop(name) for name in shape.names[: len(args)]]
    given = (inner or shape.op)(*positional, **at_home)
    if shape.written:
        for name, value in (*zip(shape.names, positional, strict=False), *at_home.items()):
            if name in shape.written and named[name] is not None:
                write_back(named[name], value)
    if not shape.results:
        return None
    if len(shape.results) == 1:
        return away(given, device) if shape.results[0] is None else named[shape.results[0]]
    return tuple(
        away(value, device) if owner is None else named[owner]
        for value, owner in zip(given, shape.results, strict=True)
    )
