"""Operators for the fallback: lookup by name, and the parts of their schemas that matter elsewhere."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch

if TYPE_CHECKING:
    from torch._ops import OpOverload, OpOverloadPacket

    #: An operator of the dispatcher.
    Operator: TypeAlias = OpOverload[..., Any]

#: Modules with torch's functions for operators; calling one costs a third less than the operator.
_BINDINGS = tuple(
    getattr(torch._C, name) for name in ("_VariableFunctions", "_special", "_linalg", "_fft", "_nn", "_sparse")
)
#: Operators that save less for the gradient if none of their arguments requires one.
_ASKING = frozenset({"aten::_sparse_mm_reduce_impl"})


def overload(name: str) -> Operator:
    """Return the operator object of ``namespace::name.overload``; the default namespace is ``aten``."""
    namespace, _, rest = name.rpartition("::")
    base, _, which = rest.partition(".")
    return cast("Operator", getattr(getattr(getattr(torch.ops, namespace or "aten"), base), which or "default"))


def _callable(op: Operator) -> Callable[..., Any]:
    """Return an operator's callable: torch's function of that name, if it can mean no other overload.

    Arguments with their default are omitted from a call; torch's functions read ``reduction=Mean`` as none.
    """
    packet: OpOverloadPacket[..., Any] = op.overloadpacket
    if any(argument.name == "reduction" for argument in op._schema.arguments):
        return op
    base = packet.__name__
    if [name for name in packet.overloads() if _makes_tensors(getattr(packet, name)._schema)] == [op._overloadname]:
        for owner in _BINDINGS:
            if hasattr(owner, base):
                return cast("Callable[..., Any]", getattr(owner, base))
    return op


def _makes_tensors(schema: torch._C.FunctionSchema) -> bool:
    """Return whether an overload takes tensors and writes none; TorchScript has others, for scalars."""
    takes = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return takes and not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def _asked(op: Operator, *args: Any) -> Any:
    """Compute such an operator as if a gradient were needed: the device's tensors may require one."""
    given = [value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in args]
    with torch._C._AutoDispatchBelowAutograd():
        return op(*given)


@dataclasses.dataclass(frozen=True)
class Shape:
    """The parts of an operator's schema that matter here: written arguments, and the kind of each result."""

    op: Operator
    #: computes the operator, with arguments in the schema's order
    call: Callable[..., Any]
    #: names of the arguments that the operator writes
    written: frozenset[str]
    #: those of them whose contents it never reads
    outs: frozenset[str]
    #: for each result: the name of the argument that it is, ``None`` for a new tensor
    results: tuple[str | None, ...]
    #: names of all arguments, in order
    names: tuple[str, ...]
    #: positions of arguments that can be tensors, lists of tensors, or devices
    places: tuple[int, ...]
    #: whether only its first argument is a tensor
    unary: bool
    #: whether its result is one tensor
    single: bool
    #: whether the operator draws random numbers from a generator argument
    draws: bool
    #: whether it only creates new tensors from its arguments, as most operators do
    plain: bool

    @classmethod
    def of(cls, op: Operator) -> Shape:
        """Read an operator's schema."""
        schema = op._schema
        owners: dict[str, str] = {}
        written: set[str] = set()
        outs: set[str] = set()
        for argument in schema.arguments:
            # An argument that is not written can only be viewed, and a view of a copy is a separate tensor.
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.add(argument.name)
                if argument.is_out:
                    outs.add(argument.name)
                for label in argument.alias_info.before_set:
                    owners[label] = argument.name
        results: list[str | None] = []
        for result in schema.returns:
            labels = result.alias_info.before_set if result.alias_info is not None else set()
            results.append(next((owners[label] for label in labels if label in owners), None))
        names = tuple(argument.name for argument in schema.arguments)
        kinds = [str(argument.type) for argument in schema.arguments]
        places = tuple(place for place, kind in enumerate(kinds) if "Tensor" in kind or "Device" in kind)
        unary = places == (0,) and kinds[0] == "Tensor"
        single = [str(result.type) for result in schema.returns] == ["Tensor"]
        draws = "generator" in names
        plain = not written and not draws and not any(results) and bool(results)
        call: Callable[..., Any] = _callable(op) if plain else op
        if op.name() in _ASKING:
            call = functools.partial(_asked, op)
        return cls(
            op, call, frozenset(written), frozenset(outs), tuple(results), names, places, unary, single, draws, plain
        )
