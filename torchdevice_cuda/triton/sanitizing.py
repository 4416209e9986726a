"""The tools of ``--sanitize`` for kernels that are interpreted; compiled ones have `runtime/checks.h`."""

from __future__ import annotations

import dataclasses
import itertools
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..sanitizer import canary, findings
from ..settings import sanitizer as tools
from .memory import ATOMIC, READ, WRITE

#: Files whose lines are not the kernel's.
_OURS = str(Path(__file__).parent)

Line = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class _Use:
    """Who used a place: a program, in a stretch between atomic operations that release."""

    program: int
    epoch: int
    kind: str
    line: Line


@dataclasses.dataclass
class _Cell:
    """The last uses of a place; of reads, two by programs that nothing orders."""

    write: _Use | None = None
    reads: tuple[_Use, ...] = ()


class Sanitizer:
    """Notes the accesses of launches."""

    def __init__(self, setting: str) -> None:
        self._seed = tools.find_seed(setting)
        self._tools = tools.list_tools(setting)
        self._said: set[tuple[Any, ...]] = set()
        self._suspicions: dict[Line, int] = {}
        self._begin_launch("")

    def _begin_launch(self, name: str) -> None:
        self._name, self._program, self._index, self._epoch = name, 0, (0, 0, 0), 1
        self._cells: dict[int, _Cell] = {}
        #: the size of a cell; smaller ones once an access is
        self._step = 4
        #: what programs that see an atomic operation on an address know: programs, and how far
        self._signals: dict[int, dict[int, int]] = {}
        self._known: dict[int, int] = {}
        self._grid = (1, 1, 1)

    def choose_order(self, name: str, grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        """Begin a launch; return its programs, in the order in which they run."""
        self._begin_launch(name)
        self._grid = grid
        programs = list(itertools.product(*(range(size) for size in grid)))
        if self._seed is not None:
            random.Random(self._seed).shuffle(programs)
        return [(x, y, z) for x, y, z in programs]

    def begin_program(self, index: tuple[int, int, int]) -> None:
        """Begin a program."""
        self._index, self._program = index, self._number(index)
        self._epoch, self._known = 1, {}

    def _number(self, index: tuple[int, int, int]) -> int:
        return index[0] + self._grid[0] * (index[1] + self._grid[1] * index[2])

    # ------------------------------------------------------------------- accesses
    def note(self, pointers: Any, mask: Any, width: int, kind: str, read: Any, tells: bool = False) -> None:
        """Note an access; ``read`` returns words of memory, ``tells``: an atomic operation that releases."""
        used = pointers[mask] if mask is not None else pointers.reshape(-1)
        if not used.size:
            return
        if tools.INITCHECK in self._tools and kind != WRITE:
            self._check_written(np.unique(used), width, read)
        if tools.RACECHECK not in self._tools:
            return
        if tells:
            self._epoch += 1
        if width < self._step:
            self._refine()
        use = _Use(self._program, self._epoch, kind, find_line())
        for address in used.tolist():
            if kind == ATOMIC:
                self._hear(address, tells)
            for at in range(address, address + width, self._step):
                self._visit(at, use)

    def refuse(self, pointers: Any, mask: Any, width: int, kind: str, is_misaligned: bool) -> None:
        """Report an access that ends the kernel."""
        if tools.MEMCHECK in self._tools:
            used = pointers[mask] if mask is not None else pointers.reshape(-1)
            why = "misaligned" if is_misaligned else "out of bounds"
            self._say(
                tools.MEMCHECK,
                f"Invalid __global__ {kind.lower()} of size {width} bytes: access to {int(used[0]):#x} is {why}",
            )

    @property
    def checks_addresses(self) -> bool:
        """Whether addresses are checked exactly."""
        return tools.MEMCHECK in self._tools

    def _check_written(self, used: Any, width: int, read: Any) -> None:
        words = np.unique(np.concatenate([(used & ~np.uint64(3)) + np.uint64(4 * i) for i in range((width + 3) // 4)]))
        held, certain = canary.find_unwritten(words, read)
        if not held.any():
            return
        line, first = find_line(), int(words[held][0])
        if not certain.any() and self._suspicions.setdefault(line, first) == first and held.sum() == 1:
            return
        if self._is_new(line):
            at = int(words[certain][0]) if certain.any() else first
            self._say(tools.INITCHECK, f"Error: Uninitialized __global__ memory read of size {width} bytes at {at:#x}")

    # ---------------------------------------------------------------------- races
    def _refine(self) -> None:
        self._step = 1
        self._cells = {at + i: dataclasses.replace(cell) for at, cell in self._cells.items() for i in range(4)}

    def _hear(self, address: int, tells: bool) -> None:
        """Learn what the releases of an address tell; add what this program has written, if it releases."""
        signal = self._signals.get(address)
        if signal is not None:
            for program, epoch in signal.items():
                self._known[program] = max(epoch, self._known.get(program, 0))
        if tells:
            signal = self._signals.setdefault(address, {})
            signal.update(self._known)
            signal[self._program] = self._epoch - 1

    def _is_before(self, use: _Use | None) -> bool:
        return use is None or use.program == self._program or self._known.get(use.program, 0) >= use.epoch

    def _visit(self, at: int, now: _Use) -> None:
        cell = self._cells.setdefault(at, _Cell())
        for before in (cell.write, *cell.reads):
            if before is not None and not self._is_before(before) and not _are_compatible(before.kind, now.kind):
                self._say_race(at, before, now)
                break
        if now.kind == READ:
            last = cell.reads[:1]
            cell.reads = (now, *(last if last and not self._is_before(last[0]) else cell.reads[1:]))
        else:
            cell.write, cell.reads = now, ()

    def _say_race(self, at: int, before: _Use, now: _Use) -> None:
        if not self._is_new(*sorted([before.line, now.line])):
            return
        x, y, _ = self._grid
        block = (before.program % x, before.program // x % y, before.program // (x * y))
        self._say(
            tools.RACECHECK,
            f"Error: Race reported between {now.kind} access and {before.kind} access by block "
            f"[{','.join(map(str, block))}] at {before.line[0]}:{before.line[1]}, at __global__ {at:#x}",
        )

    def _is_new(self, *key: Any) -> bool:
        is_new = key not in self._said
        self._said.add(key)
        return is_new

    def _say(self, tool: str, text: str) -> None:
        file, line = find_line()
        findings.add(findings.Finding(tool, findings.ERROR, self._name, file, line, self._index, (0, 0, 0), text))


def _are_compatible(one: str, other: str) -> bool:
    """Return whether accesses do not conflict: two reads, or an atomic operation and no write."""
    return WRITE not in (one, other) and (ATOMIC in (one, other) or one == other == READ)


def find_line() -> Line:
    """Return the line of the kernel that runs."""
    import triton

    hidden = (_OURS, str(Path(triton.__file__).parent), str(Path(np.__file__).parent))
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(hidden):
        frame = frame.f_back
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
