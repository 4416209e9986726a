"""How many compilers of CUDA C++ run at a time: as many as there are cores, and as the free memory allows."""

from __future__ import annotations

import contextlib
import logging
import os

_log = logging.getLogger("torchdevice_cuda")
#: What a file with many instances of kernels takes to compile.
BYTES = 3 << 30


def count_jobs() -> int | None:
    """Return the number of parallel compilers if the free memory limits it, else ``None``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(ImportError, OSError):
        import psutil

        free: int = psutil.virtual_memory().available
        jobs = max(1, free // BYTES)
        if jobs < cores:
            _log.warning(
                "%d of %d compilers run at a time: %.1f GiB of memory are free, and a file of CUDA C++ takes up to %d; "
                "set MAX_JOBS to choose another number",
                *(jobs, cores, free / (1 << 30), BYTES >> 30),
            )
            return jobs
    return None
