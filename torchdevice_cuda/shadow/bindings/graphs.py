"""CUDA graphs: their states and errors. The driver captures and replays."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch._C

from ..._compat import instantiates_by_itself, methods_of_later_graphs, no_raw_graph
from ...drivers import active
from ...drivers.errors import cuda_error
from ...report.unsupported import not_supported
from . import pybind

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...native.interface import NativeGraph

__all__ = ["_CUDAGraph", "_graph_pool_handle"]

_ILLEGAL_STATE = 401
_CAPTURE_BEGIN = (
    "(self: torch._C._CUDAGraph, pool: Optional[tuple[int, int]] = None, capture_error_mode: str = 'global') -> None"
)
_ERROR_MODES = ("global", "thread_local", "relaxed")

_pool_ids = itertools.count(1)
_own_pool_ids = itertools.count(1)  # of graphs that were given no pool
_debug_mode = False  # one switch for all graphs of the process, as on CUDA
_capturing: list[_CUDAGraph] = []


def next_pool_id() -> tuple[int, int]:
    """Return a pool id that no graph or ``MemPool`` of this process has had; both share one sequence on CUDA."""
    return 0, next(_pool_ids)


def _graph_pool_handle() -> tuple[int, int]:
    """Return a new memory pool id for graphs to share."""
    return next_pool_id()


def capture_unavailable() -> RuntimeError:
    """Return the error for starting a capture on a driver that has no graphs."""
    return RuntimeError(
        f"CUDA graphs cannot be captured with torchdevice_cuda's {active().name!r} driver. Run this code without a "
        "graph (call the captured function directly in place of graph.replay()), or with another driver"
    )


class _CUDAGraph(pybind.PybindObject):
    """Work that is captured once and replayed many times.

    Its own attributes are private to the class: torch's subclass has others, and more in each release.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Accept the arguments of ``__init__``, as C++ classes do; torch's subclass passes them on."""
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False) -> None:
        self.__keeps = bool(keep_graph)
        self.__recorded: NativeGraph | None = None
        self.__ended = self.__raw_is_live = self.__instantiated = False
        self.__pool: tuple[int, int] | None = None
        self.__retained: list[tuple[int, tuple[int, int]]] = []

    def __native(self) -> NativeGraph:
        if self.__recorded is None:
            self.__recorded = active().graph()
            if self.__recorded is None:
                raise capture_unavailable()
        return self.__recorded

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Make a replay advance a generator's offset by what the graph draws from it."""
        if not isinstance(generator, torch._C.Generator):
            raise TypeError(f"expected a Generator, but got {type(generator).__name__}")
        if active().can_capture:
            if generator.device.type not in ("cuda", active().device_type):
                raise RuntimeError(f"Expected a 'cuda' device type for generator but found {generator.device.type!r}")
            self.__native().register_generator(generator)

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Record the work of the current stream from now on, without its effects."""
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        pair = pool is None or (
            isinstance(pool, (tuple, list)) and len(pool) == 2 and all(isinstance(n, int) for n in pool)
        )
        pybind.check(pair, "capture_begin", _CAPTURE_BEGIN, self, pool, capture_error_mode)
        if self.__ended:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        driver = active()
        if driver.streams.current(driver.current_device()) == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        native = self.__native()
        if pool is None or tuple(pool) == (0, 0):
            pool = (next(_own_pool_ids), 0)
        native.begin(*pool, _ERROR_MODES.index(capture_error_mode))
        self.__pool = pool[0], pool[1]
        _capturing.append(self)

    def capture_end(self) -> None:
        """Stop recording; from now on the graph can be replayed."""
        self.__stop_recording()
        if not self.__keeps:
            self.__instantiated = True
        self.__raw_is_live = self.__keeps

    def capture_end_pre(self) -> None:
        """End the first part of a capture, after which torch's hooks may inspect the captured graph."""
        self.__stop_recording()

    def __stop_recording(self) -> None:
        if self.__recorded is None or not self.__recorded.capturing:
            raise cuda_error(_ILLEGAL_STATE)
        if not self.__recorded.holds_current_stream():
            raise RuntimeError("Capture must end on the same stream it began on.")
        _capturing.remove(self)
        try:
            self.__recorded.end()
        except BaseException:
            self.__drop()
            raise
        self.__ended = self.__raw_is_live = True
        if not self.__recorded.names():
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=3,
            )

    def capture_end_post(self) -> None:
        """End the second part of a capture."""
        if not self.__ended:
            raise cuda_error(_ILLEGAL_STATE)
        self.__raw_is_live = self.__keeps

    def instantiate(self) -> None:
        """Prepare the captured graph for replay: it already is."""
        if not self.__ended:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if not self.__raw_is_live:
            raise RuntimeError("instantiate() is intended to be called by the user only when keep_graph=true")
        self.__instantiated = True

    def replay(self) -> None:
        """Repeat the recorded work on the current stream, with the current contents of its memory."""
        if not self.__ended or self.__recorded is None:
            raise RuntimeError(
                "capture_end() must have been called before calling instantiate"
                if instantiates_by_itself(torch.__version__)
                else "Called CUDAGraph::replay without a preceding successful capture."
            )
        self.__instantiated = True
        self.__recorded.replay()

    def reset(self) -> None:
        """Drop the captured graph, and release its memory. A capture that is underway continues, as on CUDA."""
        if self.__recorded is None or not self.__recorded.capturing:
            self.__drop()

    def __drop(self) -> None:
        if self.__recorded is not None:
            self.__recorded.reset()
        self.__ended = self.__raw_is_live = self.__instantiated = False
        self.__pool = None
        while self.__retained:
            device, pool = self.__retained.pop()
            active().memory.release_pool(device, pool)

    @property
    def _has_graph_exec(self) -> bool:
        """Return whether there is something to replay."""
        return self.__instantiated

    def pool(self) -> tuple[int, int]:
        """Return the id of the pool that holds the captured graph's memory."""
        if not self.__ended or self.__pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self.__pool

    def pools(self) -> list[tuple[int, int]]:
        """Return its pool and the pools that are retained for it."""
        if not self.__ended or self.__pool is None:
            raise RuntimeError("Called CUDAGraph::pools() without a preceding successful capture.")
        return [self.__pool, *(pool for _, pool in self.__retained)]

    def _retain_pool(self, pool: tuple[int, int]) -> None:
        """Keep a pool alive as long as the graph that is being captured."""
        if self.__recorded is None or not self.__recorded.capturing:
            raise RuntimeError("CUDAGraph::retain_pool may only be called during capture.")
        driver = active()
        driver.memory.retain_pool(driver.current_device(), pool)
        self.__retained.append((driver.current_device(), pool))

    def enable_debug_mode(self) -> None:
        """Enable ``debug_dump`` of every graph; in later releases, of this one."""
        global _debug_mode
        if instantiates_by_itself(torch.__version__):
            self.__keeps = True
        else:
            _debug_mode = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the captured graph, if it was kept, in Graphviz's language."""
        if not (_debug_mode or self.__keeps):
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", stacklevel=2)
            return
        warnings.warn("DEBUG: calling debug_dump()", stacklevel=2)
        if self.__raw_is_live and self.__recorded is not None:
            warnings.warn(f"DEBUG: calling cudaGraphDebugDotPrint() with {debug_path}", stacklevel=2)
            Path(debug_path).write_text(_dot(self.__recorded.names()))

    def raw_cuda_graph(self) -> int:
        """Return the handle of the captured graph for CUDA's own functions; no function here takes it."""
        if not self.__raw_is_live:
            raise RuntimeError(no_raw_graph(torch.__version__, self.__keeps))
        return id(self.__recorded)

    def raw_cuda_graph_exec(self) -> int:
        """Return the handle of the executable graph."""
        if not self.__instantiated:
            raise RuntimeError("You cannot access the raw cudaGraphExec_t instance until instantiate() has been called")
        return id(self)

    @staticmethod
    def get_currently_capturing_graph() -> _CUDAGraph:
        """Return the graph that is being captured on the current stream."""
        return _CUDAGraph.__captured()

    @staticmethod
    def __captured() -> _CUDAGraph:
        driver = active()
        device = driver.current_device()
        if driver.streams.is_capturing(driver.streams.current(device), device):
            for graph in _capturing:
                if graph.__recorded is not None and graph.__recorded.takes_current_stream():
                    return graph
        raise RuntimeError("The current stream is not currently capturing.")

    def begin_capture_to_if_node(self, scalar_cuda_pred_tensor: torch.Tensor) -> None:
        """Raise: there are no conditional nodes."""
        self.__captured()
        raise _no_conditional_nodes()

    def begin_capture_to_while_node(self, scalar_cuda_pred_tensor: torch.Tensor) -> None:
        """Raise: there are no conditional nodes."""
        self.__captured()
        raise _no_conditional_nodes()

    def set_conditional_handle_for_current_node(self, scalar_cuda_pred_tensor: torch.Tensor) -> None:
        """Raise: there are no conditional nodes."""
        raise RuntimeError("No active CUDA graph conditional node.")

    def end_capture_to_conditional_node(self) -> None:
        """Raise: there are no conditional nodes."""
        self.__captured()
        raise _no_conditional_nodes()


def _no_conditional_nodes() -> NotImplementedError:
    return not_supported(
        "conditional nodes of CUDA graphs",
        f"Graphs of the {active().name!r} driver of torchdevice_cuda have no conditional nodes: capture each branch as "
        "a graph of its own, and choose on the host which to replay",
    )


def _dot(names: list[str]) -> str:
    """Return the calls as a chain, in the order in which they were recorded."""
    nodes = [f'"graph_1_node_{i}"[style="bold" shape="octagon" label="{i}\\n{name}"];' for i, name in enumerate(names)]
    edges = [f'"graph_1_node_{i}" -> "graph_1_node_{i + 1}";' for i in range(len(names) - 1)]
    body = "\n".join([*nodes, *edges])
    return f'digraph dot {{\nsubgraph cluster_1 {{\nlabel="graph_1" graph[style="dashed"];\n{body}\n}}\n}}\n'


_CUDAGraph.__module__ = "torch._C"
for _name in methods_of_later_graphs(torch.__version__):
    delattr(_CUDAGraph, _name)
