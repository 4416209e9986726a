"""Install the devices of the compiled module, once in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .unavailable import DevicesAlreadyInstalled

if TYPE_CHECKING:
    from ..native.interface import Native

#: The memory of each installed device, by device type.
_limits: dict[str, list[int]] = {}


def install(native: Native, what: str, limits: list[int]) -> None:
    """Install devices with this memory each; raise :class:`DevicesAlreadyInstalled` if the process has others.

    Registrations with torch's dispatcher cannot be undone, so a later activation gets the devices of the first one, or
    an error.
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
