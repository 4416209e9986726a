"""Programs that use cuRAND in kernels, CUB and Thrust: what they print, line by line.

A digest of what was printed, or the numbers, as their bits, where the last places may differ on a host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from recorded._toolkit import compile_program, run_program

RECORD = "libraries-h200.json"
NEEDS = "nvcc"
SOURCES = Path(__file__).resolve().parents[1] / "cuda_cpp" / "libraries"
PROGRAMS = ("curand", "cub", "thrust")
NUMBERS = {"philox normal", "philox normal4", "philox double", "xorwow normal", "xorwow double"}


def read_lines(printed: str) -> dict[str, str]:
    """Return what a program printed, by the lines' names."""
    lines = (line.rsplit(": ", 1) for line in printed.splitlines())
    return {name: values.strip() for name, values in lines}


def summarize(name: str, values: str) -> str:
    """Return what the record has of a line."""
    return values if name in NUMBERS else hashlib.sha256(values.encode()).hexdigest()[:16]


def run_on_gpu(program: str) -> dict[str, str]:
    printed = run_program(compile_program(SOURCES / f"{program}.cu", "-O1"))
    return {name: summarize(name, values) for name, values in read_lines(printed).items()}


def list_cases() -> dict[str, Callable[[], dict[str, str]]]:
    return {program: partial(run_on_gpu, program) for program in PROGRAMS}
