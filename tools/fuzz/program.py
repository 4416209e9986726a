"""A fuzzed program: steps, each a line of Python, that a random generator chose."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

PRELUDE = Path(__file__).with_name("prelude.py")
_NAMES = re.compile(r"\bv\d+\b")


@dataclasses.dataclass(frozen=True)
class Step:
    """A line of a program, and what the comparison needs to know about it."""

    code: str
    #: which operator it is about; rows of explained differences name it
    op: str
    #: the variables that it assigns
    gives: tuple[str, ...] = ()
    #: whether it changes tensors that are there
    writes: bool = False
    #: whether the operator leaves its values open: uninitialized memory
    is_open: bool = False

    @property
    def reads(self) -> set[str]:
        """List the variables that its line uses."""
        return set(_NAMES.findall(self.code.split(" = ", 1)[1] if self.gives else self.code))

    def to_list(self) -> list[object]:
        """Make what JSON keeps."""
        return [self.code, self.op, list(self.gives), int(self.writes), int(self.is_open)]

    @classmethod
    def from_list(cls, kept: list[object]) -> Step:
        """Read what ``to_list`` made."""
        code, op, gives, writes, is_open = kept
        return cls(str(code), str(op), tuple(gives), bool(writes), bool(is_open))  # type: ignore[arg-type]


def print_source(steps: list[Step], device: str, note: str = "") -> str:
    """Print a program that runs by itself."""
    prelude = PRELUDE.read_text().replace('DEV = "cpu"', f'DEV = "{device}"')
    last = steps[-1].gives if steps else ()
    shown = [f"print({name!r}, {name})" for name in last]
    return "\n".join([prelude, f"# {note}" if note else "", *(step.code for step in steps), *shown])


def print_steps(steps: list[Step]) -> str:
    """Print the lines alone."""
    return "\n".join(f"    {step.code}" for step in steps)


def without(steps: list[Step], left_out: int) -> list[Step]:
    """Leave out a step and what depends on its variables."""
    gone = set(steps[left_out].gives)
    kept = []
    for number, step in enumerate(steps):
        if number == left_out:
            continue
        if step.reads & gone:
            gone |= set(step.gives)
            continue
        kept.append(step)
    return kept
