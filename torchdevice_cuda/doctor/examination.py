"""The whole examination: the checks, their environment and order, and the output."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import children, leftovers, settings
from ..drivers.host import facts
from ..drivers.traits import Trait
from ..settings.variables import suggest
from . import document
from .results import FAILED, NOTED, OK, SKIPPED, Answer, Result
from .running import Process, run
from .table import CHECKS, NAMES, START, Check

_BAR = 24
#: The default, if a check has no advice.
_ADVICE = "python -m torchdevice_cuda --doctor report.json, and put that file into an issue"
#: Questions with advice by its benefit: without the first nothing runs, then results are wrong, then work is slow.
_BENEFIT = (
    "torch build",
    "this python",
    "variables",
    "other devices",
    "companions",
    "sitecustomize",
    "shim",
    "compiled part",
    "compiler",
    "cache",
    "mlx",
    "metal",
    "numpy",
    "nvidia libraries",
)
_HEAD = ("check", "verdict", "seconds", "found")


class Progress:
    """A line on standard error that is overwritten; nothing if that is not a terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def show(self, done: int, running: Sequence[str]) -> None:
        """Show the number of finished checks, and the running ones."""
        if self._shown:
            filled = _BAR * done // max(1, self._total)
            line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{self._total} {', '.join(running)}"
            self._write(line[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        """Clear the line for other output."""
        if self._shown:
            self._write("")

    def _write(self, line: str) -> None:
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def table(results: Sequence[Result]) -> str:
    """Return a line for each check, followed by what to do, what helps most first."""
    rows = [_HEAD, *((one.name, one.verdict, f"{one.seconds:.1f}", one.found) for one in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    room = max(40, shutil.get_terminal_size((120, 24)).columns - sum(widths) - 6)
    lines = [
        f"{name:<{widths[0]}}  {verdict:<{widths[1]}}  {seconds:>{widths[2]}}  {textwrap.shorten(found, room)}"
        for name, verdict, seconds, found in rows
    ]
    found = advice(results)
    if found:
        lines += ["", "What to do, what helps most first:"]
    for number, (check, answer) in enumerate(found, 1):
        lines.append(f"{number:>2}. {answer.advice or _ADVICE}")
        lines.append(f"    {answer.verdict}: {check.name}, {answer.question}: {answer.found}")
    return "\n".join(lines)


def advice(results: Sequence[Result]) -> list[tuple[Result, Answer]]:
    """Return answers with advice: failures before notes, each in the order of its benefit."""
    found = [(one, answer) for one in results for answer in one.answers if answer.verdict in (FAILED, NOTED)]

    def rank(each: tuple[Result, Answer]) -> tuple[bool, int]:
        _, answer = each
        known = _BENEFIT.index(answer.question) if answer.question in _BENEFIT else len(_BENEFIT)
        return answer.verdict != FAILED, known

    return sorted(found, key=rank)


#: More at a time would wait for each other.
_TOGETHER = 4
#: The limit if the native part may have to be compiled first.
_BUILDING_S = 600.0
#: Settings about files that a program leaves, or that would make every fallback an error.
_QUIET = {"report": None, "fallback": "allow", "log_level": "WARNING"}
_FILE = ".json"
_SIGNALLED = 128


class RequestError(Exception):
    """A request that cannot be fulfilled."""


def request(words: Sequence[str]) -> tuple[list[Check], str | None]:
    """Return the checks that the words after ``--doctor`` name (none: all), and the file."""
    files = [word for word in words if word.endswith(_FILE)]
    wanted = [word for word in words if word not in files]
    for word in wanted:
        if not any(_is_named(name, word) for name in NAMES):
            raise RequestError(
                f"--doctor knows no {word!r}; allowed: names of checks ({', '.join(_short_names())}) or a file "
                f"that ends in {_FILE}{suggest(word, _short_names())}"
            )
    if len(files) > 1:
        raise RequestError(f"--doctor writes one file, not {len(files)}: {' '.join(files)}; name one")
    for file in files:
        if os.path.lexists(file):
            raise RequestError(f"{file} is there already, and --doctor writes over nothing; name another file")
    chosen = [check for check in CHECKS if not wanted or any(_is_named(check.name, word) for word in wanted)]
    return ([] if START in chosen else [START]) + chosen, files[0] if files else None


def _is_named(name: str, word: str) -> bool:
    return word in (name, name.partition(",")[0])


def _short_names() -> list[str]:
    return list(dict.fromkeys(name.partition(",")[0] for name in NAMES))


def examine(words: Sequence[str], chosen: settings.Settings, overrides: Mapping[str, str]) -> tuple[str, int]:
    """Run the examination; return the text to show, and the exit status."""
    checks, file = request(words)
    _announce(checks)
    with leftovers.scratch("torchdevice-doctor-") as (folder, _):
        examination = Examination(checks, chosen, overrides, folder)
        with _signals() as caught:
            examination.run(caught)
    found = list(examination.results.values())
    verdict = "interrupted" if caught else FAILED if any(one.verdict == FAILED for one in found) else OK
    counts = ", ".join(f"{sum(one.verdict == kind for one in found)} {kind}" for kind in (OK, NOTED, FAILED, SKIPPED))
    status = _SIGNALLED + caught[0] if caught else int(verdict == FAILED)
    last = "For an issue: name a file (--doctor report.json), which gets versions and figures and no names."
    if file is not None:
        try:
            written = document.write(document.content(found, chosen, overrides, verdict), file)
            last = f"For an issue, with versions and figures and without names: {written}"
        except OSError as error:
            last, status = f"Nothing could be written: {error}", status or 1
    return f"{table(found)}\n\n{counts}. {last}\n", status


def _announce(checks: Sequence[Check]) -> None:
    """Print how long it takes."""
    together = sum(check.usual for check in checks if not check.alone) / min(_TOGETHER, facts.cores())
    seconds = together + sum(check.usual for check in checks if check.alone)
    count = f"{len(checks)} {'check' if len(checks) == 1 else 'checks'}"
    if sys.stderr is not None:
        print(
            f"torchdevice_cuda: {count}, usually {max(1, round(seconds, -1 if seconds > 20 else 0)):.0f} s; "
            "Ctrl-C ends them and shows what is known",
            file=sys.stderr,
            flush=True,
        )


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect signals to end that arrive meanwhile: Ctrl-C, SIGTERM, a closed terminal.

    They raise nothing: a process that is just being started would be lost.
    """
    caught: list[int] = []
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, frame: caught.append(number)) for number in wanted}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Examination:
    """The checks of one run, and their results so far."""

    def __init__(
        self, checks: Sequence[Check], chosen: settings.Settings, overrides: Mapping[str, str], folder: Path
    ) -> None:
        self.results = {check.name: Result(check.name, check.why) for check in checks}
        self._checks, self._chosen, self._overrides, self._folder = checks, chosen, overrides, folder
        self._done = 0

    def run(self, caught: Sequence[int]) -> None:
        """Run the checks, the first alone, those that measure times one by one; until a signal is caught."""
        progress = Progress(len(self._checks))
        for some, together in self._in_turn():
            starts = [functools.partial(self._begin, check) for check in some]
            with contextlib.closing(run(starts, together)) as running:
                for ended, others in running:
                    self._done += bool(ended)
                    progress.show(self._done, others)
                    if caught:
                        break
            if caught:
                break
        progress.clear()

    def _in_turn(self) -> Iterator[tuple[list[Check], int]]:
        """Yield checks that run together, and how many at a time."""
        yield [START], 1
        fit = []
        for check in self._checks[1:]:
            reason = _unfit(check, self.results[START.name])
            if reason:
                self.results[check.name].found = reason
                self._done += 1
            else:
                fit.append(check)
        yield [check for check in fit if not check.alone], min(_TOGETHER, facts.cores())
        yield [check for check in fit if check.alone], 1

    def _begin(self, check: Check) -> Process:
        place = self._folder / check.name.replace(", ", "-")
        place.mkdir()
        may_build = check is START and self._chosen.build and (sys.platform != "darwin" or self._chosen.emulate_mps)
        limit = _BUILDING_S if may_build else None
        process = Process(check, environment(check, self._chosen, self._overrides, place), place, limit)
        self.results[check.name] = process.result
        return process


def _unfit(check: Check, start: Result) -> str:
    """Return why a check is not run; empty if it is."""
    if check.untouched:
        return ""
    if start.verdict == FAILED:
        return "the device did not come up"
    if check.needs is not None and not _is_installed(check.needs):
        return f"{check.needs.partition('.')[0]} is not installed"
    names = next(answer.figures["traits"] for answer in start.answers if "traits" in answer.figures)
    traits = functools.reduce(lambda one, other: one | other, (Trait[name] for name in names), Trait(0))
    return check.unfit(traits)


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def environment(check: Check, chosen: settings.Settings, overrides: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of a check: the current settings, except those that it fixes."""
    if check.untouched:
        return children.reaching_us(dict(os.environ))
    fixed: dict[str, Any] = {**_QUIET, **check.settings}
    if "policy" in fixed:
        fixed["allow_redirects"] = False  # another name for a policy
    environ = dict(os.environ)
    children.export(dataclasses.replace(chosen, **fixed), {*overrides, *fixed}, environ)
    environ["TORCHDEVICE_AUTO"] = "0" if check.bare else "1"
    if environ.get("TORCHDEVICE_CACHE_DIR"):
        environ["TORCHDEVICE_CACHE_DIR"] = str(settings.cache_dir())  # it may be relative to the current folder
    environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiled")
    return environ
