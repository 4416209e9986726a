"""Devices: count, current device, properties, initialization, synchronization."""

from __future__ import annotations

import uuid
import warnings
from typing import NoReturn

import torch
import torch._C

from ..._compat import cuda_version
from ...drivers import DeviceProperties, Driver, active
from ...drivers.streams import SYNCHRONIZES


def architectures(driver: Driver) -> list[str]:
    """Return ``["sm_70"]`` for a device of capability 7.0: programs choose kernels by this list and the capability."""
    found = {(driver.facts(index).major, driver.facts(index).minor) for index in range(driver.device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(found)]


__all__ = ["_CUuuid", "_CudaDeviceProperties", "_get_device_properties", "_has_cuda", "_rocm_is_backward_pass"]

_has_cuda = True
_sync_debug_mode = 0


class _CUuuid:
    """A device's UUID."""

    _uuid: uuid.UUID

    def __init__(self) -> None:
        raise TypeError("torch._C._CUuuid: No constructor defined!")

    @property
    def bytes(self) -> list[int]:
        """Return the sixteen bytes."""
        return list(self._uuid.bytes)

    def __str__(self) -> str:
        return str(self._uuid)


def _fact(name: str) -> property:
    def read(self: _CudaDeviceProperties) -> object:
        return getattr(self._facts, name)

    read.__name__ = ""  # as in pybind11: Python 3.13 and later show it when the property is set
    return property(read, doc=f"The device's ``{name}``.")


class _CudaDeviceProperties:
    """Device properties: read-only, one object per device."""

    # These properties, and those of all other fields, are defined below.
    name: str
    major: int
    minor: int
    _facts: DeviceProperties
    _uuid: _CUuuid

    def __init__(self) -> None:
        raise TypeError("torch._C._CudaDeviceProperties: No constructor defined!")

    @property
    def uuid(self) -> _CUuuid:
        """Return the device's UUID."""
        return self._uuid

    def __repr__(self) -> str:
        facts = self._facts
        return (
            f"_CudaDeviceProperties(name='{facts.name}', major={facts.major}, minor={facts.minor}, "
            f"total_memory={facts.total_memory >> 20}MB, multi_processor_count={facts.multi_processor_count}, "
            f"uuid={facts.uuid}, pci_bus_id={facts.pci_bus_id}, pci_device_id={facts.pci_device_id}, "
            f"pci_domain_id={facts.pci_domain_id}, L2_cache_size={facts.L2_cache_size >> 20}MB)"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle 'torch._C._CudaDeviceProperties' object")


for _name in (*DeviceProperties.__dataclass_fields__, "gcnArchName"):
    if _name != "uuid":
        setattr(_CudaDeviceProperties, _name, _fact(_name))
for _class in (_CUuuid, _CudaDeviceProperties):
    _class.__module__ = "torch._C"

_properties: dict[DeviceProperties, _CudaDeviceProperties] = {}


def _get_device_properties(device: int) -> _CudaDeviceProperties:
    """Return the properties of a device; the same object each time."""
    facts = active().facts(active().check(device))
    known = _properties.get(facts)
    if known is None:
        shown = object.__new__(_CUuuid)
        shown._uuid = facts.uuid
        made = object.__new__(_CudaDeviceProperties)
        made._facts, made._uuid = facts, shown
        known = _properties.setdefault(facts, made)
    return known


def _cuda_init() -> None:
    """Initialize the device, and set the generators of ``torch.cuda``."""
    driver = active()
    if driver.device_count() == 0:
        raise RuntimeError("No CUDA GPUs are available")
    driver.initialize()
    torch.cuda.default_generators = driver.generators()  # type: ignore[assignment]


def _cuda_isInBadFork() -> bool:
    """Return whether this process was forked from one that had used the device."""
    return active().in_bad_fork()


def _cuda_getDeviceCount() -> int:
    """Return the number of devices. CUDA initializes to count them: a process forked later cannot use them."""
    active().ask()
    return active().device_count()


def _whole(value: object, what: str) -> int:
    """Return an integer argument, as torch's C functions check theirs."""
    if type(value) is not int:
        raise RuntimeError(f"invalid argument to {what}")
    return value


def _cuda_getDevice() -> int:
    """Return the calling thread's current device."""
    return active().current_device()


def _cuda_setDevice(device: int) -> None:
    """Set the calling thread's current device."""
    active().set_device(_whole(device, "setDevice"))


def _cuda_exchangeDevice(device: int) -> int:
    """Set the current device and return the one before; -1 for a negative index, which changes nothing."""
    return active().exchange_device(_whole(device, "exchangeDevice"))


def _cuda_maybeExchangeDevice(device: int) -> int:
    """Set the current device without creating a context on an unused device; devices here need none."""
    return active().exchange_device(_whole(device, "maybeExchangeDevice"))


def _cuda_canDeviceAccessPeer(device: int, peer: int) -> bool:
    """Return whether one device reads another's memory directly."""
    return active().can_access_peer(device, peer)


def _cuda_hasPrimaryContext(device: int) -> bool:
    """Return whether a device is in use by this process."""
    driver = active()
    if not 0 <= device < driver.device_count():
        raise RuntimeError(f"hasPrimaryContext expects a valid device index, but got device_index={device}")
    return driver.has_context(device)


def _cuda_synchronize() -> None:
    """Wait for all work of the current device."""
    driver = active()
    driver.streams.synchronize_device(driver.current_device())


def _cuda_ipc_collect() -> None:
    """Free memory that was sent to other processes and is no longer held there."""
    native = active().native
    if native is not None:
        native.collect_sent()


def _cuda_sleep(cycles: int) -> None:
    """Keep the current stream busy for this many device cycles."""
    if type(cycles) is not int:
        raise RuntimeError("torch.cuda._sleep(): expected 'int'")
    driver = active()
    driver.streams.sleep(cycles, driver.current_device())


def _cuda_busy_wait_for_flag() -> NoReturn:
    """Raise: the host computes eagerly, and would wait forever for a later call (torch 2.10)."""
    raise RuntimeError(
        f"torch.cuda._busy_wait_for_flag() keeps a stream busy until torch.cuda._clear_flag() runs in another; the "
        f"{active().name!r} driver of torchdevice_cuda has no work that waits. torch.cuda._sleep() keeps a stream busy"
    )


def _cuda_clear_flag() -> None:
    """Do nothing: no stream waits for the flag."""


def _cuda_getArchFlags() -> str:
    """Return the architectures that code is built for: that of the device's reported capability."""
    return " ".join(architectures(active()))


def _cuda_getCompiledVersion() -> int:
    """Return the CUDA version as one number, 12080 for 12.8."""
    major, _, minor = (torch.version.cuda or cuda_version(torch.__version__)).partition(".")
    return int(major) * 1000 + int(minor) * 10


def _cuda_get_sync_debug_mode() -> int:
    """Return 0 (default), 1 (warn) or 2 (error)."""
    return _sync_debug_mode


def _cuda_set_sync_debug_mode(mode: int) -> None:
    """Set the mode, and make the device report operators that wait; not every driver's device can."""
    global _sync_debug_mode
    if type(mode) is not int:
        raise RuntimeError("invalid argument to set_sync_debug_mode")
    if mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    _sync_debug_mode = mode
    active().streams.watch_synchronization(mode)


def synchronizing() -> None:
    """Report a wait for a stream, if the program has enabled that."""
    if _sync_debug_mode == 2:
        raise RuntimeError(SYNCHRONIZES)
    if _sync_debug_mode == 1:
        warnings.warn(SYNCHRONIZES, stacklevel=3)


def _rocm_is_backward_pass() -> bool:
    """Return false: this is not ROCm."""
    return False
