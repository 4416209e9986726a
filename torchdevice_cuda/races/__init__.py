"""Report races: accesses of a GPU's memory that no stream, event or wait orders (``--check-streams``).

The compiled device finds them (``native/csrc/races``); this package describes them and warns or raises. What describes
them is imported where they are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .modes import ERROR as ERROR
from .modes import OFF as OFF

if TYPE_CHECKING:
    from .checking import Device


def start(device: Device, mode: str, hidden: Sequence[str]) -> None:
    """Check the order of accesses from now on; ``hidden`` are prefixes of files that are not the program's."""
    from . import checking

    checking.start(device, mode, hidden)


def list_findings() -> list[dict[str, Any]]:
    """Return the findings so far, as fields of a report's."""
    found = sys.modules.get(f"{__name__}.checking")
    return found.list_findings() if found is not None else []


def stop() -> None:
    """Report no more findings."""
    if checking := sys.modules.get(f"{__name__}.checking"):
        checking.stop()
