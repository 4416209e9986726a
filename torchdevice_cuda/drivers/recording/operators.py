"""The parts of an operator's schema that matter for recording its calls."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from ... import contract

if TYPE_CHECKING:
    from torch._ops import OpOverload

    #: An operator of the dispatcher.
    Operator: TypeAlias = OpOverload[..., Any]

#: Operators that allocate memory without initializing it: they are not repeated.
_MAKING_ROOM = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided _efficientzerotensor".split()
)
#: Arguments that operators write although their schema does not say so: batch norms from before torch 2.0, and those of
#: several processes.
_WRITTEN_UNSAID = frozenset({"running_mean", "running_var"})


@dataclasses.dataclass(frozen=True)
class Facts:
    """The reads, writes and synchronization of an operator's call."""

    name: str
    #: the names of all arguments, in order
    names: tuple[str, ...]
    #: positions of arguments that are written
    written: tuple[int, ...]
    #: position of a generator, ``None`` if it takes none
    generator: int | None
    #: whether it draws random numbers
    draws: bool
    #: whether its result, or the result's shape, depends on elements, so that the host would wait for them
    waits: bool
    #: whether that depends on masks among its indices
    indexes: bool
    #: whether it changes a tensor's metadata, not its elements
    changes_view: bool
    #: whether it only allocates memory
    makes_room: bool
    #: whether it copies its arguments from any device
    copies: bool

    @classmethod
    @functools.cache  # noqa: B019 (as many as there are operators)
    def of(cls, op: Operator) -> Facts:
        """Read an operator's schema and tags."""
        schema, tags = op._schema, op.tags
        names = tuple(argument.name for argument in schema.arguments)
        bare = schema.name.removeprefix("aten::")
        row = _read_rows().get(bare.removesuffix("_"), {})
        waits = torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags
        return cls(
            op.name(),
            names,
            tuple(
                place
                for place, argument in enumerate(schema.arguments)
                if (argument.alias_info is not None and argument.alias_info.is_write)
                or argument.name in _WRITTEN_UNSAID
            ),
            names.index("generator") if "generator" in names else None,
            torch.Tag.nondeterministic_seeded in tags or "generator" in names,
            waits or row.get("waits") is True or bare == _CHECKING_ERRORS,
            row.get("indexes", False),
            torch.Tag.inplace_view in tags,
            bare in _MAKING_ROOM,
            bare in _COPYING,
        )

    def argument(self, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the argument at a position of the schema; ``None`` if it is missing."""
        return args[place] if place < len(args) else kwargs.get(self.names[place])

    def writes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Return the tensors that a call writes to."""
        return [t for place in self.written for t in tensors(self.argument(place, args, kwargs))]

    def in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a blocking copy: it is done before later nodes of a graph run."""
        place = self.names.index("non_blocking") if "non_blocking" in self.names else None
        if place is None:
            return args, kwargs
        if place < len(args):
            return (*args[:place], False, *args[place + 1 :]), kwargs
        return args, {**kwargs, "non_blocking": False} if "non_blocking" in kwargs else kwargs

    def generator_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Generator | None:
        """Return the generator argument of a call."""
        return None if self.generator is None else self.argument(self.generator, args, kwargs)

    def waits_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether CUDA's kernel would make the host wait in this call."""
        if self.name == "aten::equal":
            return args[0] is not args[1] and args[0].shape == args[1].shape
        if self.indexes:
            masks = [tensor.dtype in MASKS for tensor in tensors(args[1])]
            # A single value for all elements that masks select is written without counting them.
            number = len(args) > 2 and args[2].dim() == 0
            return any(masks) and not (all(masks) and number and not (len(args) > 3 and args[3]))
        if self.name.startswith("aten::repeat_interleave."):
            return kwargs.get("output_size") is None
        return self.waits


#: dtypes of indices that are masks.
MASKS = (torch.bool, torch.uint8)
_COPYING = frozenset({"_to_copy", "copy_", "_copy_from", "_copy_from_and_resize"})
#: Its parts wait: it reads error codes of other operators on the host.
_CHECKING_ERRORS = "_linalg_check_errors"


@functools.cache
def _read_rows() -> dict[str, dict[str, Any]]:
    return contract.read_operators()


@functools.cache
def writing(op: Operator, key: str) -> Operator | None:
    """Return the overload that computes into given memory (``out``), if the device has a kernel for it."""
    wanted = [(argument.name, str(argument.type)) for argument in op._schema.arguments]
    if len(op._schema.returns) != 1 or str(op._schema.returns[0].type) != "Tensor":
        return None
    for name in op.overloadpacket.overloads():
        other: Operator = getattr(op.overloadpacket, name)
        outs = [argument for argument in other._schema.arguments if argument.is_out]
        taken = [(argument.name, str(argument.type)) for argument in other._schema.arguments if not argument.is_out]
        if len(outs) == 1 and taken == wanted and torch._C._dispatch_has_kernel_for_dispatch_key(other.name(), key):
            return other if outs[0].name == "out" else None
    return None


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an argument or a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
