"""Sets of cases: their definition and their list.

A set is a module of ``tests/recorded`` with

- ``RECORD``: its record, a file of ``tests/data``;
- ``list_cases()``: functions by name, whose results are JSON values; a function or a ``Case``.

and, where the default does not do,

- ``ALONE``: each case runs in a process of its own, since it breaks the device or the process;
- ``LISTED_ON_DEVICE``: ``list_cases()`` uses the device;
- ``BY_RELEASE``: which cases there are depends on the release of torch: a record need not have all;
- ``IMPORTS_USE_GPU``: a process that lists the cases has used the GPU, and cannot fork any more;
- ``NEEDS``: what recording needs beside torch, in words;
- ``OPTIONS``: by driver, options of the launcher instead of the place's, e.g. another GPU profile;
- ``prepare()``: called once in each process; ``reset()``: called before each case that shares a process;
- ``preload(names)``: imports what forks for these cases need; it does not use the device;
- ``split(name, there, here)``: the facts of an answer, by name, as pairs;
- ``find_difference(there, here, case)``: None, or how two facts differ; ``MILD``: differences that count as alike;
- ``adapt(answers, driver)``: answers as a driver words them;
- ``record_set(options)``, ``compare_set(options)``: instead of the engine's;
- ``EXPECTED``: a TOML file of differences that are expected, with reasons.
"""

from __future__ import annotations

import dataclasses
import functools
import pkgutil
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from record.store import DATA

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "recorded"


@dataclasses.dataclass(frozen=True)
class Case:
    """A function to run, whose result is a JSON value."""

    name: str
    run: Callable[[], Any]
    #: In a process of its own: it breaks the device, or the process, or needs to come first.
    alone: bool = False
    #: While no other process uses the GPU: it measures free memory, or time.
    quiet: bool = False
    #: It starts programs, or sleeps: not in the default comparison.
    slow: bool = False
    #: Cases of one unit share a process.
    unit: str = ""
    #: Relative difference at which two floats are still the same.
    tolerance: float = 0.0


@dataclasses.dataclass(frozen=True)
class CaseSet:
    """A set of cases: a module, and the defaults of what it does not say."""

    name: str
    module: ModuleType

    @property
    def title(self) -> str:
        return (self.module.__doc__ or "").strip().splitlines()[0]

    @property
    def record(self) -> Path:
        return Path(DATA / self.module.RECORD)

    @property
    def expected(self) -> Path | None:
        return getattr(self.module, "EXPECTED", None)

    def say(self, name: str, default: Any = None) -> Any:
        """Return what the module says, or the default."""
        return getattr(self.module, name, default)

    @functools.cached_property
    def cases(self) -> dict[str, Case]:
        alone = self.say("ALONE", False)
        listed = self.module.list_cases()
        return {name: run if isinstance(run, Case) else Case(name, run, alone) for name, run in listed.items()}


def list_sets() -> list[str]:
    """List the names of all sets."""
    return sorted(each.name for each in pkgutil.iter_modules([str(FOLDER)]) if not each.name.startswith("_"))


def load_set(name: str) -> CaseSet:
    """Import a set."""
    if name not in list_sets():
        raise SystemExit(f"no such set: {name}; there are {', '.join(list_sets())}")
    return CaseSet(name, import_module(f"recorded.{name}"))


def choose_cases(names: Iterable[str], only: Iterable[str], every: int = 1) -> list[str]:
    """Keep the cases that are asked for: all, one of every N, areas (up to the first dot), or some by name."""
    names, wanted = list(names), set(only)
    areas = {name: {name, name.partition(".")[0]} for name in names}
    unknown = wanted - set().union(*areas.values())
    if unknown:
        raise SystemExit(f"no such case or area: {', '.join(sorted(unknown))}")
    return [name for name in names if not wanted or wanted & areas[name]][::every]
