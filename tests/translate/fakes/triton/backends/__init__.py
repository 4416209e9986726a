"""What torch looks through: the makers of GPUs that this triton has code for."""

from __future__ import annotations

import dataclasses

from .nvidia.driver import CudaDriver


@dataclasses.dataclass(frozen=True)
class Backend:
    """A maker's driver; the compiler is not asked for here."""

    driver: type[CudaDriver]


backends = {"nvidia": Backend(CudaDriver)}
