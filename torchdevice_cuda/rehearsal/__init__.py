"""Rehearse a program for a GPU that is not here: predict its time (``--clock gpu``), compute little (``--rehearse``).

The compiled device keeps the time (``native/csrc/clock``) and leaves out what need not be computed
(``native/csrc/rehearsal``); what either needs in Python is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..settings import Settings
    from . import prediction, unknown

    class Device(prediction.Device, unknown.Device, Protocol):
        """The functions of the compiled device that are used here."""


HOST, GPU = "host", "gpu"
OFF, ON, STRICT = "off", "on", "strict"
#: What ends the rehearsal.
_ends: list[Callable[[], None]] = []


def start(device: Device, settings: Settings, hidden: Sequence[str]) -> None:
    """Rehearse as the settings say, for an H200 if they name no GPU; ``hidden`` are prefixes of files of libraries."""
    if settings.clock == HOST and settings.rehearse == OFF:
        return
    from ..settings import gpus
    from . import prediction

    # Captured calls go through the graphs' part, so it is first.
    device.load_part("graphs")
    if settings.rehearse != OFF:
        from . import unknown

        unknown.start(device, settings.rehearse == STRICT, hidden)
        _ends.append(device.stop_rehearsal)
    prediction.start(device, gpus.find("h200") if settings.profile is None else settings.profile)
    _ends.append(device.stop_clock)


def stop() -> None:
    """Compute everything and keep the host's time again."""
    while _ends:
        _ends.pop()()
