"""``torch._C`` names of CUDA builds, in Python over the driver.

A module's names are those with CUDA's prefixes (``_cuda_``, ``_nccl_``, ``_gds_``) and those in its ``__all__``;
together they are what a CUDA build has and a CPU build lacks. Stock Python code outside torch.cuda (optimizers, the
compiler, multiprocessing, backends) calls them directly.
"""

from __future__ import annotations

import importlib
from typing import Any

MODULES = (
    "device",
    "streams",
    "allocators",
    "memory",
    "graphs",
    "green_contexts",
    "cudart",
    "libraries",
    "nvtx",
    "nccl",
    "comm",
    "tunable",
    "storage",
)
_OF_CUDA = ("_cuda_", "_nccl_", "_gds_")


def names() -> dict[str, Any]:
    """Return every name with its object."""
    found: dict[str, Any] = {}
    for module in MODULES:
        loaded = importlib.import_module(f"{__name__}.{module}")
        found.update((name, getattr(loaded, name)) for name in loaded.__all__)
        found.update((name, value) for name, value in vars(loaded).items() if name.startswith(_OF_CUDA))
    return found
