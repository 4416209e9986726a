"""Inductor's cudagraph trees around code that was compiled for the virtual GPU.

``mode="reduce-overhead"`` and ``"max-autotune"`` ask for them. Inductor puts them around the code that it makes for
CUDA; here the code is the CPU's, and the trees go around the call of it with device tensors. What the trees want to
know of the graph is read before it is rewritten, and where CUDA's would be declined, these are, in the same words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass
class Trees:
    """Inductor's request for graph trees, and the reason if they are unavailable."""

    declined: str | None
    index: int
    placeholders: Sequence[Any]
    stack_traces: list[str | None]
    options: dict[str, Any]

    @classmethod
    def asked_for(cls, gm: Any, example_inputs: Sequence[Any], kwargs: dict[str, Any], index: int) -> Trees | None:
        """Return the request of a graph for CUDA, if trees are enabled. The CPU's graph is compiled without them."""
        from torch._inductor import config
        from torch._inductor.cudagraph_utils import get_placeholder_info

        asked = kwargs.get("cudagraphs")
        wanted = bool(config.triton.cudagraphs if asked is None else asked)
        options = dict(kwargs)
        if asked is not None:
            kwargs["cudagraphs"] = type(asked)(False)
        if not wanted:
            return None
        output = next(node for node in reversed(gm.graph.nodes) if node.op == "output")
        traces = output.meta.get("output_stack_traces") or [getattr(n, "stack_trace", None) for n in output.args[0]]
        placeholders = tuple(get_placeholder_info(gm.graph))
        return cls(_why_not(gm, example_inputs), index, placeholders, list(traces), options)

    def around(self, call: Callable[..., Any], compiled: Any) -> Callable[..., Any]:
        """Return the call as a tree of graphs, or itself, with a word in inductor's logs."""
        from torch._inductor import config
        from torch._inductor.compile_fx import cudagraphify
        from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

        backward, inference = self._is("is_backward"), self._is("is_inference")
        mutated = tuple(getattr(compiled, "mutated_input_idxs", ()))
        static = tuple(self.options.get("static_input_idxs") or ())
        why = self.declined
        if why is None and not config.triton.cudagraph_support_input_mutation and set(mutated) - set(static):
            why = f"mutated inputs ({len(set(mutated) - set(static))} instances)"
        forward_index = self.options.get("boxed_forward_device_index")
        if why is not None:
            log_cudagraph_skip_and_bump_counter(f"skipping cudagraphs due to {why}")
            box = self.options.get("cudagraphs")
            if box is not None:
                type(box).disable(box)
            return _running_backward(call, forward_index) if backward else call
        if forward_index is not None and not inference and not backward:
            forward_index.set(self.index)
        run: Callable[..., Any] = cudagraphify(
            call,
            static_input_idxs=static,
            device_index=self.index,
            stack_traces=self.stack_traces,
            is_backward=backward,
            is_inference=inference,
            constants=(),
            placeholders=self.placeholders,
            mutated_input_idxs=mutated,
        )
        return run

    def _is(self, name: str) -> bool:
        return bool(self.options.get(name, False))


def _why_not(gm: Any, example_inputs: Sequence[Any]) -> str | None:
    """Inductor's own reasons, of a graph that is not divided into parts."""
    import torch
    from torch._inductor import config
    from torch._inductor.utils import get_first_incompatible_cudagraph_node

    devices: dict[torch.device, Any] = {}
    dynamic = False
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "meta":
            devices.setdefault(value.device, node)
            dynamic = dynamic or any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
    on_host = devices.get(torch.device("cpu"))
    if on_host is not None:
        return f"cpu device ({on_host.name})"
    if len(devices) > 1:
        return f"multiple devices: {', '.join(map(repr, devices))}"
    if not all(isinstance(value, (torch.Tensor, torch.SymInt)) for value in example_inputs):
        return "non-Tensor inputs"
    if dynamic and config.triton.cudagraph_skip_dynamic_graphs:
        return "graph with symbolic shapes inputs and config.triton.cudagraph_skip_dynamic_graphs=True."
    refused = get_first_incompatible_cudagraph_node(gm)
    return None if refused is None else f"incompatible op {refused.target}"


def _running_backward(call: Callable[..., Any], forward_index: Any) -> Callable[..., Any]:
    """Return the call, which tells the trees of its forward pass that backward has begun."""
    from torch._inductor.cudagraph_trees import get_manager

    index = None if forward_index is None else forward_index.value
    manager = None if index is None else get_manager(index, create_if_none_exists=False)
    if manager is None:
        return call

    def run(inputs: list[Any]) -> Any:
        manager.set_to_running_backward()
        return call(inputs)

    return run


class Boxed:
    """A function that takes its arguments in a list, which it may empty, and says so, as AOTAutograd asks."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._boxed_call = True  # on the instance: wrappers copy what they find there

    def __call__(self, inputs: list[Any]) -> Any:
        """Call it."""
        return self._run(inputs)
