"""Expected outcomes: ``tests/upstream/FILE.toml`` for the drivers, ``tests/upstream/FILE.gpu`` for a real GPU."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings to 3.10

from .running import DRIVERS

#: What can become of a test. The last two are said by who waits for the process, the others by pytest.
OUTCOMES = ("passed", "skipped", "failed", "crashed", "hangs")
#: What no line has to name.
ORDINARY = ("passed", "skipped")


@dataclasses.dataclass
class Line:
    """Tests of a file that do something else than pass under some drivers, and why."""

    tests: list[str]
    drivers: list[str]
    outcome: str
    reason: str
    used: bool = False

    def names(self, test: str, driver: str) -> bool:
        """Return whether it names a test."""
        return driver in self.drivers and any(fnmatch.fnmatchcase(test, pattern) for pattern in self.tests)


@dataclasses.dataclass
class GpuOutcomes:
    """Outcomes of a file's tests on a real GPU, by name."""

    heading: str
    outcomes: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> GpuOutcomes | None:
        """Return the outcomes of a file of ``tests/upstream``, or ``None`` if there are none."""
        if not path.exists():
            return None
        lines = path.read_text().splitlines()
        named = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
        return cls(lines[0].removeprefix("# "), {test: outcome for outcome, test in named})

    def write(self, path: Path) -> None:
        """Write them, sorted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = sorted(f"{outcome} {test}" for test, outcome in self.outcomes.items())
        path.write_text("\n".join([f"# {self.heading}", *lines]) + "\n")

    @functools.cached_property
    def _unnamed(self) -> str:
        return "unknown" if "passed" in self.outcomes.values() else "passed"

    def passes(self, test: str) -> bool:
        """Return whether a test passed there; under an older list, also whether it was not run there."""
        return self.outcomes.get(test, self._unnamed) == "passed"


def read_junit(paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Return the outcomes in files that ``pytest --junit-xml`` wrote: by file of tests, then by test."""
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            names = case.get("classname", "").split(".")
            classes = names[_count_modules(names) :]
            suite = "/".join(names[: len(names) - len(classes)]).removeprefix("test/") + ".py"
            kinds = {child.tag: child.get("type") or "" for child in case}
            outcome = "failed" if {"failure", "error"} & set(kinds) else "passed"
            if outcome == "passed" and "xfail" not in kinds.get("skipped", "pytest.xfail"):
                outcome = "skipped"
            tests = found.setdefault(suite, {})
            tests["::".join([*classes, case.get("name", "")])] = outcome
    return found


def _count_modules(names: list[str]) -> int:
    """Return how many of a class's dotted names are its module's: folders, and a file named ``test_...``."""
    return next((index + 1 for index, name in enumerate(names) if name.startswith("test_")), len(names))


@dataclasses.dataclass
class Expectations:
    """The expectations of ``tests/upstream`` for a file."""

    lines: list[Line]
    least: Mapping[str, int]  # how many pass, by driver
    gpu: GpuOutcomes | None = None
    settings: Sequence[str] = ()  # of the driver, with which the file is run

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """From its file; one that is not there expects every test to pass."""
        found = tomllib.loads(path.read_text()) if path.exists() else {}
        lines = [Line(**entry) for entry in found.pop("expected", ())]
        least, settings = found.pop("least", {}), found.pop("settings", ())
        for line in lines:
            for what, value, allowed in (("outcome", [line.outcome], OUTCOMES), ("drivers", line.drivers, DRIVERS)):
                if wrong := [name for name in value if name not in allowed]:
                    raise SystemExit(f"{path}: {what} {wrong[0]!r} is none of {', '.join(allowed)}")
        if found:
            raise SystemExit(f"{path}: nobody knows {', '.join(found)}")
        return cls(lines, least, GpuOutcomes.read(path.with_suffix(".gpu")), settings)

    def complaints(self, results: Iterable[Mapping[str, Any]], driver: str, *, whole: bool) -> Iterator[str]:
        """List the results that differ from the expectations, one line each."""
        passed = 0
        for result in results:
            test, outcome = result["test"].partition("::")[2], result["outcome"]
            passed += outcome == "passed"
            line = next((line for line in self.lines if line.names(test, driver)), None)
            if line is None:
                if not self._is_ordinary(test, outcome):
                    yield f"{test} {outcome}: {result['words']}"
                continue
            line.used = True
            if outcome != line.outcome:
                yield f"{test} {outcome}, expected: {line.outcome} ({line.reason}) {result['words']}".rstrip()
        if whole:
            for line in self.lines:
                if driver in line.drivers and not line.used:
                    yield f"no test answers to {', '.join(line.tests)} ({line.reason})"
            if passed < self.least.get(driver, 0):
                yield f"{passed} passed, at least {self.least[driver]} are expected"

    def _is_ordinary(self, test: str, outcome: str) -> bool:
        if self.gpu is None:
            return outcome in ORDINARY
        return outcome == "passed" or not self.gpu.passes(test)

    def count_as_on_gpu(self, results: Iterable[Mapping[str, Any]]) -> tuple[int, int] | None:
        """Return how many of the tests that the GPU's list does not name were run, and how many of them passed."""
        gpu = self.gpu
        if gpu is None:
            return None
        there = [result for result in results if gpu.passes(result["test"].partition("::")[2])]
        return len(there), sum(result["outcome"] == "passed" for result in there)
