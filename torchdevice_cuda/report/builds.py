"""The time that this process has spent on compiling the device, which a report names."""

from __future__ import annotations

from .tables import duration


class BuildTime:
    """Seconds in which parts of the device were compiled, by this process."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, since: float) -> str:
        """Return a note for a report that began when the time was ``since``; empty if nothing was compiled."""
        spent = self.seconds - since
        if not spent:
            return ""
        return f"{duration(spent)} of the time went into compiling the virtual GPU, once; the next run is shorter."


build_time = BuildTime()
