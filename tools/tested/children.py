"""A plugin of pytest's: what the harness would start as a new Python is a fork of one that has torch."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import forking
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Replace how the harness runs children; other programs are started as ever."""
    from harness import processes, running

    original, child = processes.run, str(running._CHILD)

    def run(
        command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout: float = 180, **other: Any
    ) -> processes.Finished:
        if list(command[:2]) != [sys.executable, child] or other:
            return original(command, environment=environment, timeout=timeout, **other)
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            asked = {
                "arguments": list(command[1:]),
                "environment": dict(environment or processes.clean_environment()),
                "folder": os.getcwd(),
                "out": out.name,
                "err": err.name,
                "seconds": timeout,
            }
            found = forking.ask(os.environ["FORKING"], asked)

            said = [Path(each.name).read_text("utf-8", errors="replace") for each in (out, err)]
        return processes.Finished(found["status"], *said, found["killed"])

    running.run = run  # type: ignore[attr-defined]
