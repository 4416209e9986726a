"""``CUDA_VISIBLE_DEVICES`` as the CUDA runtime reads it."""

from __future__ import annotations

from .facts import device_uuid

_UUID = "GPU-"


def visible_devices(count: int, text: str | None) -> list[int]:
    """Return the devices that a program sees, in its order.

    Unset means all. The list ends at the first entry that names no device; a device named twice hides them all.
    """
    if text is None:
        return list(range(count))
    seen: list[int] = []
    for entry in text.split(","):
        index = _index(entry.strip(), count)
        if index is None:
            break
        seen.append(index)
    return seen if len(set(seen)) == len(seen) else []


def _index(entry: str, count: int) -> int | None:
    """Return the device that a number or the beginning of a UUID names: ``nvidia-smi -L`` lists them."""
    if entry.startswith(_UUID):
        named = [index for index in range(count) if f"{_UUID}{device_uuid(index)}".startswith(entry)]
        return named[0] if len(named) == 1 else None
    return int(entry) if entry.isdigit() and int(entry) < count else None


def visible_count(count: int, text: str | None) -> int:
    """Return the number of devices that a program sees."""
    return len(visible_devices(count, text))
