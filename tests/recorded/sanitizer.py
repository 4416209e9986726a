"""Kernels that are wrong (tests/cuda_cpp/wrong.cu): what memcheck and racecheck of compute-sanitizer say of each.

``bare`` is what the GPU says without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from recorded._toolkit import compile_program, find_tool, run_program

RECORD = "sanitizer-h200.json"
NEEDS = "nvcc and compute-sanitizer"
SOURCE = Path(__file__).resolve().parents[1] / "cuda_cpp" / "wrong.cu"
#: The kernels in the order of the program's cases.
MEMORY = "read_past write_past write_double misaligned null_read atomic_past shared_past dynamic_past".split()
RACES = "race_raw race_waw race_war race_in_warp race_same_value race_atomic no_race_warp diverges".split()
_SAID = re.compile(
    r"(?P<what>Invalid __\w+__ \w+ of size \d+ bytes)\s.*?"
    r"by thread \((?P<thread>[\d,]+)\) in block \((?P<block>[\d,]+)\).*?Access (?:to|at) 0x\w+ (?P<why>is [^\n]+)",
    re.DOTALL,
)
#: In the report, or, of an atomic function, in the stack below it.
_LINE = re.compile(r"wrong\.cu:(\d+)\b")
_NEAREST = re.compile(r"and is (.+?) the nearest allocation at 0x\w+ of size ([\d,]+) bytes")
_RACE = re.compile(
    r"(Error|Warning): Race reported between (\w+) access at [^\n]*wrong\.cu:(\d+)[^\n]*\n"
    r"=+\s+and (\w+) access at [^\n]*wrong\.cu:(\d+)"
)


def read_memcheck(text: str) -> dict[str, Any]:
    """Return the first report of memcheck."""
    found, nearest = _SAID.search(text), _NEAREST.search(text)
    line = found and _LINE.search(text, found.start())
    assert found is not None and line is not None, text
    return {
        "what": found["what"],
        "line": int(line[1]),
        "thread": [int(word) for word in found["thread"].split(",")],
        "block": [int(word) for word in found["block"].split(",")],
        "why": found["why"].strip(),
        "where": nearest and nearest[1],
        "size": nearest and int(nearest[2].replace(",", "")),
    }


def read_racecheck(text: str) -> list[list[Any]]:
    """Return the pairs of accesses that racecheck reports."""
    return [[level, first, int(a), second, int(b)] for level, first, a, second, b in _RACE.findall(text)]


def run_kernel(number: int) -> dict[str, Any]:
    program = compile_program(SOURCE, "-lineinfo")
    bare = run_program(program, number).partition("sync: ")[2].strip()
    tool = "memcheck" if number < len(MEMORY) else "racecheck"
    text = run_program(find_tool("compute-sanitizer"), "--tool", tool, program, number)
    said = {"said": read_memcheck(text)} if tool == "memcheck" else {"races": read_racecheck(text)}
    return {"case": number, "bare": bare, **said}


def find_difference(there: dict[str, Any], here: dict[str, Any], case: Any) -> str | None:
    """Compare reports; how far from a null pointer the nearest allocation is depends on the process."""
    for answer in (there, here):
        if case.name == "null_read":
            answer["said"].pop("where", None)
    return None if there == here else "differs"


def list_cases() -> dict[str, Callable[[], dict[str, Any]]]:
    return {name: partial(run_kernel, number) for number, name in enumerate([*MEMORY, *RACES])}
