"""Allocators of device memory: the one in use, those of shared libraries, checkpoints, settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ..._compat import named
from ...drivers import active
from ...drivers.allocation import backend
from ...drivers.memory import PoolId
from .pybind import define

if TYPE_CHECKING:
    from ...native.interface import Native

__all__ = ["_CUDAPluggableAllocator"]


class _cuda_CUDAAllocator:
    """An allocator of device memory."""


class _CUDAPluggableAllocator(_cuda_CUDAAllocator):
    """An allocator with two functions of a shared library."""

    def __init__(self, alloc_address: int, free_address: int) -> None:
        self.functions = {"alloc_fn": alloc_address, "free_fn": free_address}


def _setter(name: str) -> Callable[[_CUDAPluggableAllocator, int], None]:
    """Return a method that takes the address of another function."""

    def setter(self: _CUDAPluggableAllocator, address: int) -> None:
        self.functions[name] = address

    setter.__name__, setter.__qualname__ = name, f"_CUDAPluggableAllocator.{name}"
    return setter


for _function in (
    "set_base_alloc_fn",
    "set_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn",
    "set_init_fn",
    "set_memory_fraction_fn",
    "set_record_stream_fn",
    "set_release_pool",
    "set_reset_fn",
):
    setattr(_CUDAPluggableAllocator, _function, _setter(_function))


class _cuda_CUDAAllocator_AllocatorState:
    """A checkpoint of a pool: its blocks, and which are allocated."""

    _kept: object

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}: No constructor defined!")


for _class in (_cuda_CUDAAllocator, _CUDAPluggableAllocator, _cuda_CUDAAllocator_AllocatorState):
    _class.__module__ = "torch._C"
_allocator = _cuda_CUDAAllocator()


def _cuda_changeCurrentAllocator(allocator: _cuda_CUDAAllocator) -> NoReturn:
    """Raise: CUDA's error once the device is in use; before that, the host's own allocator cannot be replaced."""
    if active().initialized():
        raise RuntimeError("Can't swap an already initialized allocator")
    raise not_replaced()


def not_replaced() -> RuntimeError:
    """Return the error for a request to allocate device memory with functions of the program."""
    return RuntimeError(
        f"the {active().name!r} driver of torchdevice_cuda takes device memory from the host's allocator, which a "
        "pluggable CUDA allocator cannot replace"
    )


def graph_memory(what: str) -> Native:
    """Return the interface to the memory of graphs, or raise if there are no pools."""
    driver = active()
    if driver.native is None or not driver.pools_graphs:
        raise RuntimeError(
            f"{what} manages memory of CUDA graph pools, and the {driver.name!r} driver of torchdevice_cuda has no "
            "such pools: its graphs hold their memory themselves; run with --driver virtual, or for torch.compile with "
            "any mode other than 'reduce-overhead'"
        )
    return driver.native


def _cuda_getCheckpointState(device: int, pool: PoolId) -> _cuda_CUDAAllocator_AllocatorState:
    """Return the current state of a pool."""
    state = object.__new__(_cuda_CUDAAllocator_AllocatorState)
    state._kept = graph_memory("_cuda_getCheckpointState").checkpoint_pool(device, *pool)
    return state


def _cuda_setCheckpointPoolState(
    device: int, state: _cuda_CUDAAllocator_AllocatorState, stale: Sequence[int], live: Sequence[int] = ()
) -> None:
    """Restore a pool's state, so that another graph can be recorded after those that existed then."""
    if not isinstance(state, _cuda_CUDAAllocator_AllocatorState):
        raise TypeError(f"expected a state of _cuda_getCheckpointState, but got {type(state).__name__}")
    graph_memory("_cuda_setCheckpointPoolState").restore_pool(state._kept, list(stale), list(live))


def _cuda_cudaCachingAllocator_set_allocator_settings(settings: str) -> None:
    """Set the allocator's options, under the name of torch 2.9 and older."""
    parse: Callable[[str], None] = named("torch._C._accelerator_setAllocatorSettings") or active().memory.configure
    parse(settings)


define(
    globals(),
    {
        "_cuda_getAllocator": lambda: _allocator,
        "_cuda_getAllocatorBackend": lambda: backend(),
        "_cuda_customAllocator": lambda allocate, free: _CUDAPluggableAllocator(allocate, free),
        # An address that represents the allocator of pinned memory.
        "_cuda_cudaHostAllocator": lambda: id(_allocator),
    },
)
