"""The ranks of a rehearsal, and the network between them (``--world``)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from .variables import ValueHint, suggest

ALLOWED = (
    "a number of ranks such as 1024, which node=8 (GPUs of a node), link=450 and network=50 (GB/s of a GPU in one "
    "direction, within a node and between nodes) may follow, separated by commas"
)
_MOST = 1 << 20


@dataclasses.dataclass(frozen=True)
class World:
    """One rank runs; the others are simulated."""

    size: int
    #: GPUs of a node
    node: int = 8
    #: bytes per nanosecond that a GPU sends within its node, and to others; ``None``: those of the GPU's profile
    link: float | None = None
    network: float | None = None


def _read_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= _MOST:
        raise ValueError(text)
    return int(text)


def _read_rate(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or not float(text):
        raise ValueError(text)
    return float(text)


_KEYS: Mapping[str, Callable[[str], int | float]] = {"node": _read_count, "link": _read_rate, "network": _read_rate}


def read(text: str) -> World:
    """Read the ranks and the network."""
    count, *rest = (word.strip() for word in text.split(","))
    values: dict[str, int | float] = {"size": _read_count(count)}
    for word in rest:
        key, _, value = (part.strip() for part in word.partition("="))
        if key not in _KEYS:
            raise ValueHint(f"there is no key {key!r}{suggest(key, _KEYS) or '; known: ' + ', '.join(_KEYS)}")
        values[key] = _KEYS[key](value)
    return World(**values)  # type: ignore[arg-type]  # the readers return what the fields hold


def write(world: World) -> str:
    """Write the ranks and the network."""
    given = ((key, getattr(world, key)) for key in _KEYS)
    default = World(world.size)
    return ",".join([str(world.size), *(f"{key}={v}" for key, v in given if v != getattr(default, key))])
