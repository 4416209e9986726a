"""What computes with tensors of float64 that stay on the host under the GPU's name (``wide_tensors``).

The CPU computes; results of float64 and complex128 stay on the host, all others go to the GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import cpu
from .devices import is_stranger, mixed
from .operators import Shape
from .refusals import NARROW
from .wide_tensors import HostDoubleTensor, Kernel

if TYPE_CHECKING:
    from .operators import Operator

_CPU = torch.device("cpu")
NO_DOUBLES = "the GPU has no float64"
#: Between devices on purpose.
_BETWEEN = frozenset({"aten::copy_"})
#: Which result is the CPU's on any device.
_AT_HOME = {"aten::_pack_padded_sequence": 1}
#: An operator that is made of others has no kernel of CUDA's that would compare devices.
_COMPOSITE = "CompositeExplicitAutograd"
#: They decide whether there is something to copy, and where to; seen here where autograd is off.
_DECIDING = frozenset({"to", "type_as"})


class Home:
    """The device that wide tensors say they are on, and what computes for it.

    ``left`` is told of each operator; ``translated`` gives an error the words that the program is to see.
    """

    def __init__(
        self,
        device: torch.device,
        left: Callable[[str, str, str], None],
        translated: Callable[[BaseException], BaseException],
    ) -> None:
        self.device = device
        self._left = left
        self._translated = translated
        #: what computes an operator of wide tensors
        self.kernel = functools.cache(self._made)
        #: what computes an operator between processes, by its name: it takes tensors to the CPU itself
        self.between: Callable[[str], Kernel] | None = None

    def _made(self, op: Operator) -> Kernel:
        if op.name() == "aten::_to_copy":
            return self._moving(op)
        if op.overloadpacket.__name__ in _DECIDING:
            return op.decompose
        if op.namespace == "c10d" and self.between is not None:
            return self.between(op.name().partition("::")[2])
        return self._computing(op)

    def _brought(self, value: Any) -> Any:
        """An argument as the CPU takes it."""
        if isinstance(value, HostDoubleTensor):
            return value._host
        kind = value.__class__
        if kind is list or kind is tuple:  # torch's way through any tree takes as long as all the rest
            return kind([self._brought(item) for item in value])
        if isinstance(value, torch.UntypedStorage):
            return value.cpu()
        return cpu.to_cpu(value, self.device)

    def _placed(self, value: Any) -> Any:
        """A result as the program is to see it; also where this is no longer the home that others would find."""
        if isinstance(value, torch.Tensor) and value.dtype in NARROW and value.layout is torch.strided:
            return HostDoubleTensor(value, self)
        if isinstance(value, (list, tuple)):
            items = [self._placed(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return cpu.to_device(value, self.device)

    def _moving(self, op: Operator) -> Kernel:
        """A copy of one of ours, in another dtype or on another device."""

        def move(self_: HostDoubleTensor, **kwargs: Any) -> Any:
            asked = kwargs.pop("device", None)
            made = op(self_._host, device=_CPU, **kwargs)
            if asked is None or asked.type == self.device.type:
                self._left(op.name(), "CPU", NO_DOUBLES)
                return self._placed(made)
            return made if asked.type == "cpu" else made.to(asked)

        return move

    def _computing(self, op: Operator) -> Kernel:
        shape, name = Shape.of(op), op.name()
        at_home = _AT_HOME.get(name)
        between = name in _BETWEEN or torch._C._dispatch_has_kernel_for_dispatch_key(name, _COMPOSITE)

        def compute(*args: Any, **kwargs: Any) -> Any:
            named = dict(zip(shape.names, args, strict=False), **kwargs)
            if not between and any(map(is_stranger, named.values())):
                error = mixed(op, args, kwargs)
                if error is not None:
                    raise self._translated(error)
            self._left(name, "CPU", NO_DOUBLES)
            brought = {name: self._brought(value) for name, value in named.items()}
            if shape.draws:
                brought["generator"] = cpu.seeded(named.get("generator"), self.device)
            positional = [brought[name] for name in shape.names[: len(args)]]
            given = op(*positional, **{key: brought[key] for key in brought if key not in shape.names[: len(args)]})
            for written in shape.written:
                _write_back(named.get(written), brought.get(written))
            if len(shape.results) == 1:
                return self._placed(given) if shape.results[0] is None else named[shape.results[0]]
            if not shape.results:
                return None
            return tuple(
                named[owner] if owner is not None else value if place == at_home else self._placed(value)
                for place, (value, owner) in enumerate(zip(given, shape.results, strict=True))
            )

        return compute


def _write_back(target: Any, source: Any) -> None:
    """Put what was written into a copy where it belongs; of ours the host's own memory was written to."""
    if isinstance(target, (list, tuple)):
        for one, other in zip(target, source, strict=True):
            _write_back(one, other)
    elif target is not None and not isinstance(target, HostDoubleTensor):
        cpu.write_back(target, source)
