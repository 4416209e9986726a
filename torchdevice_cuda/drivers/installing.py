"""Puts the devices of the compiled module in place, which happens once in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .unavailable import DevicesAlreadyInstalled

if TYPE_CHECKING:
    from ..native.interface import Native

#: The memory of each device that is there, by the kind of device.
_limits: dict[str, list[int]] = {}


def install(native: Native, what: str, limits: list[int]) -> None:
    """Have devices with so much memory each; :class:`DevicesAlreadyInstalled` where the process has others.

    What is registered with torch's dispatcher cannot be taken back, so a later activation gets what the first one got,
    or hears that it cannot get what it asks for.
    """
    there = _limits.get(native.device_type, [])
    if not there and limits:
        native.install(len(limits), limits)
        _limits[native.device_type] = limits
    elif limits != there:
        raise DevicesAlreadyInstalled(_shown(what, there), _shown(what, limits))


def _shown(what: str, limits: list[int]) -> str:
    size = f" of {limits[0]:,} bytes" if limits else ""
    return f"{len(limits)} {what}{'' if len(limits) == 1 else 's'}{size}"
