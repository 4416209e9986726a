"""A compiler that is none, for tests of the build."""

from __future__ import annotations

from pathlib import Path

import pytest

from native.compilers import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a compiler that makes something at once, and an empty cache, for this process and its children."""
    made = Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
