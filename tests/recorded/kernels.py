"""CUDA C++ kernels as programs write them (tests/cuda_cpp/forty.cu): their arguments and what they give."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

RECORD = "kernels-h200.json"
NEEDS = "CUDA's headers for NVRTC (cooperative groups)"
SOURCE = Path(__file__).resolve().parents[1] / "cuda_cpp" / "forty.cu"


class Case(NamedTuple):
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    #: Arguments, tensors of the host; which of them are results.
    arguments: Callable[[], list[Any]]
    results: tuple[int, ...]


def numbers(n: int, seed: int = 1) -> list[int]:
    """Return numbers that are equal on every machine and in every version."""
    made, state = [], seed * 7919
    for _ in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        made.append(state >> 8)
    return made


def floats(n: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([(v % 2001 - 1000) / 256 for v in numbers(n, seed)], dtype=torch.float64).to(dtype)


def ints(n: int, seed: int = 1, below: int = 100, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor([v % below for v in numbers(n, seed)], dtype=dtype)


def zeros(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(n, dtype=dtype)


def one(n: int) -> tuple[int, int, int]:
    return (n, 1, 1)


D, H, N, L, B = torch.float64, torch.float16, torch.int32, torch.int64, torch.bfloat16

CASES = [
    Case("vector_add", one(4), one(256), 0, lambda: [floats(1000), floats(1000, 2), zeros(1000), 1000], (2,)),
    Case("axpy_strided", one(2), one(64), 0, lambda: [floats(777), floats(777, 2), 2.5, 777], (1,)),
    Case("guarded_return", one(3), one(100), 0, lambda: [ints(257), zeros(257, N), 257], (1,)),
    Case("parameters_are_own", one(2), one(128), 0, lambda: [floats(200), zeros(200), 200], (1,)),
    Case("reduce_shared", one(4), one(256), 1024, lambda: [floats(1000), zeros(4), 1000], (1,)),
    Case("reduce_shuffle", one(3), one(128), 0, lambda: [floats(5000), zeros(3), 5000], (1,)),
    Case("reduce_double", one(2), one(64), 0, lambda: [floats(3000, 3, D), zeros(2, D), 3000], (1,)),
    Case("matmul_tiled", (3, 3, 1), (16, 16, 1), 0, lambda: [floats(1600), floats(1600, 2), zeros(1600), 40], (2,)),
    Case("histogram_global", one(8), one(64), 0, lambda: [ints(3000), zeros(16, N), 3000], (1,)),
    Case("histogram_shared", one(8), one(64), 0, lambda: [ints(3000, 5), zeros(16, N), 3000], (1,)),
    Case("scan_inclusive", one(1), one(256), 2048, lambda: [ints(250), zeros(250, N), 250], (1,)),
    Case("scan_warp", one(1), one(96), 0, lambda: [ints(96), zeros(96, N)], (1,)),
    Case("stencil_1d", one(4), one(128), 0, lambda: [floats(500), zeros(500), 500], (1,)),
    Case("stencil_2d", (3, 5, 1), (16, 8, 1), 0, lambda: [floats(40 * 37), zeros(40 * 37), 37, 40], (1,)),
    Case("softmax_rows", one(9), one(32), 0, lambda: [floats(9 * 70), zeros(9 * 70), 70], (1,)),
    Case("layer_norm", one(6), one(64), 0,
         lambda: [floats(6 * 130), floats(130, 2), floats(130, 3), zeros(6 * 130), 130, 1e-5], (3,)),
    Case("gather_batched", (2, 1, 3), one(64), 0,
         lambda: [floats(3 * 10 * 8), ints(15, 2, 10, L), zeros(3 * 5 * 8), 10, 8, 5], (2,)),
    Case("scatter_add", one(4), one(64), 0, lambda: [floats(500), ints(500, 3, 40, L), zeros(40), 500], (2,)),
    Case("transpose_tiled", (2, 3, 1), (32, 8, 1), 0, lambda: [floats(70 * 50), zeros(70 * 50), 70, 50], (1,)),
    Case("half_axpy", one(2), one(64), 0, lambda: [floats(300, 1, H), floats(300, 2, H), 300], (1,)),
    Case("half2_fma", one(2), one(64), 0, lambda: [floats(300, 1, H), floats(300, 2, H), 150], (1,)),
    Case("half_in_float", one(1), one(128), 0, lambda: [floats(300, 4, H), zeros(300), 300], (1,)),
    Case("bfloat_scale", one(1), one(128), 0, lambda: [floats(300, 4, B), zeros(300, B), 300], (1,)),
    Case("votes", one(1), one(96), 0, lambda: [ints(96), zeros(9, N)], (1,)),
    Case("barrier_votes", one(1), one(80), 0, lambda: [ints(80), zeros(80, N)], (1,)),
    Case("shuffle_widths", one(1), one(64), 0, lambda: [ints(64), zeros(64, N)], (1,)),
    Case("half_warps", one(1), one(64), 0, lambda: [ints(64), zeros(64, N)], (1,)),
    Case("matched", one(1), one(64), 0, lambda: [ints(64), zeros(64, N)], (1,)),
    Case("atomics_integer", one(4), one(64), 0, lambda: [ints(900, 2, 10000), zeros(6, N), 900], (1,)),
    Case("atomic_by_cas", one(4), one(64), 0, lambda: [floats(900, 2, D), zeros(1, D), 900], (1,)),
    Case("tiles", one(1), one(64), 0, lambda: [ints(64), zeros(8, N)], (1,)),
    Case("vector_types", one(2), one(64), 0, lambda: [floats(400), zeros(400), 100], (1,)),
    Case("dynamic_two_arrays", one(1), one(96), 768, lambda: [floats(96), ints(96, 2, 96), zeros(96), 96], (2,)),
    Case("constants", one(2), one(64), 0, lambda: [floats(200), zeros(200), 200], (1,)),
    Case("last_block", one(7), one(64), 0, lambda: [floats(2000), zeros(7), zeros(1, N), zeros(1), 2000], (1, 2, 3)),
    Case("bitonic", one(1), one(256), 1024, lambda: [ints(256, 9, 10000), 256], (0,)),
    Case("functor", one(2), one(64), 0, lambda: [floats(300), zeros(300), 300], (1,)),
    Case("lambda", one(3), one(128), 0, lambda: [floats(300), zeros(300), 300], (1,)),
    Case("mathematics", one(1), one(64), 0, lambda: [floats(50), zeros(400), 50], (1,)),
    Case("integers", one(1), one(64), 0, lambda: [ints(50, 3, 100000), zeros(400, N), 50], (1,)),
    Case("embedding_backward", one(5), one(32), 0,
         lambda: [floats(60 * 20), ints(60, 2, 12), zeros(12 * 20), 60, 20], (2,)),
    Case("mandelbrot", (4, 4, 1), (16, 8, 1), 0, lambda: [zeros(60 * 30, N), 60, 30], (0,)),
]  # fmt: skip


def summary(tensors: list[torch.Tensor]) -> dict[str, Any]:
    """Enough to compare with: some elements, sums that depend on every element and its place, and all of it exactly."""
    flat = torch.cat([t.double().flatten() for t in tensors])
    places = torch.arange(1, flat.numel() + 1, dtype=torch.float64) % 97
    exact = b"".join(bytes(t.contiguous().view(torch.uint8).tolist()) for t in tensors)
    return {
        "head": flat[:24].tolist(),
        "sum": flat.sum().item(),
        "magnitude": flat.abs().sum().item(),
        "placed": (flat * places).sum().item(),
        "digest": hashlib.sha256(exact).hexdigest()[:16],
    }


def find_headers() -> list[str]:
    """List where CUDA's headers are: a toolkit's, with what CUDA 13's cooperative groups include, and pip's."""
    if "torchdevice_cuda" in sys.modules:  # which has its own
        return []
    spec = importlib.util.find_spec("nvidia")
    packages = (spec and spec.submodule_search_locations) or ()
    roots = [Path("/usr/local/cuda"), *(Path(path) / "cu13" for path in packages)]
    folders = [root / "include" / part for root in roots for part in ("cccl", "")]
    return [str(folder) for folder in folders if folder.is_dir()]


def kernels(source: str) -> dict[str, Any]:
    """All of them out of one compilation, as `torch.cuda._compile_kernel` compiles."""
    from torch.cuda._utils import _cuda_load_module, _nvrtc_compile

    names = [case.name for case in CASES]
    code, _ = _nvrtc_compile(source, names[0], cuda_include_dirs=find_headers(), nvcc_options=["--std=c++17"])
    return _cuda_load_module(code, names)


def run(case: Case, kernel: Any, device: str = "cuda", stream: Any = None) -> dict[str, Any]:
    arguments = [a.to(device) if isinstance(a, torch.Tensor) else a for a in case.arguments()]
    kernel(grid=case.grid, block=case.block, args=arguments, shared_mem=case.shared, stream=stream)
    torch.cuda.synchronize()
    return summary([arguments[i].cpu() for i in case.results])


@functools.cache
def compiled() -> dict[str, Any]:
    return kernels(SOURCE.read_text())


def list_cases() -> dict[str, Callable[[], dict[str, Any]]]:
    return {case.name: lambda case=case: run(case, compiled()[case.name]) for case in CASES}
