"""Settings without effect on a driver: ignored, which the log reports at INFO, or refused, which is an error.

A setting is refused if the program would otherwise rely on something untrue. The rows are in :mod:`.options`.
"""

from __future__ import annotations

import dataclasses

CUDA, MPS, VIRTUAL, CPU = "cuda", "mps", "virtual", "cpu"


@dataclasses.dataclass(frozen=True)
class Ignored:
    """A setting without effect on a driver, and why that is harmless."""

    why: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """A setting that a driver cannot apply, and why ignoring it would mislead."""

    why: str
