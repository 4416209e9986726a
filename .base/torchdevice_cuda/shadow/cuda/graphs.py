"""CUDA graphs: work captured once and replayed many times.

Capturing is not available yet on the drivers of torchdevice_cuda; starting a capture raises and leaves the current
stream and device as they were. Everything before a capture answers as on CUDA.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, Union, overload

import torch
from torch import Tensor
from torch._C import _cuda_isCurrentStreamCapturing, _CUDAGraph, _graph_pool_handle
from typing_extensions import ParamSpec, Self, TypeVar

from torchdevice_cuda.shadow.bindings.graphs import capture_unavailable

from .._utils import _dummy_type

with contextlib.suppress(ImportError):  # torch before 2.13 has none
    from torch.cuda._utils import _check_cuda_bindings

if TYPE_CHECKING:
    from torch.cuda import _POOL_HANDLE

__all__ = [
    "is_current_stream_capturing",
    "graph_pool_handle",
    "CUDAGraph",
    "graph",
    "make_graphed_callables",
]

_R = TypeVar("_R")
_P = ParamSpec("_P")


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured on the current stream."""
    return _cuda_isCurrentStreamCapturing()


def graph_pool_handle() -> _POOL_HANDLE:
    """A token for a memory pool that several graphs are to share."""
    return torch.cuda._POOL_HANDLE(_graph_pool_handle())


class CUDAGraph(_CUDAGraph):
    """Captured work of the device.

    Args:
        keep_graph: keep the captured graph itself, for :meth:`raw_cuda_graph`, beside the one made to be replayed
    """

    def __new__(cls, keep_graph: bool = False) -> Self:
        """A graph without a capture."""
        return super().__new__(cls)

    def capture_begin(
        self,
        pool: _POOL_HANDLE | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Start capturing the current stream, which must not be the default one.

        Args:
            pool: a token of :func:`graph_pool_handle` or of another graph's :meth:`pool`, to share memory
            capture_error_mode: which unsafe calls are errors: those of any thread (``"global"``), of this one
                (``"thread_local"``), or none (``"relaxed"``)
            check_input_liveness: have :meth:`replay` refuse once an input of the capture is gone
        """
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)

    def capture_end(self) -> None:
        """End the capture of the current stream."""
        super().capture_end()

    def instantiate(self) -> None:
        """Make the captured graph ready to be replayed, again after changes to the raw one."""
        super().instantiate()

    def replay(self) -> None:
        """Run the captured work again."""
        super().replay()

    def reset(self) -> None:
        """Drop the captured work."""
        super().reset()

    def pool(self) -> _POOL_HANDLE:
        """A token for the memory pool of this graph."""
        return super().pool()

    def enable_debug_mode(self) -> None:
        """Let :meth:`debug_dump` write."""
        return super().enable_debug_mode()

    def debug_dump(self, debug_path: str) -> None:
        """Write the captured graph to a file in the format of Graphviz."""
        return super().debug_dump(debug_path)

    def raw_cuda_graph(self) -> int:
        """The address of the captured graph; for graphs made with ``keep_graph=True``."""
        return super().raw_cuda_graph()

    def raw_cuda_graph_exec(self) -> int:
        """The address of the graph that is replayed; after :meth:`instantiate`."""
        return super().raw_cuda_graph_exec()

    def get_graph_data(self) -> dict:
        """The nodes of the captured graph and how they depend on each other; reads it through ``cuda.bindings``."""
        self.raw_cuda_graph()
        raise RuntimeError("get_graph_data requires the cuda.bindings package")


class graph:
    """``with torch.cuda.graph(g):`` captures the work inside into ``g``.

    Args:
        cuda_graph: the :class:`CUDAGraph` to capture into
        pool: a token of :func:`graph_pool_handle` or of another graph's ``pool()``, to share memory
        stream: the stream to capture; by default one that all captures of the process share
        capture_error_mode: as for :meth:`CUDAGraph.capture_begin`
        enable_annotations: record annotations of kernels while capturing
        check_input_liveness: as for :meth:`CUDAGraph.capture_begin`
    """

    default_capture_stream: torch.cuda.Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: _POOL_HANDLE | None = None,
        stream: torch.cuda.Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ):
        kind = type(self)
        if stream is None and kind.default_capture_stream is None:
            # Made at first use: while this module is imported there are no streams yet.
            kind.default_capture_stream = torch.cuda.Stream()
        self.pool: tuple[()] | tuple[_POOL_HANDLE] = () if pool is None else (pool,)
        self.capture_stream = kind.default_capture_stream if stream is None else stream
        self.stream_ctx = torch.cuda.stream(self.capture_stream)
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode
        self._enable_annotations = enable_annotations
        self.check_input_liveness = check_input_liveness

    def __enter__(self) -> None:
        torch.cuda.synchronize()
        if self._enable_annotations:
            from torch.cuda._graph_annotations import enable_annotations

            enable_annotations()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(
                *self.pool,
                capture_error_mode=self.capture_error_mode,
                check_input_liveness=self.check_input_liveness,
            )
        except BaseException as error:
            # Python calls no __exit__ after a failed __enter__: the caller's stream is restored here.
            self.stream_ctx.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *args: object) -> None:
        if self._enable_annotations:
            from torch.cuda._graph_annotations import resolve_pending_annotations

            resolve_pending_annotations()
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*args)
        if self._enable_annotations:
            from torch.cuda._graph_annotations import remap_to_exec_graph

            remap_to_exec_graph(self.cuda_graph)


_ModuleOrCallable: TypeAlias = Union["torch.nn.Module", Callable[..., object]]


@overload
def make_graphed_callables(
    callables: _ModuleOrCallable,
    sample_args: tuple[Tensor, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _POOL_HANDLE | None = None,
) -> _ModuleOrCallable: ...


@overload
def make_graphed_callables(
    callables: tuple[_ModuleOrCallable, ...],
    sample_args: tuple[tuple[Tensor, ...], ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _POOL_HANDLE | None = None,
) -> tuple[_ModuleOrCallable, ...]: ...


def make_graphed_callables(
    callables: _ModuleOrCallable | tuple[_ModuleOrCallable, ...],
    sample_args: tuple[Tensor, ...] | tuple[tuple[Tensor, ...], ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _POOL_HANDLE | None = None,
) -> _ModuleOrCallable | tuple[_ModuleOrCallable, ...]:
    """Versions of functions or modules that replay graphs, forwards and backwards.

    Args:
        callables: one, or a tuple of them in the order in which they will run
        sample_args: the tensors to capture one with; a tuple of such tuples for a tuple of callables
        num_warmup_iters: runs before the capture
        allow_unused_input: accept inputs that do not reach the outputs
        pool: a token of :func:`graph_pool_handle` or of another graph's ``pool()``, to share memory
    """
    if torch.is_autocast_enabled() and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    several = isinstance(callables, tuple)
    pairs = zip(callables, sample_args, strict=False) if several else ((callables, sample_args),)
    for function, arguments in pairs:
        if isinstance(function, torch.nn.Module):
            _check_module(function)
        leaves = torch.utils._pytree.arg_tree_leaves(*arguments)
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise AssertionError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
            )
    raise capture_unavailable()


def _check_module(module: torch.nn.Module) -> None:
    """Refuse modules that no graph can stand for."""
    if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
        raise AssertionError(
            "Modules must not have hooks registered at the time they are passed. However, registering hooks on "
            "modules after passing them through make_graphed_callables is allowed."
        )
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise AssertionError(
            "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
            "trainable. All buffers must have ``requires_grad=False``."
        )
