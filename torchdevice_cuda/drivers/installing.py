"""Install the devices of the compiled module, once in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .unavailable import DevicesAlreadyInstalled

if TYPE_CHECKING:
    from ..native.interface import Native

#: The memory of each installed device, by device type.
_limits: dict[str, list[int]] = {}
#: The types of devices that torch does not choose as its accelerator.
_unseen: set[str] = set()


def install(native: Native, what: str, limits: list[int], *, is_accelerator: bool = True) -> None:
    """Install devices with this memory each; raise :class:`DevicesAlreadyInstalled` if the process has others.

    Registrations with torch's dispatcher cannot be undone, so a later activation gets the devices of the first one, or
    an error. ``is_accelerator``: whether torch chooses them as its accelerator.
    """
    there = _limits.get(native.device_type, [])
    if not there and limits:
        native.install(len(limits), limits, is_accelerator)
        _limits[native.device_type] = limits
        if not is_accelerator:
            _unseen.add(native.device_type)
    elif limits != there or (limits and is_accelerator == (native.device_type in _unseen)):
        unseen = " for extensions" if native.device_type in _unseen else ""
        raise DevicesAlreadyInstalled(_shown(what, there) + unseen, _shown(what, limits))


def _shown(what: str, limits: list[int]) -> str:
    size = f" of {limits[0]:,} bytes" if limits else ""
    return f"{len(limits)} {what}{'' if len(limits) == 1 else 's'}{size}"
