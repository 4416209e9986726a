"""Errors of drivers that are not available."""

from __future__ import annotations


class DriverUnavailable(RuntimeError):
    """The requested driver cannot work on this machine."""


class DevicesAlreadyInstalled(DriverUnavailable):
    """This process already has other devices than those requested.

    Registrations with torch's dispatcher stay until the process ends, whatever ``deactivate()`` restores, and silently
    using another driver instead would be a surprise.
    """

    def __init__(self, there: str, asked: str) -> None:
        super().__init__(
            f"this process has {there}, until it ends, and cannot have {asked}; start another process for that"
        )
