"""CUDA as the program sees it: stock's functions over the driver's ``torch._C``.

Defined here are functions that query NVIDIA's libraries, and those that a driver implements differently.
"""

import os
import sys
from typing import TYPE_CHECKING

import torch
import torch._C

from torchdevice_cuda.drivers import active
from torchdevice_cuda.settings.hidden import is_of
from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings.device import _get_device_properties

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda import _get_generator, _lazy_call, _lazy_init, _nvml_based_avail, _queued_calls
    from torch.cuda._utils import _get_device_index
    from torch.types import Device

has_magma: bool = True

# Stock's checks of the device against the code that torch was built for: a driver's devices run all code.
_queued_calls.clear()


# ---------------------------------------------------------------------- availability
def is_available() -> bool:
    """Return whether there is a device. Except with NVML, a process that is forked later cannot use it."""
    if is_of(sys._getframe(1).f_globals.get("__name__"), active().settings.hide_from):
        return False  # this library's choices for CUDA cannot run here
    if _nvml_based_avail() and torch.cuda._device_count_nvml() >= 0:
        return device_count() > 0
    return torch._C._cuda_getDeviceCount() > 0


def device_count() -> int:
    """Return how many devices there are."""
    return active().device_count()


def _check_bf16_tensor_supported(device: "Device") -> bool:
    """Return whether a device without bfloat16 computes in it, as the host does."""
    return active().emulates_bf16()


# ---------------------------------------------------------------------------- devices
def set_device(device: "Device") -> None:
    """Make a device the calling thread's current one; negative indices change nothing."""
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()  # CUDA's C++ does this
        torch._C._cuda_setDevice(index)


def synchronize(device: "Device" = None) -> None:
    """Wait for all work of a device."""
    _lazy_init()
    # A tensor on the device that replaces CUDA may report that device, at least to torch's own code.
    if isinstance(device, torch.device) and device.type == active().device_type:
        device = device.index
    with torch.cuda.device(device):
        return torch._C._cuda_synchronize()


# --------------------------------------------------------------------------- monitors
def _monitored(device: "Device") -> int:
    """Return the index of a device whose sensors are queried."""
    _lazy_init()
    return active().check(_get_device_index(device, optional=True))


def _get_nvml_device_index(device: "Device") -> int:
    """Return the index by which NVML would know a device."""
    return _monitored(device)


def _raw_device_count_nvml() -> int:
    """Return the number of devices, whatever ``CUDA_VISIBLE_DEVICES`` is."""
    return active().physical_count()


def _raw_device_uuid_nvml() -> list[str] | None:
    """Return the devices' UUIDs, as NVML reports them."""
    return active().physical_uuids()


if "device_memory_used" in globals():  # not in every release

    def device_memory_used(device: "Device" = None) -> int:
        """Return the bytes of a device in use by all processes of the user."""
        index = _monitored(device)
        users = active().users(index)
        users[os.getpid()] = active().memory.in_use(index)  # this process's own figure, published or not
        return sum(users.values())


def memory_usage(device: "Device" = None) -> int:
    """Return the percentage of the last sample period in which a device's memory was read or written."""
    return active().memory_utilization(_monitored(device))


def utilization(device: "Device" = None) -> int:
    """Return the percentage of the last sample period in which a device computed."""
    return active().utilization(_monitored(device))


def temperature(device: "Device" = None) -> int:
    """Return the temperature of a device in degrees Celsius."""
    return active().temperature(_monitored(device))


def power_draw(device: "Device" = None) -> int:
    """Return the power a device draws, in milliwatts."""
    return active().power_draw(_monitored(device))


def clock_rate(device: "Device" = None) -> int:
    """Return the clock of a device in MHz."""
    return active().clock_rate(_monitored(device))


# ----------------------------------------------------------------------- random offsets
def _set_rng_state_offset(offset: int, device: int | str | torch.device = "cuda") -> None:
    """Set the offset of a device's generator."""
    chosen = torch.cuda._get_device(device)
    _lazy_call(lambda: active().set_state_offset(_get_generator(chosen), offset))


def _get_rng_state_offset(device: int | str | torch.device = "cuda") -> int:
    """Return the offset of a device's generator."""
    _lazy_init()
    return active().state_offset(_get_generator(torch.cuda._get_device(device)))
