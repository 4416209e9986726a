"""Drivers implement the GPU. ``active()`` is the driver of this process while torchdevice_cuda is active."""

from __future__ import annotations

from .base import DeviceProperties, Driver
from .memory import Memory
from .traits import Trait

__all__ = ["DeviceProperties", "Driver", "Memory", "Trait", "active", "install", "installed"]

_active: Driver | None = None


def active() -> Driver:
    """Return the driver in use."""
    if _active is None:
        raise RuntimeError("torchdevice_cuda is not active in this process: call torchdevice_cuda.activate()")
    return _active


def installed() -> Driver | None:
    """Return the driver in use, or ``None``."""
    return _active


def install(driver: Driver | None) -> None:
    """Install a driver, or none."""
    global _active
    if _active is not None and driver is not _active:
        _active.withdraw()
    _active = driver
