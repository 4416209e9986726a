"""Passes of the program over graphs that inductor is about to compile: they see the program's operators.

Inductor calls them when a graph has been rewritten to the CPU, and stand-ins are in the place of the operators that the
passes look for (inductor_calls.py). Operators that a pass puts into the graph are called with device tensors, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .inductor_calls import DeviceCalls

_PASSES = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")


@contextlib.contextmanager
def show_operators_to_passes(calls: DeviceCalls) -> Iterator[None]:
    """Have the passes that the program has set be called with its operators in their places."""
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
