"""What the user sees: how far it is, and what came of it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from .results import FAILED, NOTED, Result

_BAR = 24
#: Where a check knows none.
_ADVICE = "put the file that is named below into an issue"
_HEAD = ("check", "verdict", "seconds", "found")


class Progress:
    """One line on standard error that is written over; nothing where that is no terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def show(self, done: int, running: Sequence[str]) -> None:
        """So many checks are done, these run."""
        if self._shown:
            filled = _BAR * done // max(1, self._total)
            line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{self._total} {', '.join(running)}"
            self._write(line[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        """Make room for what is printed next."""
        if self._shown:
            self._write("")

    def _write(self, line: str) -> None:
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def table(results: Sequence[Result]) -> str:
    """A line for each check, and below what is wrong."""
    rows = [_HEAD, *((one.name, one.verdict, f"{one.seconds:.1f}", one.found) for one in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    room = max(40, shutil.get_terminal_size((120, 24)).columns - sum(widths) - 6)
    lines = [
        f"{name:<{widths[0]}}  {verdict:<{widths[1]}}  {seconds:>{widths[2]}}  {textwrap.shorten(found, room)}"
        for name, verdict, seconds, found in rows
    ]
    for one in results:
        telling = [answer for answer in one.answers if answer.verdict in (FAILED, NOTED)]
        if telling:
            lines += ["", f"{one.name}: {one.why}"]
            for answer in telling:
                lines += [f"  {answer.question}: {answer.found}", f"    advice: {answer.advice or _ADVICE}"]
    return "\n".join(lines)
