"""Operators of the program inside graphs that were rewritten to the CPU: they are called with device tensors.

So are collectives, since a process group of NCCL takes no others, and operators of torch's that inductor calls as they
are: the device has kernels of its own for some, and lays results out as CUDA does, which its fake kernels know.

The graph calls a stand-in, an operator of ours with the same schema, so that inductor deals with mutation, layouts and
order as it does with the program's own. What it is given are CPU tensors; it calls the program's operator with device
tensors over the same memory, and gives CPU tensors over the memory of the results back. Fake tensors go the same way:
what the program registered for them sees the device, too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from .. import _compat
from .inductor_random import return_generator
from .interface import Native

_NAMESPACE = "torchdevice_cuda"
_HOST = -1
#: Where torch's own operators are, which inductor has code for. What torch itself writes in Python for CUDA is called
#: as the program's.
_OF_TORCH = frozenset(
    "aten prim prims rngprims debugprims inductor inductor_prims quantized quantized_decomposed mkldnn mkl onednn "
    f"streams profiler c10d hostdevice_cuda hostdevice_mps {_NAMESPACE}".split()
)
_COLLECTIVES, _WAIT = "_c10d_functional", "wait_tensor"
_ATEN = "aten"
#: Operators that inductor has code for, but none for the CPU.
_FOR_GPUS = frozenset(("sort", "topk", "kthvalue", "median", "mode"))


def takes_device_tensors(target: Any) -> bool:
    """Tell whether a node's target is a collective, or an operator that inductor calls as it is."""
    import torch
    from torch._inductor.lowering import fallbacks, lowerings

    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target.namespace == _COLLECTIVES:
        return target._opname != _WAIT  # whoever calls the others for compiled code waits there and then
    if target.namespace in _OF_TORCH and not (target.namespace == _ATEN and _is_function(target)):
        return False
    return target not in lowerings or target in fallbacks or target._opname in _FOR_GPUS


@functools.cache
def _is_function(operator: Any) -> bool:
    """Tell whether an operator makes tensors of tensors: writes into none, draws nothing, has shapes known beforehand.

    Compiled code has a generator of its own, and inductor knows which of torch's operators write or give views.
    """
    import torch

    schema = operator._schema
    values = [*schema.arguments, *schema.returns]
    tags = {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
    return (
        not tags.intersection(operator.tags)
        and all(value.alias_info is None for value in values)
        and any("Tensor" in str(argument.type) for argument in schema.arguments)
        and all("Tensor" in str(value.type) for value in schema.returns)
    )


class DeviceCalls:
    """Puts stand-ins for the program's operators into a graph of the device of ``native``."""

    def __init__(self, native: Native, index: int) -> None:
        self._native, self._kind, self._index = native, native.device_type, index

    def replace(self, node: Any) -> list[str]:
        """Have a node call a stand-in, whether it calls an operator or hands one to a higher-order operator.

        Return the names of the arguments that the operator takes as they are; none where there was nothing to replace.
        The node's values are still those of the device.
        """
        place, operator = _find(node, takes_device_tensors)
        if operator is None or (operator.namespace == _ATEN and not self._is_on_device(node)):
            return []
        _put(node, place, self._stand_in(operator, node.args[place + 1 :], node.kwargs))
        return _names(operator)

    def _is_on_device(self, node: Any) -> bool:
        """Tell whether every result of one of torch's operators is a plain tensor on the virtual GPU.

        Inductor takes it from no stand-in that a result is left out. What an Apple GPU lacks is computed on the CPU.
        """
        import torch
        import torch.utils._pytree as pytree

        return self._kind == "cuda" and all(
            isinstance(value, torch.Tensor) and value.device.type == self._kind and value.layout is torch.strided
            for value in pytree.tree_leaves(node.meta.get("val"))
        )

    def restore(self, node: Any) -> Any | None:
        """Have a node call the program's operator again; return the stand-in that it called."""
        place, stand_in = _find(node, _made.__contains__)
        if stand_in is not None:
            _put(node, place, _made[stand_in])
        return stand_in

    def put_back(self, node: Any, stand_in: Any | None) -> None:
        """Have a node call the stand-in that it called; another where it calls another operator, all on the device."""
        place, operator = _find(node, takes_device_tensors)
        if operator is None:
            return
        if stand_in is None or _made[stand_in] is not operator:
            if operator.namespace == _ATEN:
                return  # what a pass adds of torch's is the CPU's, as the graph is
            stand_in = _stand_in(self._native, operator, (self._index,) * len(_names(operator)), self._index)
        _put(node, place, stand_in)

    def _stand_in(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        names = _names(operator)
        given = {**kwargs, **dict(zip(names, args, strict=False))}
        bases = kwargs.get("_all_bases", ())
        places = tuple(self._place(name, given, bases) for name in names)
        return _stand_in(self._native, operator, places, self._index)

    def _place(self, name: str, given: dict[str, Any], bases: Sequence[Any]) -> Any:
        """Return the index of the device that an argument is on, one for each tensor of a list."""
        if name in given:
            return self._device(given[name])
        if f"_{name}_length" in given:
            return tuple(self._place(f"{name}_{i}", given, bases) for i in range(given[f"_{name}_length"]))
        base = given.get(f"_{name}_base_index")
        if base is not None:
            return self._device(bases[base])
        device = given.get(f"_{name}_device")
        return self._index if device is None or device.type == self._kind else _HOST

    def _device(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(map(self._device, value))
        value = value.meta.get("val", value) if hasattr(value, "meta") else value
        if isinstance(value, (list, tuple)):
            return tuple(map(self._device, value))
        device = getattr(value, "device", None)
        if device is None or device.type != self._kind:
            return self._index if device is None else _HOST
        return device.index or 0


def _find(node: Any, is_wanted: Callable[[Any], bool]) -> tuple[int, Any | None]:
    """Look for an operator that a node calls, at -1, or hands to a higher-order operator, among its arguments."""
    import torch

    operators = [(i, each) for i, each in enumerate((node.target, *node.args), -1)]
    return next(((i, o) for i, o in operators if isinstance(o, torch._ops.OpOverload) and is_wanted(o)), (-1, None))


def _put(node: Any, place: int, operator: Any) -> None:
    if place < 0:
        node.target = operator
    else:
        node.args = (*node.args[:place], operator, *node.args[place + 1 :])


def _names(operator: Any) -> list[str]:
    return [argument.name for argument in operator._schema.arguments]


#: The program's operators by their stand-ins, which stay for as long as the process, as what was compiled may.
_made: dict[Any, Any] = {}


@functools.cache
def _library() -> Any:
    import torch

    return torch.library.Library(_NAMESPACE, "FRAGMENT")


def _stand_in(native: Native, operator: Any, places: tuple[Any, ...], index: int) -> Any:
    """Return the operator of ours for one of the program's, its arguments on these devices.

    Its name depends on nothing else: inductor keeps compiled graphs for other processes.
    """
    import torch

    schema, tags = str(operator._schema), sorted(operator.tags, key=str)
    known = (native.device_type, schema, tuple(map(str, tags)), places, index)
    name = f"{operator.namespace}_{operator._opname}_{hashlib.sha256(repr(known).encode()).hexdigest()[:16]}"
    ours = getattr(torch.ops, _NAMESPACE)
    if not hasattr(ours, name):
        library, call = _library(), _Call(native, operator, places, index)
        library.define(name + schema[schema.index("(") :], tags=tags)
        library.impl(name, call.run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_NAMESPACE}::{name}", call.fake, lib=library)
    made = getattr(ours, name).default
    _made[made] = operator
    _resemble(made, operator)
    return made


def _resemble(stand_in: Any, operator: Any) -> None:
    """Tell of a stand-in what was told of the operator besides its schema."""
    from torch._inductor import lowering
    from torch.fx.node import _side_effectful_functions, has_side_effect

    effect = _compat.effect_of(operator)
    if effect is not None and _compat.effect_of(stand_in) is None:
        _compat.register_effect(stand_in, effect)
    if operator in _side_effectful_functions:
        has_side_effect(stand_in)
    if operator in lowering.fallbacks:
        lowering.make_fallback(stand_in, layout_constraint=lowering._maybe_layout_constraints.get(operator), warn=False)


@contextlib.contextmanager
def _run_program(native: Native, index: int) -> Iterator[None]:
    """Run code of the program in the middle of compiled code: what it allocates is where it says."""
    compiled, present = native.allocate_on(_HOST), native.get_device()
    native.set_device(index)
    try:
        with return_generator():
            yield
    finally:
        native.run_other_work(index)
        native.set_device(present)
        native.allocate_on(compiled)


class _Call:
    """A call of an operator of the program with device tensors, made with CPU tensors."""

    def __init__(self, native: Native, operator: Any, places: tuple[Any, ...], index: int) -> None:
        import torch

        ops = getattr(torch.ops, f"hostdevice_{native.device_type}")
        self._native, self._kind, self._index = native, native.device_type, index
        self._lend, self._to_cpu = ops.lend.default, ops.to_cpu.default
        self._path = (operator.namespace, operator._opname, operator._overloadname)
        self._places = [(i, name, place) for i, (name, place) in enumerate(zip(_names(operator), places, strict=True))]
        self._is_collective = operator.namespace == _COLLECTIVES
        self._tensor, self._operators = torch.Tensor, cast(Any, torch.ops)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        with _run_program(self._native, self._index):
            return self._call(args, kwargs, self._lend, lambda made: self._to_cpu([made], True)[0])

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with fake tensors."""
        import torch

        def resembling(value: Any, device: str) -> Any:
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)

        def lend(values: list[Any], index: int) -> list[Any]:
            return [resembling(value, f"{self._kind}:{index}") for value in values]

        return self._call(args, kwargs, lend, lambda made: resembling(made, "cpu"))

    def _call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        lend: Callable[[list[Any], int], list[Any]],
        take: Callable[[Any], Any],
    ) -> Any:
        positional = list(args)
        slots: dict[int, list[tuple[Any, Any]]] = {}  # by device: what holds a tensor, and where
        for position, name, place in self._places:
            held: Any = positional if position < len(positional) else kwargs
            key: Any = position if position < len(positional) else name
            if held is kwargs and name not in kwargs:
                continue  # a default
            value = held[key]
            if isinstance(value, self._tensor):
                slots.setdefault(place, []).append((held, key))
            elif isinstance(value, (list, tuple)):
                held[key] = several = list(value)
                each = place if isinstance(place, tuple) else (place,) * len(several)
                for i, (one, where) in enumerate(zip(several, each, strict=True)):
                    if isinstance(one, self._tensor):
                        slots.setdefault(where, []).append((several, i))
        slots.pop(_HOST, None)
        given: dict[int, Any] = {}  # the CPU tensor by the identity of the device's
        for index, of_device in slots.items():
            tensors = [held[key] for held, key in of_device]
            for (held, key), tensor, lent in zip(of_device, tensors, lend(tensors, index), strict=True):
                held[key] = lent
                given[id(lent)] = tensor
        operator: Any = functools.reduce(getattr, self._path, self._operators)
        made = operator(*positional, **kwargs)
        if self._is_collective:
            # Work is found by its storage, of which compiled code has an alias.
            for each in made if isinstance(made, (list, tuple)) else (made,):
                getattr(getattr(self._operators, _COLLECTIVES), _WAIT)(each)
        return self._take(made, given, take)

    def _take(self, made: Any, given: dict[int, Any], take: Callable[[Any], Any]) -> Any:
        if isinstance(made, (list, tuple)):
            return type(made)([self._take(each, given, take) for each in made])
        if not isinstance(made, self._tensor) or made.device.type != self._kind:
            return made
        return given[id(made)] if id(made) in given else take(made)
