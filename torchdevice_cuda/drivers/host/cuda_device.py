"""Prepare the compiled CUDA device in host memory, which the driver ``virtual`` shows and others use unseen."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

from ..._compat import cudnn_version

if TYPE_CHECKING:
    import torch

    from ...native.interface import Native
    from ...settings import Settings

#: The GPU whose random numbers are drawn if none was chosen, an H200: multiprocessors, threads of each, capability.
#: Large draws are divided among multiprocessors and their threads, so the numbers depend on them. They do not depend on
#: the processor: a seed gives the same numbers on every machine. Reading the profile's file would delay every start.
DRAWS_AS = (132, 2048, (9, 0))


def describe_gpu(native: Native, settings: Settings) -> None:
    """Set the device's GPU model, and what this processor is fast at."""
    import torch

    from ...native import build, half

    gpu = settings.profile
    multiprocessors, threads, capability = (
        DRAWS_AS if gpu is None else (gpu.multiprocessors, gpu.architecture.threads, gpu.capability)
    )
    native.set_multiprocessors(multiprocessors, threads)
    # This decides which fused attention kernels exist; without a chosen GPU, all do.
    capability = settings.capability or capability
    major, minor, patch = cudnn_version(torch.__version__)
    native.set_capability(*capability, major * 10_000 + minor * 100 + patch)
    half.settle(native, build.origin("cuda").notes)


@functools.cache
def register_cuda_operators() -> torch.library.Library:
    """Register the operators that only CUDA has; once, as the device itself stays registered."""
    from ..cuda_operators import register

    with warnings.catch_warnings():
        # A CUDA build of torch has kernels for real GPUs, which must be overridden.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        return register("CUDA", lambda name: True)
