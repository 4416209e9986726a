"""The line for a program that needs triton where it is not installed."""

from __future__ import annotations

import importlib.util
import sys


def advise() -> str:
    """Return what to do without triton."""
    if sys.platform == "darwin":
        return (
            "triton has no release for macOS: run programs with Triton kernels on Linux, for example in a container "
            "with --driver virtual"
        )
    return "triton is not installed; CPU builds of torch do not bring it: pip install triton"


def suggest(error: BaseException) -> str | None:
    """Return the advice for a failed import of triton, or of a module of it, if it is not installed."""
    if not isinstance(error, ImportError) or (error.name or "").partition(".")[0] != "triton":
        return None
    return advise() if importlib.util.find_spec("triton") is None else None
