"""A plugin of pytest: records the outcome of each test as soon as it is known.

The process that runs the tests imports it by its own name: ``tools`` has a ``site.py``, and cannot be on its path.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

#: The variable that names the file in which the process records the outcomes of its tests.
RECORD = "UPSTREAM_RECORD"
_LONGEST_WORDS = 300


class Recorder:
    """Write a line when a test begins and another when it is over, each in the file at once."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._verdict, self._words = "passed", ""

    def _write(self, **line: object) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """List the tests."""
        self._write(event="collected", tests=[item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test begins."""
        self._verdict, self._words = "passed", ""
        self._write(event="began", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome of a part of it: set-up, the test, one of its subtests, tear-down."""
        expected_to_fail = hasattr(report, "wasxfail")
        if report.failed and self._verdict != "failed":
            self._verdict, self._words = "failed", _find_words(report)
        elif report.skipped and self._verdict == "passed" and not expected_to_fail:
            self._verdict, self._words = "skipped", _find_words(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Record the outcome of the whole."""
        self._write(event="over", test=nodeid, outcome=self._verdict, words=self._words)


def _find_words(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")[:_LONGEST_WORDS]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return next((line for line in text.splitlines() if line.strip()), "")[:_LONGEST_WORDS]


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder in a process that has a file for it."""
    if path := os.environ.get(RECORD):
        config.pluginmanager.register(Recorder(path))
