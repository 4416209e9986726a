"""Rehearse a program for a GPU that is not here: predict its time (``--clock gpu``), compute little (``--rehearse``).

The compiled device keeps the time (``native/csrc/clock``) and leaves out what need not be computed
(``native/csrc/rehearsal``); what either needs in Python is imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..settings import SettingsError
from ..settings.variables import COUNT_KERNELS

if TYPE_CHECKING:
    from ..settings import Settings
    from . import prediction, unknown

    class Device(prediction.Device, unknown.Device, Protocol):
        """The functions of the compiled device that are used here."""


HOST, GPU = "host", "gpu"
OFF, ON, STRICT = "off", "on", "strict"
#: What ends the rehearsal.
_ends: list[Callable[[], object]] = []


def start(device: Device, settings: Settings, hidden: Sequence[str]) -> None:
    """Rehearse as the settings say, for an H200 if they name no GPU; ``hidden`` are prefixes of files of libraries."""
    if settings.clock == HOST and settings.rehearse == OFF:
        return
    if COUNT_KERNELS not in os.environ:
        os.environ[COUNT_KERNELS] = "on"
        _ends.append(lambda: os.environ.pop(COUNT_KERNELS, None))
    from ..settings import gpus
    from . import prediction

    # Captured calls go through the graphs' part, so it is first.
    device.load_part("graphs")
    if settings.rehearse != OFF:
        from . import unknown

        unknown.start(device, settings.rehearse == STRICT, hidden)
        _ends.append(device.stop_rehearsal)
    _ends.append(prediction.start(device, gpus.find("h200") if settings.profile is None else settings.profile))


def report_kernel(name: str) -> None:
    """Report a kernel that the rehearsal does not run."""
    from . import unknown

    unknown.report_kernel(name)


def is_timed() -> bool:
    """Return whether the clock is the GPU's, or that of a rehearsal."""
    return bool(_ends)


def describe_error() -> str:
    """Return what to expect of predicted times; nothing if times are not predicted."""
    if not is_timed():
        return ""
    from .accuracy import NOTE

    return NOTE


def name_rank(settings: Settings) -> None:
    """Set the variables by which programs learn their rank, as torchrun does; those that are set stay."""
    if settings.world is None:
        return
    if settings.rehearse == OFF:
        raise SettingsError("--world simulates ranks only in a rehearsal; add --rehearse")
    size, node = settings.world.size, settings.world.node
    rank = os.environ.get("RANK", "0")
    if not rank.isdecimal() or int(rank) >= size:
        raise SettingsError(f"RANK={rank!r} cannot be read; allowed with --world {size}: 0 to {size - 1}")
    local, group = int(rank) % node, int(rank) // node
    values = {
        "RANK": rank,
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(min(node, size - group * node)),
        "GROUP_RANK": str(group),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }
    added = [name for name in values if name not in os.environ]
    os.environ.update({name: values[name] for name in added})

    def forget() -> None:
        for name in added:
            os.environ.pop(name, None)

    _ends.append(forget)


def stop() -> None:
    """Compute everything and keep the host's time again."""
    while _ends:
        _ends.pop()()
