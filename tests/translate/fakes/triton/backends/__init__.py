"""GPU vendors that this Triton has code for; torch searches it."""

from __future__ import annotations

import dataclasses

from .nvidia.driver import CudaDriver


@dataclasses.dataclass(frozen=True)
class Backend:
    """A maker's driver; the compiler is not asked for here."""

    driver: type[CudaDriver]


backends = {"nvidia": Backend(CudaDriver)}
