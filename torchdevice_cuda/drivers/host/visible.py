"""``CUDA_VISIBLE_DEVICES`` as the CUDA runtime reads it."""

from __future__ import annotations


def visible_devices(count: int, text: str | None) -> list[int]:
    """The devices a program sees, in its order.

    Unset means all. The list ends at the first entry that names no device; a device named twice hides them all.
    """
    if text is None:
        return list(range(count))
    seen: list[int] = []
    for entry in text.split(","):
        entry = entry.strip()
        if not entry.isdigit() or int(entry) >= count:
            break
        seen.append(int(entry))
    return seen if len(set(seen)) == len(seen) else []


def visible_count(count: int, text: str | None) -> int:
    """How many devices a program sees."""
    return len(visible_devices(count, text))
