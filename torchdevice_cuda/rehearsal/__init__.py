"""Rehearse a program for a GPU that is not here: predict the time that it would need (``--clock gpu``).

The compiled device keeps the time (``native/csrc/clock``); the model of times is imported where the clock runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .prediction import Device

HOST, GPU = "host", "gpu"
#: The device whose clock runs.
_devices: list[Device] = []


def start(device: Device, gpu: str | None) -> None:
    """Let the device keep the time of the GPU of this profile; without one, of an H200, whose times are recorded."""
    from ..settings import gpus
    from . import prediction

    prediction.start(device, gpus.find(gpu or "h200"))
    _devices.append(device)


def stop() -> None:
    """Keep the host's time again."""
    while _devices:
        _devices.pop().stop_clock()
