"""Checks of kernels (``--sanitize``): the headers of the checks, and the findings of this process and its children."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

#: C++ headers that checked kernels of CUDA C++ and of Triton include.
INCLUDE = Path(__file__).parent / "include"
#: These, and what they include.
SOURCES = (INCLUDE, INCLUDE.parents[1] / "native" / "csrc" / "initcheck")


def start(tools: str) -> None:
    """Collect findings from now on; ``tools`` is the setting's text."""
    from . import findings

    findings.start(tools)


def list_findings() -> list[dict[str, Any]]:
    """Return the findings so far, as fields of a report's."""
    found = sys.modules.get(f"{__name__}.findings")
    return found.describe() if found is not None else []


def stop() -> None:
    """Collect no more findings."""
    if found := sys.modules.get(f"{__name__}.findings"):
        found.stop()
