"""Progress and remaining time of a build: a bar on a terminal, occasional lines elsewhere.

The estimate is each unit's measured time, multiplied by how much slower this machine is. That is known from finished
units, and from those that run longer than expected; before there are any, from the last build on this machine. So it is
rough at first, grows if a unit takes longer than expected, and says "about".
"""

from __future__ import annotations

import heapq
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TextIO

#: The linker's share, in the units' seconds.
_LINKING_S = 1.0
#: Seconds without output after which a line reports that the build continues.
_SILENCE_S = 15.0
#: A unit that is overdue needs this part of its delay again, and at least this many seconds.
_OVERDUE, _REST_S = 0.5, 1.0
_BAR = 24


class Estimate:
    """Units that run `jobs` at a time, each with a weight in seconds."""

    def __init__(self, weights: Mapping[str, float], jobs: int, pace: float, clock: Callable[[], float]) -> None:
        self._weights, self._jobs, self._before, self._clock = weights, jobs, pace, clock
        self._waiting = sorted(weights, key=lambda name: -weights[name])
        self._running: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def began(self, name: str) -> None:
        """Record the start of a unit. Called by the thread that compiles it."""
        self._running[name] = self._clock()
        self._waiting.remove(name)

    def ended(self, name: str) -> None:
        """Record the end of a unit."""
        self._took[name] = self._clock() - self._running.pop(name)

    @property
    def done(self) -> int:
        """Return the number of finished units."""
        return len(self._took)

    @property
    def running(self) -> list[str]:
        """Return the units that are being compiled, the oldest first."""
        return list(self._running)

    def pace(self) -> float:
        """Return how much slower this machine is than the one on which units were timed."""
        now = self._clock()
        running = ((now - since) / self._weights[name] for name, since in list(self._running.items()))
        return max([self._known(), *running])

    def _known(self) -> float:
        """Return the pace of finished units."""
        if not self._took:
            return self._before
        return sum(self._took.values()) / sum(self._weights[name] for name in self._took)

    def _rest(self, name: str, since: float) -> float:
        """Return the seconds until a running unit ends."""
        rest = self._weights[name] * self._known() - (self._clock() - since)
        return max(_REST_S, rest if rest > 0 else -rest * _OVERDUE)

    def left(self) -> float:
        """Return the seconds until the library is linked."""
        pace = self.pace()
        free = [self._rest(name, since) for name, since in list(self._running.items())]
        free += [0.0] * (self._jobs - len(free))
        heapq.heapify(free)
        for name in list(self._waiting):
            heapq.heappush(free, heapq.heappop(free) + self._weights[name] * pace)
        return max(free) + _LINKING_S * pace


class Progress:
    """Reports progress: on a terminal with a line that is overwritten, elsewhere with `say`."""

    def __init__(
        self,
        weights: Mapping[str, float],
        jobs: int,
        pace: float,
        say: Callable[[str], None],
        terminal: TextIO | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.estimate = Estimate(weights, jobs, pace, clock)
        self._total, self._say, self._terminal, self._clock = len(weights), say, terminal, clock
        self._started = self._said = clock()
        self._filled = 0.0

    def ended(self, name: str) -> None:
        """Report a compiled unit."""
        self.estimate.ended(name)
        if self._terminal is None:
            self._tell(f"[{self.estimate.done}/{self._total}] {name}")

    def look(self) -> None:
        """Update the output; called twice a second."""
        if self._terminal is not None:
            self._draw(self._terminal)
        elif self._clock() - self._said >= _SILENCE_S:
            self._tell(f"[{self.estimate.done}/{self._total}] still at {', '.join(self.estimate.running)}")

    def clear(self) -> None:
        """Clear the line for other output."""
        if self._terminal is not None:
            print("\r\033[K", end="", file=self._terminal, flush=True)

    def _tell(self, what: str) -> None:
        self._said = self._clock()
        left = "linking" if self.estimate.done == self._total else f"about {self.estimate.left():.0f} s left"
        self._say(f"  {what} ({self._said - self._started:.0f} s, {left})")

    def _draw(self, terminal: TextIO) -> None:
        spent, left = self._clock() - self._started, self.estimate.left()
        # The bar never goes back; the seconds may.
        self._filled = max(self._filled, spent / (spent + left))
        filled = int(_BAR * self._filled)
        line = (
            f"[{'#' * filled}{'.' * (_BAR - filled)}] about {left:.0f} s left; "
            f"{self.estimate.done}/{self._total} units, at {', '.join(self.estimate.running) or 'linking'}"
        )
        print(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", file=terminal, flush=True)
