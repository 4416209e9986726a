"""The functions of NVIDIA's management library, for Python programs that call them through ctypes.

``pynvml`` loads ``libnvidia-ml.so.1`` and calls its functions by name, with its own structures. This object replaces
the loaded library: structures are filled by the names of their fields, so every release of the bindings is served.
Figures that a host does not have are ``NVML_ERROR_NOT_SUPPORTED``, as on a GPU without the sensor.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

from ...settings import Settings
from . import inventory
from .inventory import Gpu

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED = 0, 1, 2, 3
NOT_FOUND, INSUFFICIENT_SIZE = 6, 7
_ERRORS = {
    SUCCESS: "The operation was successful",
    UNINITIALIZED: "Uninitialized",
    INVALID_ARGUMENT: "Invalid Argument",
    NOT_SUPPORTED: "Not Supported",
    4: "Insufficient Permissions",
    NOT_FOUND: "Not Found",
    INSUFFICIENT_SIZE: "Insufficient Size",
    9: "Driver Not Loaded",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    999: "Unknown Error",
}
#: NVML's numbers of architectures, by the first capability of each.
_ARCHITECTURES = (
    ((12, 0), 10),
    ((10, 0), 10),
    ((9, 0), 9),
    ((8, 9), 8),
    ((8, 0), 7),
    ((7, 5), 6),
    ((7, 0), 5),
    ((6, 0), 4),
)
#: Clocks by NVML's numbers: graphics, multiprocessors, memory, video.
_CLOCKS = {0: "clock_mhz", 1: "clock_mhz", 2: "memory_clock_mhz", 3: "clock_mhz"}
_NONE = 0xFFFFFFFF  # no instance of a divided GPU


#: Functions that return the same as another. Compute mode is shared, persistence mode is off, there is no display.
_ALIKE = {
    "nvmlDeviceGetMinorNumber": "nvmlDeviceGetIndex",
    "nvmlDeviceGetClockInfo": "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetComputeMode": "zero",
    "nvmlDeviceGetPersistenceMode": "zero",
    "nvmlDeviceGetDisplayMode": "zero",
    "nvmlDeviceGetDisplayActive": "zero",
    "nvmlDeviceGetBrand": "zero",
    "nvmlDeviceGetGraphicsRunningProcesses": "nobody",
    "nvmlDeviceGetMPSComputeRunningProcesses": "nobody",
}


class Failure(Exception):
    """A function fails with one of NVML's codes."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Function:
    """One function of the library; ctypes' attributes (``restype``, ``argtypes``) may be set on it."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.__name__ = name
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        """Return a code of NVML, or a text if the function returns one."""
        try:
            result = self._call(*arguments)
        except Failure as failure:
            return failure.code
        return SUCCESS if result is None else result


class Library:
    """Replaces the loaded library."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._users = 0
        self._functions: dict[str, Function] = {}

    def __getattr__(self, name: str) -> Function:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        plain = name.partition("_v")[0]
        found = getattr(type(self), f"_{_ALIKE.get(plain, plain)}", None)
        call = (lambda *arguments: found(self, *arguments)) if found is not None else self._unsupported
        self._functions[name] = Function(name, call)
        self.__dict__[name] = self._functions[name]
        return self._functions[name]

    # ------------------------------------------------------------------ the library
    def _unsupported(self, *arguments: Any) -> int:
        return NOT_SUPPORTED if self._users else UNINITIALIZED

    def _nvmlInit(self) -> None:
        self._users += 1

    def _nvmlInitWithFlags(self, flags: Any) -> None:
        self._users += 1

    def _nvmlShutdown(self) -> None:
        self._check()
        self._users -= 1

    def _nvmlErrorString(self, code: Any) -> bytes:
        return _ERRORS.get(_number(code), "Unknown Error").encode()

    def _nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> None:
        self._check()
        _write(buffer, size, inventory.driver_version())

    def _nvmlSystemGetNVMLVersion(self, buffer: Any, size: Any) -> None:
        self._check()
        _write(buffer, size, f"{inventory.cuda_version().split('.')[0]}.{inventory.driver_version()}")

    def _nvmlSystemGetCudaDriverVersion(self, version: Any) -> None:
        self._check()
        major, minor = (int(part) for part in inventory.cuda_version().split(".")[:2])
        _of(version).value = major * 1000 + minor * 10

    def _nvmlSystemGetProcessName(self, pid: Any, buffer: Any, size: Any) -> None:
        self._check()
        names = {user.pid: user.name for gpu in self._gpus() for user in gpu.users}
        if _number(pid) not in names:
            raise Failure(NOT_FOUND)
        _write(buffer, size, names[_number(pid)][: _number(size) - 1])

    # ---------------------------------------------------------------------- handles
    def _check(self) -> None:
        if not self._users:
            raise Failure(UNINITIALIZED)

    def _gpus(self, with_load: bool = False) -> list[Gpu]:
        self._check()
        return inventory.now(self._settings, with_load)

    def _gpu(self, handle: Any, with_load: bool = False) -> Gpu:
        gpus = self._gpus(with_load)
        index = _address(handle) - 1
        if not 0 <= index < len(gpus):
            raise Failure(INVALID_ARGUMENT)
        return gpus[index]

    def _nvmlDeviceGetCount(self, count: Any) -> None:
        _of(count).value = len(self._gpus())

    def _nvmlDeviceGetHandleByIndex(self, index: Any, handle: Any) -> None:
        if not 0 <= _number(index) < len(self._gpus()):
            raise Failure(INVALID_ARGUMENT)
        _point(handle, _number(index) + 1)

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> None:
        self._by(lambda gpu: gpu.device.uuid, uuid, handle)

    def _nvmlDeviceGetHandleByPciBusId(self, bus_id: Any, handle: Any) -> None:
        wanted = _text(bus_id).upper()
        domain, _, rest = wanted.partition(":")
        self._by(lambda gpu: gpu.bus_id, f"{domain:0>8}:{rest}", handle)

    def _by(self, named: Callable[[Gpu], str], wanted: Any, handle: Any) -> None:
        for position, gpu in enumerate(self._gpus()):
            if named(gpu) == _text(wanted):
                _point(handle, position + 1)
                return
        raise Failure(NOT_FOUND)

    # ------------------------------------------------------------------------ facts
    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> None:
        _write(buffer, size, self._gpu(handle).device.name)

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> None:
        _write(buffer, size, self._gpu(handle).device.uuid)

    def _nvmlDeviceGetIndex(self, handle: Any, index: Any) -> None:
        _of(index).value = self._gpu(handle).device.index

    def _nvmlDeviceGetPciInfo(self, handle: Any, info: Any) -> None:
        gpu = self._gpu(handle)
        bus_id = gpu.bus_id.encode()
        _fill(info, busId=bus_id, busIdLegacy=bus_id[4:], domain=0, bus=gpu.device.bus, device=0, pciDeviceId=0)

    def _nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> None:
        _of(major).value, _of(minor).value = self._gpu(handle).device.capability

    def _nvmlDeviceGetArchitecture(self, handle: Any, architecture: Any) -> None:
        capability = self._gpu(handle).device.capability
        _of(architecture).value = next((number for first, number in _ARCHITECTURES if capability >= first), _NONE)

    def _nvmlDeviceGetMemoryBusWidth(self, handle: Any, width: Any) -> None:
        _of(width).value = self._gpu(handle).device.bus_bits

    def _nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: Any, clock: Any) -> None:
        value = getattr(self._gpu(handle).device, _CLOCKS.get(_number(kind), ""), 0)
        if not value:
            raise Failure(NOT_SUPPORTED)
        _of(clock).value = value

    def _zero(self, handle: Any, value: Any) -> None:
        self._gpu(handle)
        _of(value).value = 0

    # --------------------------------------------------------------------- readings
    def _nvmlDeviceGetMemoryInfo(self, handle: Any, info: Any) -> None:
        gpu = self._gpu(handle)
        _fill(info, total=gpu.device.memory, used=gpu.used, free=gpu.free, reserved=0)

    def _nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> None:
        busy = self._gpu(handle, with_load=True).busy
        _fill(rates, gpu=busy, memory=busy)

    def _nvmlDeviceGetTemperature(self, handle: Any, sensor: Any, temperature: Any) -> None:
        _of(temperature).value = _sensed(self._gpu(handle))

    def _nvmlDeviceGetTemperatureV(self, handle: Any, info: Any) -> None:
        _fill(info, temperature=_sensed(self._gpu(handle)))

    def _nvmlDeviceGetComputeRunningProcesses(self, handle: Any, count: Any, infos: Any) -> None:
        users = self._gpu(handle).users
        _room(count, len(users), infos)
        for info, user in zip(infos or (), users, strict=False):
            _fill(info, pid=user.pid, usedGpuMemory=user.held, gpuInstanceId=_NONE, computeInstanceId=_NONE)

    def _nobody(self, handle: Any, count: Any, infos: Any) -> None:
        self._gpu(handle)
        _of(count).value = 0

    def _nvmlDeviceGetProcessUtilization(self, handle: Any, samples: Any, count: Any, since: Any) -> None:
        users = self._gpu(handle, with_load=True).users
        if not users:
            raise Failure(NOT_FOUND)
        _room(count, len(users), samples)
        for sample, user in zip(samples or (), users, strict=False):
            _fill(
                sample,
                pid=user.pid,
                timeStamp=time.time_ns() // 1000,
                smUtil=user.busy,
                memUtil=user.busy,
                encUtil=0,
                decUtil=0,
            )

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> None:
        self._gpu(handle)
        for position in range(_number(count)):
            values[position].nvmlReturn = NOT_SUPPORTED


# ------------------------------------------------------------------------ ctypes
def _of(argument: Any) -> Any:
    """Return the object that an argument refers to: programs pass ``byref(x)``, ``pointer(x)`` or an array."""
    if hasattr(argument, "_obj"):
        return argument._obj
    return argument.contents if hasattr(argument, "contents") else argument


def _number(argument: Any) -> int:
    return int(getattr(argument, "value", argument))


def _text(argument: Any) -> str:
    value = getattr(argument, "value", argument)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _write(buffer: Any, size: Any, text: str) -> None:
    data = text.encode()
    if len(data) >= _number(size):
        raise Failure(INSUFFICIENT_SIZE)
    _of(buffer).value = data


def _fill(argument: Any, **values: Any) -> None:
    """Set the fields that the structure has: later versions have more."""
    target = _of(argument)
    names = {field[0] for field in target._fields_}
    for name, value in values.items():
        if name in names:
            setattr(target, name, value)


def _room(count: Any, needed: int, places: Any) -> None:
    had = _of(count).value
    _of(count).value = needed
    if needed and (places is None or had < needed):
        raise Failure(INSUFFICIENT_SIZE)


def _point(handle: Any, address: int) -> None:
    ctypes.c_void_p.from_buffer(_of(handle)).value = address


def _address(handle: Any) -> int:
    if isinstance(handle, int):
        return handle
    target = handle._obj if hasattr(handle, "_obj") else handle
    try:
        return ctypes.c_void_p.from_buffer(target).value or 0
    except (TypeError, ValueError):
        raise Failure(INVALID_ARGUMENT) from None


def _sensed(gpu: Gpu) -> int:
    if gpu.temperature is None:
        raise Failure(NOT_SUPPORTED)
    return gpu.temperature


def is_nvml(name: object) -> bool:
    """Return whether programs load the library by this name."""
    return isinstance(name, (str, bytes, os.PathLike)) and os.path.basename(os.fsdecode(name)).startswith(
        ("libnvidia-ml.", "nvml.dll")
    )
