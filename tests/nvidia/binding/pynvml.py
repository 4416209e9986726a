"""Calls NVIDIA's library as its bindings for Python do: ``nvidia-ml-py`` itself is run by the slow tests."""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_uint, c_ulonglong, create_string_buffer

nvmlLib = None  # noqa: N816 (its own names)
_nvmlLib_refcount = 0  # noqa: N816
_nvmlGetFunctionPointer_cache: dict[str, object] = {}  # noqa: N816


class _Device(Structure):
    pass


class Memory(Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class Rates(Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class Process(Structure):
    _fields_ = [
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    ]


def load() -> CDLL:
    global nvmlLib
    nvmlLib = nvmlLib or CDLL("libnvidia-ml.so.1")
    return nvmlLib


def handle(index: int):
    found = POINTER(_Device)()
    return load().nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(found)), found


def text(function: str, *arguments: object) -> tuple[int, str]:
    buffer = create_string_buffer(96)
    return getattr(load(), function)(*arguments, buffer, c_uint(96)), buffer.value.decode()


def filled(function: str, kind: type, *arguments: object):
    made = kind()
    return getattr(load(), function)(*arguments, byref(made)), made


def processes(device: object) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the code when there is no room, that when there is, and what was found."""
    count = c_uint(0)
    function = load().nvmlDeviceGetComputeRunningProcesses_v3
    short = function(device, byref(count), None)
    places = (Process * max(1, count.value))()
    code = function(device, byref(count), places)
    return short, code, [(each.pid, each.usedGpuMemory) for each in places[: count.value]]


def error(code: int) -> str:
    function = load().nvmlErrorString
    function.restype = c_char_p
    return function(code).decode()
