"""Triton's kernels: numbers to the last bits, and what a kernel that ends the context leaves behind."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

RECORD = "triton-h200.json"
NEEDS = "triton"
PROGRAMS = Path(__file__).resolve().parents[1] / "foreign" / "programs"
#: Sums of bfloat16 are rounded at every step, in the GPU's order; the rest differs in the last bits of float32.
ROUGH = {"bf16 arithmetic": 2e-2}
FINE = 2e-6


def run_program(*words: str) -> Any:
    """Run a program as this one was started; the JSON in its last line."""
    command = [sys.executable, *os.environ.get("RECORD_LAUNCHER", "").split(), str(PROGRAMS / words[0]), *words[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return json.loads(done.stdout.strip().splitlines()[-1])


def are_close(name: str, there: list[Any], here: list[Any]) -> bool:
    """Tell whether two lists of numbers are the same, nearly."""
    near = ROUGH.get(name, FINE)
    return len(there) == len(here) and all(
        math.isclose(a, b, rel_tol=near, abs_tol=near) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(there, here, strict=True)
    )


def split(name: str, there: Any, here: Any) -> dict[str, tuple[Any, Any]]:
    """Return the lists of numbers, and what was left behind."""
    if name != "numbers" or not isinstance(here, dict):
        return {name: (there, here)}
    return {part: (numbers, here.get(part, [])) for part, numbers in there.items()}


def find_difference(there: Any, here: Any, case: Any) -> str | None:
    is_alike = are_close(case.name, there, here) if isinstance(there, list) else there == here
    return None if is_alike else "differs"


def list_cases() -> dict[str, Callable[[], Any]]:
    kernels = ("address", "assertion")
    losing = {f"losing {kernel}": partial(run_program, "triton_losing.py", kernel) for kernel in kernels}
    return {"numbers": partial(run_program, "triton_numbers.py"), **losing}
