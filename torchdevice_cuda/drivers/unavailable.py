"""Why a driver cannot be had."""

from __future__ import annotations


class DriverUnavailable(RuntimeError):
    """The driver that was asked for cannot work on this machine."""


class DevicesAlreadyInstalled(DriverUnavailable):
    """This process has devices already, others than those asked for; another driver in their place would be a surprise.

    What is registered with torch's dispatcher stays until the process ends, whatever ``deactivate()`` puts back.
    """

    def __init__(self, there: str, asked: str) -> None:
        super().__init__(
            f"this process has {there}, until it ends, and cannot have {asked}; start another process for that"
        )
