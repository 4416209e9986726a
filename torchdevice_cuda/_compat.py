"""Everything that depends on the version of torch or of its CUDA build, in one place."""

from __future__ import annotations

import re

MINIMUM = (2, 6)
NEWEST_KNOWN = (2, 15)

# The CUDA toolkit and NCCL that a torch release's default Linux wheel is built with; a CPU build has none of its own,
# and programs read the major version to choose code paths.
_TOOLKITS: tuple[tuple[tuple[int, int], str, tuple[int, int, int]], ...] = (
    ((2, 11), "13.0", (2, 28, 9)),
    ((2, 9), "12.8", (2, 27, 5)),
    ((2, 8), "12.8", (2, 27, 3)),
    ((2, 7), "12.6", (2, 26, 2)),
    ((2, 6), "12.4", (2, 21, 5)),
)


def torch_release(version: str) -> tuple[int, int]:
    """``(major, minor)`` of a torch version string such as ``2.13.0+cpu``."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"torch version {version!r} has no major and minor number")
    return int(match[1]), int(match[2])


def _row(version: str) -> tuple[tuple[int, int], str, tuple[int, int, int]]:
    release = torch_release(version)
    for row in _TOOLKITS:
        if release >= row[0]:
            return row
    return _TOOLKITS[-1]


def cuda_version(version: str) -> str:
    """The CUDA version that the default wheel of this torch release is built with, such as ``12.8``."""
    return _row(version)[1]


def nccl_version(version: str) -> tuple[int, int, int]:
    """The NCCL version that the default wheel of this torch release ships with."""
    return _row(version)[2]
