"""``torch._C._cudart``: the functions of the CUDA runtime that torch exposes to programs."""

from __future__ import annotations

import ctypes
import itertools
import threading

from ...drivers import active
from ...drivers.errors import error_text
from . import pybind

__all__ = ["_cudart"]

_INVALID_VALUE, _INVALID_HANDLE = 1, 400
_ALREADY_REGISTERED, _NOT_REGISTERED = 712, 713

cudaError = pybind.enum("torch._C._cudart", "cudaError", {"success": 0})  # noqa: N816 (CUDA's own name)
_SUCCESS = cudaError.__members__["success"]

_lock = threading.Lock()
# Created streams are numbered apart from the driver's own, so that a handle never means two streams.
_handles = itertools.count(0x5E_0000_1000, 0x40)
_streams: set[int] = set()


def cudaGetErrorString(error: pybind.PybindEnum) -> str:
    """Return the text of an error code."""
    accepts = "(arg0: torch._C._cudart.cudaError) -> str"
    pybind.check(isinstance(error, cudaError), "cudaGetErrorString", accepts, error)
    return error_text(int(error))


def cudaProfilerStart() -> pybind.PybindEnum:
    """Let a profiler start collecting; without a profiler that is no error, as on CUDA."""
    active().trace(True)
    return _SUCCESS


def cudaProfilerStop() -> pybind.PybindEnum:
    """Let a profiler stop collecting."""
    active().trace(False)
    return _SUCCESS


def cudaHostRegister(ptr: int, size: int, flags: int) -> pybind.PybindEnum:
    """Record a range of host memory as page-locked; overlapping a registered range is an error, as on CUDA."""
    arguments = (ptr, size, flags)
    accepts = "(arg0: typing.SupportsInt, arg1: typing.SupportsInt, arg2: typing.SupportsInt) -> cudaError"
    pybind.check(all(isinstance(value, int) for value in arguments), "cudaHostRegister", accepts, *arguments)
    if ptr <= 0 or size <= 0 or flags & ~0xF:
        return cudaError(_INVALID_VALUE)
    with _lock:
        if any(
            ptr < start + length and start < ptr + size for start, length in active().registered_host_memory.items()
        ):
            return cudaError(_ALREADY_REGISTERED)
        active().register_host_memory(ptr, size)
    return _SUCCESS


def cudaHostUnregister(ptr: int) -> pybind.PybindEnum:
    """Remove a range, given by its first address."""
    pybind.check(isinstance(ptr, int), "cudaHostUnregister", "(arg0: typing.SupportsInt) -> cudaError", ptr)
    if ptr <= 0:
        return cudaError(_INVALID_VALUE)
    with _lock:
        return _SUCCESS if active().unregister_host_memory(ptr) else cudaError(_NOT_REGISTERED)


def cudaStreamCreate(ptr: int) -> pybind.PybindEnum:
    """Create a stream of the current device and write its handle to the address."""
    pybind.check(isinstance(ptr, int), "cudaStreamCreate", "(arg0: typing.SupportsInt) -> cudaError", ptr)
    if ptr <= 0:
        return cudaError(_INVALID_VALUE)
    driver = active()
    with _lock:
        handle = next(_handles)
        _streams.add(handle)
    driver.streams.external(driver.current_device(), handle)
    ctypes.c_void_p.from_address(ptr).value = handle
    return _SUCCESS


def cudaStreamDestroy(ptr: int) -> pybind.PybindEnum:
    """Destroy a stream of ``cudaStreamCreate``."""
    pybind.check(isinstance(ptr, int), "cudaStreamDestroy", "(arg0: typing.SupportsInt) -> cudaError", ptr)
    with _lock:
        if ptr not in _streams:
            return cudaError(_INVALID_HANDLE)
        _streams.remove(ptr)
    return _SUCCESS


def cudaMemGetInfo(device: int) -> tuple[int, int]:
    """Return ``(free, total)`` bytes of a device; a negative index means the current one."""
    accepts = "(arg0: typing.SupportsInt) -> tuple[int, int]"
    pybind.check(isinstance(device, int), "cudaMemGetInfo", accepts, device)
    driver = active()
    index = driver.current_device() if device < 0 else driver.check(int(device))
    driver.use(index)
    return driver.memory.info(index)


_cudart = pybind.submodule(
    "torch._C._cudart",
    "libcudart.so bindings, answered by the driver of torchdevice_cuda",
    {
        "cudaError": cudaError,
        **pybind.public(
            cudaGetErrorString,
            cudaProfilerStart,
            cudaProfilerStop,
            cudaHostRegister,
            cudaHostUnregister,
            cudaStreamCreate,
            cudaStreamDestroy,
            cudaMemGetInfo,
        ),
    },
)
