"""A plugin of pytest's: what the harness would start as a new Python is a fork of one that has torch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import forking
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Replace how the harness runs children; other programs are started as ever."""
    from harness import processes, running, servers

    def run_child(folder: str, environment: Mapping[str, str], timeout: float, _: str | None) -> processes.Finished:
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            asked = {
                "arguments": [str(servers.CHILD), folder],
                "environment": dict(environment),
                "folder": os.getcwd(),
                "out": out.name,
                "err": err.name,
                "seconds": timeout,
            }
            found = forking.ask(os.environ["FORKING"], asked)
            said = [Path(each.name).read_text("utf-8", errors="replace") for each in (out, err)]
        return processes.Finished(found["status"], *said, found["killed"])

    running.run_child = run_child  # type: ignore[attr-defined]
