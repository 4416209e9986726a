"""Green contexts: work on a part of a GPU's multiprocessors, in separate streams.

A program sees which stream is current, and the order of work; both are as on CUDA. The size of a context would only
affect times, and nothing is divided here.
"""

from __future__ import annotations

import operator
import threading
from typing import Any

import torch
import torch._C

from ..._compat import (
    PARTS_OF_A_GPU_BY_NAME,
    PARTS_OF_A_GPU_IN_ORDER,
    green_context_stream_count,
    green_context_takes_keywords,
)
from ...drivers import active
from . import pybind

__all__ = ["_CUDAGreenContext", "_WorkqueueScope"]

_SCOPES = {"device_ctx": 0, "balanced": 1}
# How a green context shares the device's work queues with others.
_WorkqueueScope = pybind.enum("torch._C", "_WorkqueueScope", _SCOPES)
_UNSIGNED = 1 << 32
_NOT_POPPED = (
    'popped == context_ INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/cuda/CUDAGreenContext.cpp":194, please '
    "report a bug to PyTorch. expected popped context to be the current ctx"
)


class _Thread(threading.local):
    """A thread's stack of current contexts, and the device that was current before."""

    def __init__(self) -> None:
        self.contexts: list[tuple[_CUDAGreenContext, int]] = []


_thread = _Thread()


def green_context_unavailable() -> RuntimeError:
    """Return the error for requesting one if torch creates it without its own bindings."""
    return RuntimeError(
        "Green contexts divide the multiprocessors of an NVIDIA GPU: from torch 2.14 on they are made by NVIDIA's own "
        f"library, and the {active().name!r} driver of torchdevice_cuda has none. Use streams in place of contexts"
    )


def _unsigned(value: Any) -> bool:
    try:
        return 0 <= operator.index(value) < _UNSIGNED
    except TypeError:
        return False


def _no_queues(words: str) -> RuntimeError:
    return RuntimeError(f"{words} requires CUDA 13.1+!")


class _CUDAGreenContext(pybind.PybindObject):
    """A part of a GPU, and the streams that use it."""

    __device: int
    __parent: int
    __streams: list[object]
    __asked: int

    def __init__(self) -> None:
        name = "torch._C._CUDAGreenContext" if type(self) is _CUDAGreenContext else type(self).__name__
        raise TypeError(f"{name}: No constructor defined!")

    @staticmethod
    def create(*given: Any, **named: Any) -> _CUDAGreenContext:
        """Create a context with this many multiprocessors of a device."""
        by_name = green_context_takes_keywords(torch.__version__)
        accepts, names = PARTS_OF_A_GPU_BY_NAME if by_name else PARTS_OF_A_GPU_IN_ORDER
        right = not given and named.keys() <= set(names)
        if not by_name:
            right = len(given) == len(names) and not named and given[0] is not None
            named = dict(zip(names, given, strict=False))
        scope = named.pop("workqueue_scope", None)
        numbers = [value for value in named.values() if value is not None]
        right = right and all(map(_unsigned, numbers)) and (scope is None or isinstance(scope, str))
        pybind.check(right, "create", accepts, *(given or named.values()))
        if scope is not None and scope not in _SCOPES:
            raise ValueError(f"workqueue_scope must be 'device_ctx' or 'balanced', got '{scope}'")
        size, limit = named.get("num_sms"), named.get("workqueue_concurrency_limit")
        if size is None and scope is None:
            raise RuntimeError("At least one of num_sms or workqueue_scope must be specified")
        if limit is not None and scope is None:
            raise RuntimeError("workqueue_concurrency_limit requires workqueue_scope to be set")
        return _CUDAGreenContext.__made(named.get("device_id"), size, scope)

    @staticmethod
    def __made(device: int | None, size: int | None, scope: str | None) -> _CUDAGreenContext:
        driver = active()
        device = driver.current_device() if device is None else device
        if device >= driver.device_count():
            raise RuntimeError("CUDA driver error: invalid device ordinal")
        whole = driver.facts(device).multi_processor_count
        if size is not None and not 0 < size <= whole:
            raise RuntimeError(f"Invalid number of SMs requested for green context: {size} (device has {whole} SMs)")
        if scope is not None:
            raise _no_queues("Workqueue configuration for green contexts")
        self = object.__new__(_CUDAGreenContext)
        self.__device, self.__parent, self.__streams, self.__asked = device, 0, [], 0
        return self

    @staticmethod
    def max_workqueue_concurrency(device_id: int | None = None) -> int:
        """Raise: work queues are configured from CUDA 13.1 on, and no release of torch with these names has it."""
        raise _no_queues("Workqueue configuration")

    def set_context(self) -> None:
        """Make it the calling thread's current context: its default stream continues after the current stream."""
        driver = active()
        before = driver.current_device()
        streams = driver.streams
        stream = streams.current(before)
        self.__parent = streams.state(stream, before).handle
        event = streams.event(False)
        streams.record(event, stream, before)
        _thread.contexts.append((self, before))
        driver.set_device(self.__device)
        streams.wait(event, 0, self.__device)
        streams.set_current(0, self.__device)

    def pop_context(self) -> None:
        """Return to the stream that was current before, which continues after this one."""
        driver = active()
        streams, device = driver.streams, driver.current_device()
        event = streams.event(False)
        streams.record(event, streams.current(device), device)
        popped, before = _thread.contexts.pop() if _thread.contexts else (None, device)
        if popped is not self:
            raise RuntimeError(_NOT_POPPED)
        driver.set_device(before)
        # As on CUDA the stream returns by its handle: it has the same work, but is not equal to the original object.
        parent = streams.external(self.__device, self.__parent) if self.__parent else 0
        streams.wait(event, parent, self.__device)
        streams.set_current(parent, self.__device)

    def Stream(self) -> torch.cuda.Stream:
        """Return the next of its streams."""
        size = green_context_stream_count(torch.__version__)
        place = self.__asked % size
        self.__asked += 1
        if place == len(self.__streams):
            self.__streams.append(object())  # its address is a unique handle
        return torch.cuda.ExternalStream(id(self.__streams[place]), torch.device("cuda", self.__device))


_CUDAGreenContext.__module__ = "torch._C"
