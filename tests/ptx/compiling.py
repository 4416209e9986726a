"""Compile statements of assembly without a GPU's language around them, and call them."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchdevice_cuda import ptx
from torchdevice_cuda.ptx import emit, parser

INCLUDE = Path(ptx.__file__).parent / "include"
BITS = {"b": 8, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64, "p": 1}
_CONTAINERS = {1: "bool", 8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}


class Bare:
    """A dialect of addresses and nothing else."""

    has_threads = False

    def write_pointer(self, space: str, address: str, c_type: str, count: int) -> str:
        return f"({c_type}*)({address})"

    def write_special(self, name: str) -> str:
        return ""

    def write_carry(self) -> str:
        return "bool cc = false;"


class Statement(NamedTuple):
    """Assembly whose operands are ``$0``, ..., with a letter for the size of each; the first ones are results."""

    text: str
    operands: str


def write_function(number: int, statement: Statement) -> str:
    """Return a function of all operands, which are read from and written to an array."""
    body = parser.parse(statement.text)
    sizes = [BITS[letter] for letter in statement.operands]
    lines = [f"{_CONTAINERS[bits]} o{i} = ({_CONTAINERS[bits]})of[{i}];" for i, bits in enumerate(sizes)]
    lines += emit.write(body, [(f"o{i}", bits) for i, bits in enumerate(sizes)], Bare())
    lines += [f"of[{i}] = o{i};" for i in range(len(sizes))]
    head = f'extern "C" void f{number}(uint64_t* of, long rows, long columns) {{\nfor (; rows--; of += columns) {{\n'
    return head + "\n".join(lines) + "\n}\n}\n"


def compile_statements(folder: Path, statements: Sequence[Statement], flags: Sequence[str] = ("-O1",)) -> ctypes.CDLL:
    """Return a library with a function for each statement."""
    source, made, library = (folder / f"statements.{end}" for end in ("cpp", "o", "so"))
    text = "".join(write_function(number, one) for number, one in enumerate(statements))
    source.write_text(f'#include "host_ptx/ptx.h"\n{text}')
    # Two steps: with -ffast-math, the linker would add code that changes the whole process's arithmetic.
    for words in (
        ["-std=c++17", "-fPIC", "-Wall", f"-I{INCLUDE}", *flags, "-c", str(source), "-o", str(made)],
        ["-shared", str(made), "-o", str(library)],
    ):
        done = subprocess.run(["c++", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def call(library: ctypes.CDLL, number: int, rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Run a statement once for each row of operands, and return the rows that it leaves."""
    columns = len(rows[0])
    flat = (ctypes.c_uint64 * (columns * len(rows)))(*(value for row in rows for value in row))
    function = getattr(library, f"f{number}")
    function.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
    function.restype = None
    function(flat, len(rows), columns)
    return [list(flat[start : start + columns]) for start in range(0, len(flat), columns)]
