"""``torch.compile`` for the virtual GPU: graphs are compiled by inductor's C++ backend and run in device memory.

Inductor takes ``cuda`` to mean Triton. A graph that reaches it with tensors of the virtual GPU is rewritten to the
CPU, compiled as a CPU graph, and called with CPU aliases of the arguments; what it allocates is the device's memory,
and its results become device tensors without a copy. Operators of the program in it are called with device tensors
(inductor_calls.py). Nothing is ever run uncompiled in its place: what inductor cannot compile, it says.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import rehearsal
from .inductor_calls import DeviceCalls
from .inductor_random import lend_seed
from .inductor_trees import Boxed, Trees
from .interface import Native

Function = Callable[..., Any]

#: In the words with which compiled code checks its indices.
_OUT_OF_BOUNDS = "index out of bounds: "
#: The name of a compiled graph in profiles of the device.
_COMPILED = "compiled code"


def compiling(
    native: Native, compile_fx: Function, compile_fx_inner: Function, around: Function = lambda call: call
) -> Function:
    """Inductor's ``compile_fx``, with graphs of the device of ``native`` compiled as described above.

    ``around`` is given what calls a compiled graph, and gives what is called in its place.
    """

    @functools.wraps(compile_fx_inner)
    def inner(gm: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
        return _compile(native, compile_fx_inner, around, gm, example_inputs, kwargs)

    @functools.wraps(compile_fx)
    def outer(model: Any, example_inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if not args:
            kwargs.setdefault("inner_compile", inner)
        return compile_fx(model, example_inputs, *args, **kwargs)

    return outer


def _values(gm: Any) -> list[Any]:
    import torch.utils._pytree as pytree

    return [leaf for node in gm.graph.nodes for leaf in pytree.tree_leaves(node.meta.get("val"))]


def _compile(
    native: Native,
    compile_fx_inner: Callable[..., Any],
    around: Function,
    gm: Any,
    example_inputs: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    import torch

    kind = native.device_type
    indices = {
        v.device.index or 0
        for v in [*example_inputs, *_values(gm)]
        if isinstance(v, torch.Tensor) and v.device.type == kind
    }
    if not indices:
        return compile_fx_inner(gm, example_inputs, **kwargs)
    output = next(node for node in reversed(gm.graph.nodes) if node.op == "output")
    devices = [_device_of(value, kind) for value in output.args[0]]
    random = any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in gm.graph.nodes)
    trees = Trees.asked_for(gm, example_inputs, kwargs, min(indices))
    calls = DeviceCalls(native, min(indices))
    inputs = _to_cpu_graph(gm, example_inputs, calls, kind)
    with show_operators_to_passes(calls):
        compiled = compile_fx_inner(gm, inputs, **kwargs)
    call = around(_OnDevice(native, compiled, min(indices), devices, random))
    # Inductor has them for CUDA's own devices: not for an Apple GPU, whatever may be captured there.
    return call if trees is None or kind != "cuda" else Boxed(trees.around(call, compiled))


def _device_of(node: Any, kind: str) -> int | None:
    value = getattr(node, "meta", {}).get("val")
    device = getattr(value, "device", None)
    return (device.index or 0) if device is not None and device.type == kind else None


def _to_cpu_graph(gm: Any, example_inputs: Sequence[Any], calls: DeviceCalls, kind: str) -> list[Any]:
    """Rewrites the graph in place; gives example inputs on the CPU."""
    from torch._guards import detect_fake_mode

    mode = detect_fake_mode(list(example_inputs)) or detect_fake_mode(_values(gm))
    if mode is None:
        raise AssertionError("inductor was given a graph without fake tensors")
    _rewrite(gm, mode, calls, kind)
    return _propagate(gm, example_inputs, mode, kind)


def _rewrite(gm: Any, mode: Any, calls: DeviceCalls, kind: str) -> None:
    """Has the graph, and those that it calls, ask for the CPU where it asked for the device."""
    import torch
    import torch.utils._pytree as pytree
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch.fx.node import map_aggregate, map_arg

    aten, cpu = torch.ops.aten, torch.device("cpu")
    to_host = functools.partial(_to_host, mode=mode, kind=kind)

    def host(value: Any) -> Any:
        return cpu if isinstance(value, torch.device) and value.type == kind else value

    for node in gm.graph.nodes:
        if "stream" in node.meta.get("custom", ()):
            # Code for the CPU enters no streams: it runs in order. Records and waits are calls, and stay.
            node.meta["custom"] = {name: said for name, said in node.meta["custom"].items() if name != "stream"}
        if "eager_input_vals" in node.meta:
            # The inputs of the trace: inductor compiles the graphs that this one calls for it.
            node.meta["eager_input_vals"] = pytree.tree_map(to_host, node.meta["eager_input_vals"])
        if node.op == "get_attr":
            value = getattr(gm, node.target, None)
            if isinstance(value, torch.Tensor) and value.device.type == kind:
                with torch.utils._python_dispatch._disable_current_modes():  # a constant is no fake tensor
                    setattr(gm, node.target, value.cpu())
            elif isinstance(value, torch.fx.GraphModule):
                # Another graph, for control flow and for what is ordered by streams and events. Whoever calls it
                # looks at its values, which nobody else writes down.
                _rewrite(value, mode, calls, kind)
                _propagate(value, [n.meta.get("val") for n in value.graph.find_nodes(op="placeholder")], mode, kind)
        if node.op != "call_function":
            continue
        if str(node.target) == "streams.record_stream.default":
            # A node that has run no longer needs its memory.
            for user in list(node.users):
                user.args = map_arg(user.args, functools.partial(_but, node))
            gm.graph.erase_node(node)
            continue
        taken = calls.replace(node)
        if taken:
            node.kwargs = {
                name: value if name in taken else map_aggregate(value, host) for name, value in node.kwargs.items()
            }
            continue
        moves = node.target in (aten._to_copy.default, torch.ops.prims.device_put.default)
        source = node.args[0].meta.get("val") if moves and hasattr(node.args[0], "meta") else None
        if source is not None and source.device != node.meta["val"].device and source.dtype == node.meta["val"].dtype:
            # A move between devices is a copy; between the CPU and the CPU it would be nothing.
            node.target, node.args, node.kwargs = aten.clone.default, (node.args[0],), {}
            continue
        node.args, node.kwargs = map_aggregate(node.args, host), map_aggregate(node.kwargs, host)
    # Saved tensors have the strides that forward's compiled code chose, not those with which backward was traced.
    view_to_reshape(gm)
    gm.recompile()


def _but(dropped: Any, node: Any) -> Any:
    return None if node is dropped else node


def _propagate(gm: Any, example_inputs: Sequence[Any], mode: Any, kind: str) -> list[Any]:
    """Writes down what each node of a rewritten graph makes; gives the inputs it does so with."""
    import torch
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    inputs = [_to_host(value, mode, kind) for value in example_inputs]
    with torch.utils._python_dispatch._disable_current_modes():
        FakeTensorProp(gm, mode=mode).propagate_dont_convert_inputs(*inputs)
    return inputs


def _to_host(value: Any, mode: Any, kind: str) -> Any:
    """Give a fake tensor of the CPU for one of the device; anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor) or value.device.type != kind:
        return value
    with mode:
        made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cpu")
        # Inductor removes a clone of a tensor like it, and keeps one that resolves these.
        made = made.conj() if value.is_conj() else made
        made = torch._neg_view(made) if value.is_neg() else made
        return made.requires_grad_(value.requires_grad)


def _memory(tensor: Any) -> tuple[int, int]:
    """Return the address of a tensor's elements, and the bytes from the first to the last."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


class _OnDevice:
    """A compiled CPU graph, called with device tensors."""

    def __init__(
        self,
        native: Native,
        compiled: Callable[[list[Any]], Any],
        index: int,
        devices: list[int | None],
        random: bool,
    ) -> None:
        import torch

        ops = getattr(torch.ops, f"hostdevice_{native.device_type}")
        self._to_cpu, self._to_device = ops.to_cpu.default, ops.to_device.default
        self._native, self._compiled, self._index = native, compiled, index
        self._devices, self._random = devices, random
        self._tensor = torch.Tensor
        self._kind = native.device_type
        # Takes its arguments in a list it may empty. On the instance: wrappers copy what they find there.
        self._boxed_call = True

    def __call__(self, inputs: list[Any]) -> list[Any]:
        arguments = list(inputs)
        inputs.clear()
        places = [i for i, t in enumerate(arguments) if isinstance(t, self._tensor) and t.device.type == self._kind]
        on_device = [arguments[i] for i in places]
        captured = self._native.captures_underway() and self._native.begin_foreign_call(
            self._index, [_memory(t) for t in on_device]
        )
        # A replay's inputs may be kept by others, or freed: the graph does not keep them.
        aliases = self._to_cpu(on_device, not captured)
        for place, alias in zip(places, aliases, strict=True):
            arguments[place] = alias
        again = None
        try:
            results = self._run(list(arguments))
            again = self._again(arguments, results) if captured else None
        finally:
            if captured:
                self._native.end_foreign_call(self._index, again)
        wanted = [i for i, d in enumerate(self._devices) if d is not None and isinstance(results[i], self._tensor)]
        moved = self._to_device([results[i] for i in wanted], on_device, aliases, self._index)
        for i, value in zip(wanted, moved, strict=True):
            if self._devices[i] != value.get_device():
                value = value.to(f"{self._kind}:{self._devices[i]}")
            results[i] = value
        return results

    def _run(self, arguments: list[Any]) -> list[Any]:
        saved = self._native.allocate_on(self._index)
        try:
            if self._kind == "cuda" and (self._native.is_profiled() or rehearsal.is_timed()):
                with self._native.ForeignWork(_COMPILED, self._index):
                    return self._compute(arguments)
            return self._compute(arguments)
        finally:
            self._native.allocate_on(saved)

    def _compute(self, arguments: list[Any]) -> list[Any]:
        try:
            return list(self._draw(arguments) if self._random else self._compiled(arguments))
        except RuntimeError as error:
            self._assert(error)
            raise

    def _assert(self, error: RuntimeError) -> None:
        """Turn errors of compiled CPU code into the device-side assertions of compiled GPU code.

        There are no results to go on with, so that the device is waited for at once.
        """
        words = str(error).partition("\n")[0]
        if self._kind == "cuda" and _OUT_OF_BOUNDS in words:
            found = words[words.index(_OUT_OF_BOUNDS) :]
            self._native.fail_assertion(self._index, f"{_COMPILED}: unknown", found)
            self._native.synchronize(self._index)

    def _again(self, arguments: list[Any], results: list[Any]) -> Callable[[], None]:
        """Return a call that repeats this one on the memory's later contents and writes to the same results."""
        places = [_memory(r) if isinstance(r, self._tensor) else None for r in results]

        def again() -> None:
            for place, result in zip(places, self._run(list(arguments)), strict=True):
                if place is not None and _memory(result) != place:
                    ctypes.memmove(place[0], *_memory(result))

        return again

    def _draw(self, arguments: list[Any]) -> Any:
        """Random graphs draw from the CPU's generator: lend it the device's seed."""
        with lend_seed(self._native.next_seed(self._index)):
            return self._compiled(arguments)


_PASSES = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")


@contextlib.contextmanager
def show_operators_to_passes(calls: DeviceCalls) -> Iterator[None]:
    """Have the passes that the program has set be called with its operators in their places.

    Inductor calls them when a graph has been rewritten to the CPU, and stand-ins are in the place of the operators that
    the passes look for. Operators that a pass puts into the graph are called with device tensors, too.
    """
    from torch._inductor import config

    found = {name: getattr(config, name) for name in _PASSES}
    changed = {name: _wrap(passes, calls) for name, passes in found.items() if passes is not None}
    if not changed:
        yield
        return
    with config.patch(changed):
        yield


def _wrap(passes: Any, calls: DeviceCalls) -> Any:
    if isinstance(passes, (list, tuple)):
        return type(passes)([_wrap(each, calls) for each in passes])
    from torch._inductor.custom_graph_pass import CustomGraphPass

    # Some are told whether the graph is for inference, and known by their class.
    bases = [each for each in type(passes).__mro__ if each.__module__ == CustomGraphPass.__module__]
    base: Any = bases[0] if bases else CustomGraphPass

    class Pass(base):  # type: ignore[misc]
        """A pass of the program, between taking stand-ins out and putting them in."""

        def __call__(self, graph: Any, *args: Any, **kwargs: Any) -> None:
            """Call it."""
            taken = {node: calls.restore(node) for node in graph.nodes}
            try:
                passes(graph, *args, **kwargs)
            finally:
                for node in graph.nodes:
                    if node.op == "call_function":
                        calls.put_back(node, taken.get(node))

        def uuid(self) -> Any | None:
            """Return what inductor keeps compiled graphs under; nothing where it cannot."""
            return passes.uuid() if bases else None

    return Pass()
