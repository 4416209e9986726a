"""Progress and remaining time of a build: a bar on a terminal, occasional lines elsewhere.

The estimate is what each unit took where it was measured, times how much longer things take here. That is known from
the units that have ended, and from those that run for longer than was thought; before there are any, from the last
build on this machine. So it is rough at first, grows where a unit takes longer than was thought, and says "about".
"""

from __future__ import annotations

import heapq
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TextIO

#: The linker's share, in the seconds that units are weighed in.
_LINKING_S = 1.0
#: Seconds without output after which a line says that the build goes on.
_SILENCE_S = 15.0
#: A unit that is past its time will take this much yet of what it is past it; and never nothing.
_OVERDUE, _REST_S = 0.5, 1.0
_BAR = 24


class Estimate:
    """Units that run so many at a time, each with a weight in seconds."""

    def __init__(self, weights: Mapping[str, float], jobs: int, pace: float, clock: Callable[[], float]) -> None:
        self._weights, self._jobs, self._before, self._clock = weights, jobs, pace, clock
        self._waiting = sorted(weights, key=lambda name: -weights[name])
        self._running: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def began(self, name: str) -> None:
        """A unit is being compiled. Called by the thread that has it compiled."""
        self._running[name] = self._clock()
        self._waiting.remove(name)

    def ended(self, name: str) -> None:
        """Note that a unit has ended."""
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
        """Return the pace by finished units."""
        if not self._took:
            return self._before
        return sum(self._took.values()) / sum(self._weights[name] for name in self._took)

    def _rest(self, name: str, since: float) -> float:
        """Seconds until a unit that runs has ended."""
        rest = self._weights[name] * self._known() - (self._clock() - since)
        return max(_REST_S, rest if rest > 0 else -rest * _OVERDUE)

    def left(self) -> float:
        """Seconds until the library is linked."""
        pace = self.pace()
        free = [self._rest(name, since) for name, since in list(self._running.items())]
        free += [0.0] * (self._jobs - len(free))
        heapq.heapify(free)
        for name in list(self._waiting):
            heapq.heappush(free, heapq.heappop(free) + self._weights[name] * pace)
        return max(free) + _LINKING_S * pace


class Progress:
    """Tells of a build: on a terminal by a line that is written over, elsewhere by `say`."""

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
        """A unit is compiled."""
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
        """Make room for what is said next."""
        if self._terminal is not None:
            print("\r\033[K", end="", file=self._terminal, flush=True)

    def _tell(self, what: str) -> None:
        self._said = self._clock()
        left = "linking" if self.estimate.done == self._total else f"about {self.estimate.left():.0f} s left"
        self._say(f"  {what} ({self._said - self._started:.0f} s, {left})")

    def _draw(self, terminal: TextIO) -> None:
        spent, left = self._clock() - self._started, self.estimate.left()
        # A bar that goes back is no comfort; the seconds are honest.
        self._filled = max(self._filled, spent / (spent + left))
        filled = int(_BAR * self._filled)
        line = (
            f"[{'#' * filled}{'.' * (_BAR - filled)}] about {left:.0f} s left; "
            f"{self.estimate.done}/{self._total} units, at {', '.join(self.estimate.running) or 'linking'}"
        )
        print(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", file=terminal, flush=True)
