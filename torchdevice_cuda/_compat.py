"""Everything that depends on the version of torch or of its CUDA build, in one place."""

from __future__ import annotations

import dataclasses
import re

MINIMUM = (2, 6)
NEWEST_KNOWN = (2, 15)


@dataclasses.dataclass(frozen=True)
class Build:
    """What the default Linux wheel of a torch release, from this one on, is built with."""

    since: tuple[int, int]
    cuda: str
    nccl: tuple[int, int, int]
    cudnn: tuple[int, int, int]
    cusparselt: int


# A CPU build has none of these libraries of its own, and programs read their versions to choose code paths.
_BUILDS: tuple[Build, ...] = (
    Build((2, 11), "13.0", (2, 28, 9), (9, 19, 0), 800),
    Build((2, 9), "12.8", (2, 27, 5), (9, 10, 2), 701),
    Build((2, 8), "12.8", (2, 27, 3), (9, 10, 2), 701),
    Build((2, 7), "12.6", (2, 26, 2), (9, 5, 1), 603),
    Build((2, 6), "12.4", (2, 21, 5), (9, 1, 0), 602),
)


def torch_release(version: str) -> tuple[int, int]:
    """``(major, minor)`` of a torch version string such as ``2.13.0+cpu``."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"torch version {version!r} has no major and minor number")
    return int(match[1]), int(match[2])


def _build(version: str) -> Build:
    release = torch_release(version)
    return next((build for build in _BUILDS if release >= build.since), _BUILDS[-1])


def cuda_version(version: str) -> str:
    """The CUDA version that goes with a torch release, such as ``12.8``."""
    return _build(version).cuda


def nccl_version(version: str) -> tuple[int, int, int]:
    """The NCCL version that goes with a torch release."""
    return _build(version).nccl


def cudnn_version(version: str) -> tuple[int, int, int]:
    """The cuDNN version that goes with a torch release."""
    return _build(version).cudnn


def cusparselt_version(version: str) -> int:
    """The cuSPARSELt version that goes with a torch release, as one number."""
    return _build(version).cusparselt


def complex128_on_mps(version: str) -> bool:
    """Whether torch makes complex128 tensors on MPS, where nothing can compute with them."""
    return torch_release(version) < (2, 12)


def cxx_standard(version: str) -> str:
    """The C++ standard that torch's headers are written in: they use C++20's since 2.12."""
    return "c++20" if torch_release(version) >= (2, 12) else "c++17"
