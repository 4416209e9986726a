"""CUDA names that cannot run here: they are refused at compilation, with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .tokens import Token


class Refused(Exception):
    """The source uses something that is not supported; the message names it and its line."""


_ADVICE = "it needs a real GPU; leave it out with #ifndef TORCHDEVICE_CUDA where the program has another way"
#: Names that a source may not use, and what they are.
NAMES = {
    "cudaTextureObject_t": "a texture",
    "cudaSurfaceObject_t": "a surface",
    "tex1D": "a texture",
    "tex1Dfetch": "a texture",
    "tex2D": "a texture",
    "tex3D": "a texture",
    "this_cluster": "a cluster of blocks",
    "block_tile_memory": "a tile of more than 32 threads",
    "cudaGraphLaunch": "CUDA's own graphs; torch.cuda.CUDAGraph is supported",
    "cudaStreamBeginCapture": "CUDA's own graphs; torch.cuda.CUDAGraph is supported",
    "cudaIpcGetMemHandle": "memory of other processes",
    "cudaMemcpyAsync_ptsz": "per-thread streams",
    **dict.fromkeys(("curandCreateGenerator", "curandCreateGeneratorHost"), "cuRAND's generators of the host"),
    **dict.fromkeys(
        "curandStateMRG32k3a curandStateMRG32k3a_t curandStateMtgp32 curandStateMtgp32_t curandStateSobol32 "
        "curandStateSobol32_t curandStateSobol64 curandStateSobol64_t curandStateScrambledSobol32 "
        "curandStateScrambledSobol64 curand_poisson curand_discrete".split(),
        "a generator or distribution of cuRAND besides Philox4_32_10, XORWOW, uniform, normal and log-normal",
    ),
}
#: Libraries of NVIDIA's whose headers have no counterpart here.
HEADERS = {
    "cublasLt.h": "cuBLASLt; cublas_v2.h and at::mm are supported",
    "cusparse.h": "cuSPARSE",
    "cusolverDn.h": "cuSOLVER; torch.linalg is supported",
    "cufft.h": "cuFFT; torch.fft is supported",
    "cudnn.h": "cuDNN; torch.nn is supported",
    "nccl.h": "NCCL; torch.distributed is supported",
    "cutlass/cutlass.h": "CUTLASS",
    "nvrtc.h": "NVRTC; torch.cuda._compile_kernel is supported",
}
#: Prefixes of libraries of which only parts, or nothing, is here.
FOLDERS = {
    "cub": "CUB, but for what docs/kernels.md lists",
    "thrust": "Thrust, but for what docs/kernels.md lists",
    "cute": "CuTe",
    "cutlass": "CUTLASS",
    "cuda/std": "libcu++",
    "cuda": "libcu++",
}


def check(tokens: list[Token], where: str) -> Iterator[str]:
    """List the refused names of a source, each with its line."""
    for token in tokens:
        if token.kind == "name" and token.text in NAMES:
            yield f"{where}:{token.line}: error: {token.text} is not supported here: {NAMES[token.text]}; {_ADVICE}"


def describe(what: str) -> str:
    """Return the message for something that is not supported."""
    return f"{what} is not supported here; {_ADVICE}"


#: Other headers of the toolkit, by their names.
_TOOLKIT = re.compile(
    r"(?:cu(?:blas|da|dart|dnn|fft|file|rand|solver|sparse|pti|tensor)\w*|nv(?:jpeg|rtc|ml|blas|JitLink|PTXCompiler|ToolsExt)\w*"
    r"|npp\w*|fatbinary\w*|(?:crt|nvtx3|cooperative_groups|nv)/[\w/]+)\.(?:h|hpp|cuh)"
)


def header(name: str) -> str:
    """Why a header is not here, or nothing."""
    if name in HEADERS:
        return HEADERS[name]
    folder = next((folder for folder in FOLDERS if name.startswith(f"{folder}/")), None)
    if folder is not None:
        return FOLDERS[folder]
    return "a library of CUDA's toolkit" if _TOOLKIT.fullmatch(name) else ""
