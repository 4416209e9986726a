"""Test whether the tests notice changes of the package: one small change at a time, and the tests that ran its line.

A mutant is a copy of the tree with one change. Files of tests are run on it one after another, the likeliest first,
until one fails: then the mutant is caught. They are those that the record of coverage names for the line, or some that
are named, which takes no record. The libraries that do so do not know that tests run programs here, each of which would
have to import torch anew (``forking.py``).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import os
import queue
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import recording
from changes import Change, changes, compiles
from forking import Server

#: Where a wrong word does the most harm: what is read from outside, where requests go, what the GPU is said to be.
PLACES = ("settings/__init__.py", "drivers", "translate/core")
#: What came of a mutant. One that hangs was noticed, and so was one whose tests cannot be collected.
CAUGHT, SURVIVED, UNTESTED = "caught", "survived", "not run by any test"


class Mutant(NamedTuple):
    """A change of a file of the package."""

    file: str
    change: Change

    @property
    def name(self) -> str:
        return f"{self.file}:{self.change.line}:{self.change.begin}-{self.change.end} {self.change.kind}"


def mutants(places: Iterable[str]) -> list[Mutant]:
    """Every mutant of some files and folders of the package."""
    found: list[Mutant] = []
    for place in places:
        whole = recording.PACKAGE / place
        for path in [whole] if whole.is_file() else sorted(whole.rglob("*.py")):
            name = str(path.relative_to(recording.ROOT))
            found += [Mutant(name, change) for change in changes(path.read_bytes())]
    return found


class Unchanged(NamedTuple):
    """The result of a test file without changes."""

    seconds: float
    #: what of it fails: it would catch everything
    failing: list[str]


def unchanged(files: Iterable[str], jobs: int) -> dict[str, Unchanged]:
    """Run test files without changes."""

    def run(server: Server, test: str) -> Unchanged:
        done = server.pytest(["-rfE", test])
        failing = re.findall(r"^(?:FAILED|ERROR) (\S+(?: [^-\n]*)?)(?= - |$)", done.said, re.M)
        return Unchanged(done.seconds, failing)

    with Server(recording.ROOT) as server, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {test: pool.submit(run, server, test) for test in files}
        return {test: one.result() for test, one in running.items()}


class Tests:
    """Test files to run on a mutant, the likeliest first, and their duration."""

    def __init__(self, durations: Mapping[str, float]) -> None:
        self._durations = durations

    def _possible(self, mutant: Mutant) -> Iterable[str]:
        """Return the files that may notice a mutant."""
        return self._durations

    def of(self, mutant: Mutant, seconds: float) -> list[str]:
        """Return the files, the likeliest first: those whose names have words of the file's, then the quickest.

        Together they take no longer than so many seconds where nothing is changed, if there are several.
        """
        words = set(re.split(r"[/_.]", mutant.file))
        known = [test for test in self._possible(mutant) if test in self._durations]
        known.sort(key=lambda test: (-len(words & set(re.split(r"[/_.]", test)[1:])), self._durations[test]))
        chosen: list[str] = []
        for test in known:
            if not chosen or self._durations[test] <= seconds:
                seconds -= self._durations[test]
                chosen.append(test)
        return chosen

    def patience(self, test: str) -> float:
        """Return the time limit of a test file with a change, which may make it hang."""
        return 30 + 5 * self._durations[test]


class Recorded(Tests):
    """The tests that executed the mutated line, from the coverage record."""

    def __init__(self) -> None:
        from coverage import CoverageData

        recording.combine()
        super().__init__(recording.durations())
        self._data = CoverageData(str(recording.FOLDER / "data"))
        self._data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}

    def _possible(self, mutant: Mutant) -> Iterable[str]:
        if mutant.file not in self._lines:
            self._lines[mutant.file] = self._data.contexts_by_lineno(str(recording.ROOT / mutant.file))
        lines = self._lines[mutant.file]
        # A text of several lines is recorded at the line where its statement begins.
        line = next((n for n in range(mutant.change.line, 0, -1) if n in lines), 0)
        return lines.get(line, [])


class Tree:
    """A copy of the repository in which one file may be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=recording.ROOT, check=True, capture_output=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if (recording.ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(recording.ROOT / name, folder / name)
        self._time = int(time.time())

    def write(self, name: str, source: bytes) -> None:
        """Put a file there that is newer than what Python compiled of it: it compares seconds."""
        self._time += 2
        (self.folder / name).write_bytes(source)
        os.utime(self.folder / name, (self._time, self._time))


class Examination:
    """Tests that are run on mutants in a tree of their own."""

    def __init__(self, tree: Tree, server: Server, tests: Tests, before: Mapping[str, Unchanged]) -> None:
        self._tree, self._server, self._tests, self._before = tree, server, tests, before

    def _noticing(self, files: Iterable[str]) -> str:
        """Return the first file of tests that fails, if one does."""
        for test in files:
            left_out = [f"--deselect={each}" for each in self._before[test].failing]
            done = self._server.pytest(["-x", *left_out, test], seconds=self._tests.patience(test))
            if done.status not in (0, 5):
                return test
        return ""

    def of(self, mutant: Mutant, files: list[str]) -> dict[str, Any]:
        """Run the tests on a mutant and return the outcome."""
        source = (recording.ROOT / mutant.file).read_bytes()
        self._tree.write(mutant.file, mutant.change.applied(source))
        by = self._noticing(files)
        self._tree.write(mutant.file, source)
        return {
            "mutant": mutant.name,
            "before": source[mutant.change.begin : mutant.change.end].decode(),
            "after": mutant.change.after,
            "came": CAUGHT if by else SURVIVED if files else UNTESTED,
            "by": by,
            "tried": files,
        }


def examine(
    chosen: Sequence[Mutant], seconds: float, jobs: int = 1, named: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Examine each mutant with tests of about so many seconds; several at a time, each in its own tree.

    ``named`` are files of tests to take instead of those that the record of coverage has for a line.
    """
    found: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    before = unchanged(named, jobs)
    tests = Tests({test: each.seconds for test, each in before.items()}) if named else Recorded()
    plan = [(mutant, tests.of(mutant, seconds)) for mutant in chosen]
    before |= unchanged({test for _, files in plan for test in files} - before.keys(), jobs)

    def some(part: Sequence[tuple[Mutant, list[str]]]) -> None:
        with tempfile.TemporaryDirectory(prefix="tree-", dir=recording.FOLDER) as folder:
            tree = Tree(Path(folder))
            with Server(tree.folder) as server:
                examination = Examination(tree, server, tests, before)
                for mutant, files in part:
                    found.put(examination.of(mutant, files))

    recording.FOLDER.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(some, plan[i::jobs]) for i in range(min(jobs, len(plan)))}
        while running:
            with contextlib.suppress(queue.Empty):
                while True:
                    yield found.get(timeout=0.2)
            ended = {each for each in running if each.done()}
            running -= ended
            for each in ended:
                each.result()
        with contextlib.suppress(queue.Empty):
            while True:
                yield found.get_nowait()


def sample(found: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """Some of the mutants, the same for a seed; or all of them, in an order of its."""
    order = random.Random(seed).sample(found, len(found))
    sound = (each for each in order if compiles((recording.ROOT / each.file).read_bytes(), each.change))
    return list(itertools.islice(sound, size))


def known(results: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes of mutants in earlier runs, the last of each."""
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return {row["mutant"]: row for row in map(json.loads, lines)}
