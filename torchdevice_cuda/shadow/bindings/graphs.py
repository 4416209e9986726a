"""CUDA graphs and green contexts: their states and errors. Capturing itself is not available yet and says so."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import torch
import torch._C

from ..._compat import no_raw_graph
from ...drivers import active
from ...drivers.errors import cuda_error
from . import pybind

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["_CUDAGraph", "_CUDAGreenContext", "_WorkqueueScope", "_graph_pool_handle"]

_ILLEGAL_STATE = 401
_ERROR_MODES = ("global", "thread_local", "relaxed")

_pool_ids = itertools.count(1)
_debug_mode = False  # one switch for all graphs of the process, as on CUDA


def next_pool_id() -> tuple[int, int]:
    """A memory pool id that no graph or ``MemPool`` of this process has had; the two share one sequence on CUDA."""
    return 0, next(_pool_ids)


def _graph_pool_handle() -> tuple[int, int]:
    """A fresh memory pool id for graphs to share."""
    return next_pool_id()


def capture_unavailable() -> RuntimeError:
    """The error for starting a capture."""
    return RuntimeError(
        f"CUDA graph capture comes with a later version of torchdevice_cuda's {active().name!r} driver; run this code "
        "without a graph (call the captured function directly in place of graph.replay())"
    )


class _CUDAGraph(pybind.PybindObject):
    """A graph that nothing has been captured into."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Take the arguments of ``__init__``, as classes of C++ do; torch's subclass hands them on."""
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False) -> None:
        self._keeps = bool(keep_graph)

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Note a generator whose state a replay would advance; without a capture nothing ever advances it."""
        if not isinstance(generator, torch._C.Generator):
            raise TypeError(f"expected a torch.Generator, but got {type(generator).__name__}")

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Raises: first for CUDA's own reasons, then because capturing is not available."""
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        driver = active()
        if driver.streams.current(driver.current_device()) == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        raise capture_unavailable()

    def capture_end(self) -> None:
        """Raises: no capture is underway."""
        raise cuda_error(_ILLEGAL_STATE)

    def capture_end_pre(self) -> None:
        """The first part of it, where torch runs hooks in between: raises."""
        raise cuda_error(_ILLEGAL_STATE)

    def capture_end_post(self) -> None:
        """The other part: raises."""
        raise cuda_error(_ILLEGAL_STATE)

    def instantiate(self) -> None:
        """Raises: nothing was captured."""
        raise RuntimeError("capture_end() must have been called before calling instantiate")

    def replay(self) -> None:
        """Raises: nothing was captured."""
        raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")

    def reset(self) -> None:
        """Drop what was captured: nothing."""

    @property
    def _has_graph_exec(self) -> bool:
        """Whether there is something to replay."""
        return False

    def pool(self) -> tuple[int, int]:
        """Raises: nothing was captured."""
        raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")

    def pools(self) -> list[tuple[int, int]]:
        """Raises: nothing was captured."""
        raise RuntimeError("Called CUDAGraph::pools() without a preceding successful capture.")

    def _retain_pool(self, pool: tuple[int, int]) -> None:
        """Raises: a pool is kept for a capture that is underway."""
        raise RuntimeError("CUDAGraph::retain_pool may only be called during capture.")

    def enable_debug_mode(self) -> None:
        """Let ``debug_dump`` of every graph write."""
        global _debug_mode
        _debug_mode = True

    def debug_dump(self, debug_path: str) -> None:
        """Write nothing, since nothing was captured; warn as CUDA does."""
        if _debug_mode or self._keeps:
            warnings.warn("DEBUG: calling debug_dump()", stacklevel=2)
        else:
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", stacklevel=2)

    def raw_cuda_graph(self) -> int:
        """Raises: nothing was captured."""
        raise RuntimeError(no_raw_graph(torch.__version__, self._keeps))

    def raw_cuda_graph_exec(self) -> int:
        """Raises: nothing was captured."""
        raise RuntimeError("You cannot access the raw cudaGraphExec_t instance until instantiate() has been called")

    @staticmethod
    def get_currently_capturing_graph() -> _CUDAGraph:
        """Raises: no capture is underway."""
        raise RuntimeError("The current stream is not currently capturing.")

    def begin_capture_to_if_node(self, scalar_cuda_pred_tensor: torch.Tensor) -> None:
        """Raises: conditional nodes belong to a capture that is underway."""
        self.get_currently_capturing_graph()

    def begin_capture_to_while_node(self, scalar_cuda_pred_tensor: torch.Tensor) -> None:
        """Raises: conditional nodes belong to a capture that is underway."""
        self.get_currently_capturing_graph()

    def set_conditional_handle_for_current_node(self, scalar_cuda_pred_tensor: torch.Tensor) -> None:
        """Raises: conditional nodes belong to a capture that is underway."""
        raise RuntimeError("No active CUDA graph conditional node.")

    def end_capture_to_conditional_node(self) -> None:
        """Raises: conditional nodes belong to a capture that is underway."""
        self.get_currently_capturing_graph()


# How a green context shares the device's work queues with the others.
_WorkqueueScope = pybind.enum("torch._C", "_WorkqueueScope", {"device_ctx": 0, "balanced": 1})


def green_context_unavailable() -> RuntimeError:
    """The error for asking for a part of the GPU's multiprocessors."""
    return RuntimeError(
        f"Green contexts divide the multiprocessors of an NVIDIA GPU; the {active().name!r} driver of torchdevice_cuda "
        "has none to divide. Check torch.cuda.green_contexts.SUPPORTED first, and use streams in place of contexts"
    )


class _CUDAGreenContext(pybind.PybindObject):
    """A part of a GPU; there is none to take here."""

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}: No constructor defined!")

    @staticmethod
    def create(
        *,
        device_id: int | None = None,
        num_sms: int | None = None,
        workqueue_scope: str | None = None,
        workqueue_concurrency_limit: int | None = None,
    ) -> _CUDAGreenContext:
        """Raises, since there is none."""
        raise green_context_unavailable()

    @staticmethod
    def max_workqueue_concurrency(device_id: int | None = None) -> int:
        """Raises, since there is none."""
        raise green_context_unavailable()

    def set_context(self) -> None:
        """Raises, since there is none."""
        raise green_context_unavailable()

    def pop_context(self) -> None:
        """Raises, since there is none."""
        raise green_context_unavailable()

    def Stream(self) -> torch.cuda.Stream:
        """Raises, since there is none."""
        raise green_context_unavailable()


for _class in (_CUDAGraph, _CUDAGreenContext):
    _class.__module__ = "torch._C"
