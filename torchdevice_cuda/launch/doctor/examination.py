"""All of it: which checks, in which environment, in what order; what is shown and written."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ... import settings
from ...drivers.host import facts
from ...drivers.traits import Trait
from .. import children
from . import document
from .results import FAILED, OK, SKIPPED, Result
from .running import Process, run
from .showing import Progress, table
from .table import CHECKS, NAMES, START, Check

#: More at a time would wait for each other.
_TOGETHER = 4
#: Where the native part may have to be compiled first.
_BUILDING_S = 600.0
#: Settings that are about what a program leaves behind, or would make every departure an error.
_QUIET = {"report": None, "fallback": "allow", "log_level": "WARNING"}
_FILE = ".json"
_SIGNALLED = 128


class RequestError(Exception):
    """What was asked for cannot be done."""


class Interrupted(Exception):
    """Somebody wants it to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = _SIGNALLED + number


def request(words: Sequence[str]) -> tuple[list[Check], str | None]:
    """The checks that the words after ``--doctor`` name (none: all), and the file."""
    files = [word for word in words if word.endswith(_FILE)]
    wanted = [word for word in words if word not in files]
    for word in wanted:
        if not any(_is_named(name, word) for name in NAMES):
            raise RequestError(
                f"--doctor knows no {word!r}; after it come names of checks ({', '.join(_short_names())}) or a file "
                f"that ends in {_FILE}"
            )
    if len(files) > 1:
        raise RequestError(f"--doctor writes one file, not {len(files)}: {' '.join(files)}")
    for file in files:
        if os.path.lexists(file):
            raise RequestError(f"{file} is there already, and --doctor writes over nothing")
    chosen = [check for check in CHECKS if not wanted or any(_is_named(check.name, word) for word in wanted)]
    return ([] if START in chosen else [START]) + chosen, files[0] if files else None


def _is_named(name: str, word: str) -> bool:
    return word in (name, name.partition(",")[0])


def _short_names() -> list[str]:
    return list(dict.fromkeys(name.partition(",")[0] for name in NAMES))


def examine(words: Sequence[str], chosen: settings.Settings, overrides: Mapping[str, str]) -> int:
    """Do it; the exit status."""
    checks, file = request(words)
    results = {check.name: Result(check.name, check.why) for check in checks}
    progress = Progress(len(checks))
    status = None
    with tempfile.TemporaryDirectory(prefix="torchdevice-doctor-", ignore_cleanup_errors=True) as folder:
        try:
            with _interruptible():
                _run_all(checks, results, functools.partial(_begin, chosen, overrides, Path(folder)), progress)
        except Interrupted as interrupted:
            status = interrupted.status
        finally:
            progress.clear()
    found = list(results.values())
    verdict = "interrupted" if status is not None else FAILED if any(one.verdict == FAILED for one in found) else OK
    print(table(found))
    written = document.write(document.content(found, chosen, overrides, verdict), file)
    counts = ", ".join(f"{sum(one.verdict == kind for one in found)} {kind}" for kind in (OK, FAILED, SKIPPED))
    print(f"\n{counts}. For an issue, with versions and figures and without names: {written}", flush=True)
    return status if status is not None else int(verdict == FAILED)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM end what runs; what was found until then is shown."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # twice in a row: what runs is being ended already
    for number, handler in before.items():
        signal.signal(number, handler)


def _run_all(checks: Sequence[Check], results: dict[str, Result], begin: Any, progress: Progress) -> None:
    done = 0

    def go(some: Sequence[Check], together: int) -> None:
        nonlocal done
        starts = [functools.partial(begin, check, results) for check in some]
        with contextlib.closing(run(starts, together)) as running:
            for ended, others in running:
                done += bool(ended)
                progress.show(done, others)

    go([START], 1)
    fit = []
    for check in checks[1:]:
        reason = _unfit(check, results[START.name])
        if reason:
            results[check.name].found = reason
            done += 1
        else:
            fit.append(check)
    go([check for check in fit if not check.alone], min(_TOGETHER, facts.cores()))
    go([check for check in fit if check.alone], 1)


def _unfit(check: Check, start: Result) -> str:
    """Why a check is not run; empty if it is."""
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


def _begin(
    chosen: settings.Settings, overrides: Mapping[str, str], folder: Path, check: Check, results: dict[str, Result]
) -> Process:
    """Start a check."""
    place = folder / check.name.replace(", ", "-")
    place.mkdir()
    may_build = check is START and chosen.build and (sys.platform != "darwin" or chosen.emulate_mps)
    limit = _BUILDING_S if may_build else None
    process = Process(check, environment(check, chosen, overrides, place), place, limit)
    results[check.name] = process.result
    return process


def environment(check: Check, chosen: settings.Settings, overrides: Mapping[str, str], folder: Path) -> dict[str, str]:
    """That of a check: the settings in force, but for those that it fixes."""
    fixed: dict[str, Any] = {**_QUIET, **check.settings}
    if "policy" in fixed:
        fixed["allow_redirects"] = False  # which is another word for a policy
    environ = dict(os.environ)
    children.export(dataclasses.replace(chosen, **fixed), {*overrides, *fixed}, environ)
    environ["TORCHDEVICE_AUTO"] = "0" if check.bare else "1"
    if environ.get("TORCHDEVICE_CACHE_DIR"):
        environ["TORCHDEVICE_CACHE_DIR"] = str(settings.cache_dir())  # it may be given as seen from this folder
    environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiled")
    return environ
