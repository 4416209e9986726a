"""GPU behavior that differs from CPU kernels, as data: one row per operator (``operators.toml``).

The native device is compiled from these files. While a program runs, they are read when it first captures a graph on a
driver that has no native device.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from .._compat import read_toml

_FOLDER = Path(__file__).resolve().parent
#: What holds of an operator or does not: keys that are true; ``operators.toml`` explains each.
FLAGS = (
    "asks_grad",
    "calls_parts",
    "indexes",
    "mixes_devices",
    "never_draws",
    "only_moves",
    "only_reads",
    "stays_composite",
    "takes_any_memory",
    "uses_cpu_kernel",
)
#: What a row may say.
KEYS = frozenset(FLAGS).union(
    "asserts compare contiguous divides_integers kernel list_kernel mixed_types mps_refuses nondeterministic refuse "
    "refuses refuses_cpu_number takes ties waits widened words".split()
)


def read_operators() -> dict[str, dict[str, Any]]:
    """Read the rows by operator, in their order; those of a family are repeated for each of its operators."""
    rows: dict[str, dict[str, Any]] = {}
    for first, given in read_toml(_FOLDER / "operators.toml").items():
        row = {key: value for key, value in given.items() if key != "same"}
        if unknown := row.keys() - KEYS:
            known = ", ".join(sorted(KEYS))
            raise ValueError(f"operators.toml: {first} has {', '.join(sorted(unknown))}; what a row may say: {known}")
        for name in (first, *given.get("same", ())):
            if name in rows:
                raise ValueError(f"operators.toml: {name} has two rows")
            rows[name] = row
    return rows


@functools.cache
def read_errors() -> dict[str, dict[str, str]]:
    """Read what kernels assert, by the name that rows have for it."""
    return read_toml(_FOLDER / "errors.toml")


def read_kernel_names() -> dict[str, dict[str, str]]:
    """Read CUDA's names of kernels by those of the CPU's, and by operator ("" for all others)."""
    found = read_toml(_FOLDER / "kernel_names.toml")
    return {cpu: {"": cuda} if isinstance(cuda, str) else cuda for cpu, cuda in found.items()}
