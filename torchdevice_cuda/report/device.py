"""What a report asks of the compiled device."""

from __future__ import annotations

from typing import Any, Protocol


class Device(Protocol):
    """The counting functions of the compiled device."""

    def start_counting(self, hidden: list[str]) -> None:
        """Start counting; files with these prefixes are not the program's."""

    def stop_counting(self) -> None:
        """Stop counting."""

    def is_counted(self) -> bool:
        """Return whether the device counts."""

    def read_counts(self, clear: bool = False) -> dict[str, Any]:
        """Return rows, memory, and the lines that they name by number; reset the counts if requested."""
