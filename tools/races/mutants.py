"""The corpus: correct programs with marked synchronizations, and mutants that lack one of them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[2] / "tests" / "races" / "programs"
#: A line that ends with this comment orders work; without it the program has a race.
MARK = "# sync"


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of the corpus, whole or without one line."""

    path: Path
    removed: int = 0  # the number of the removed line; 0: the original

    @property
    def name(self) -> str:
        """Return the name in tables and records."""
        return f"{self.path.stem}:{self.removed}" if self.removed else self.path.stem

    @property
    def removed_text(self) -> str:
        """Return the removed call, without its comment."""
        if not self.removed:
            return ""
        return self.path.read_text().splitlines()[self.removed - 1].replace(MARK, "").strip()

    @property
    def text(self) -> str:
        """Return the source; a removed line becomes `pass`, so that the others keep their numbers."""
        lines = self.path.read_text().splitlines()
        if self.removed:
            indent = re.match(r"\s*", lines[self.removed - 1])
            assert indent is not None
            lines[self.removed - 1] = f"{indent[0]}pass"
        return "\n".join(lines) + "\n"


def list_originals() -> list[Program]:
    """Return the programs as they are."""
    return [Program(path) for path in sorted(PROGRAMS.glob("*.py"))]


def list_mutants() -> list[Program]:
    """Return each program without one marked line, for each marked line."""
    return [
        Program(original.path, number)
        for original in list_originals()
        for number, line in enumerate(original.path.read_text().splitlines(), 1)
        if line.endswith(MARK)
    ]
