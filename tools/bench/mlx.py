"""Measures from which size on MLX is faster than the CPU for a tensor that comes from the GPU, copies included.

    python tools/bench/mlx.py [--write] [--largest 22] [--only mm,sort]

``--write`` keeps the figures in the cache, where the fallback chain reads them; they hold for this machine, this MLX
and this torch. An operator whose figure is "never" stays on the CPU.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if Path(sys.path[0]) == Path(__file__).resolve().parent:
    del sys.path[0]  # this file is called mlx too, and must not be found in MLX's place

import torch  # noqa: E402

from torchdevice_cuda.fallback import cpu, kernels, mlx_ops, thresholds  # noqa: E402

SMALLEST = 10  # powers of two, in elements


def square(count: int, batch: bool = False) -> torch.Tensor:
    side = max(2, math.isqrt(count))
    made = torch.rand(side, side) + side * torch.eye(side)
    return (made + made.T)[None] if batch else made + made.T


def vector(count: int) -> torch.Tensor:
    return torch.rand(count) * 0.8 + 0.1


def matrix(count: int) -> torch.Tensor:
    return vector(count).reshape(-1, 64)


#: Arguments of operators that are not called with one vector, or with two.
ARGUMENTS: dict[str, Callable[[int], tuple]] = {
    **dict.fromkeys(("mm", "linalg_solve_triangular"), lambda n: (square(n), square(n))),
    "bmm": lambda n: (square(n, True), square(n, True)),
    "mv": lambda n: (square(n), torch.rand(max(2, math.isqrt(n)))),
    "addmm": lambda n: (square(n), square(n), square(n)),
    **dict.fromkeys(
        ("linalg_cholesky_ex", "linalg_inv_ex", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_qr",
         "_linalg_svd", "tril", "triu"), lambda n: (square(n),)),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), lambda n: (matrix(n), 1)),
    **dict.fromkeys(("_softmax", "_log_softmax"), lambda n: (matrix(n), 1, False)),
    **dict.fromkeys(("sum.dim_IntList", "mean.dim", "logsumexp", "amax", "amin"), lambda n: (matrix(n), [1])),
    **dict.fromkeys(("max.dim", "min.dim", "prod.dim_int", "argmax", "argmin"), lambda n: (matrix(n), 1)),
    "topk": lambda n: (matrix(n), 8, 1),
    "kthvalue": lambda n: (matrix(n), 8, 1),
    "_fft_r2c": lambda n: (vector(n), [0], 0, True),
    "_fft_c2c": lambda n: (vector(n).to(torch.complex64), [0], 0, True),
    "_fft_c2r": lambda n: (vector(n).to(torch.complex64), [0], 2, n),
    "take": lambda n: (vector(n), torch.arange(n).flip(0)),
    "index_select": lambda n: (matrix(n), 0, torch.arange(n // 64).flip(0)),
    "gather": lambda n: (matrix(n), 1, torch.zeros(n // 64, 64, dtype=torch.int64)),
    "flip": lambda n: (matrix(n), [1]),
    "roll": lambda n: (matrix(n), [3], [1]),
    "cat": lambda n: ([matrix(n), matrix(n)],),
    "convolution": lambda n: (
        torch.rand(1, 16, max(4, math.isqrt(n // 16)), max(4, math.isqrt(n // 16))), torch.rand(16, 16, 3, 3), None,
        [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
}  # fmt: skip


def arguments(name: str, count: int) -> tuple | None:
    """Arguments of an operator of about ``count`` elements; ``None`` if nobody has thought of any."""
    entry = mlx_ops.TABLE[name]
    tries = [ARGUMENTS[name]] if name in ARGUMENTS else [lambda n: (vector(n),), lambda n: (vector(n), vector(n))]
    for make in tries:
        made = make(count)
        try:
            if mlx_ops.fits(entry, made, {}):
                kernels.overload(name)(*made)
                return made
        except (RuntimeError, TypeError):
            continue
    return None


def seconds(call: Callable[[], Any]) -> float:
    """The best of several calls."""
    call()
    best, spent = math.inf, 0.0
    while spent < 0.05:
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
        spent += time.perf_counter() - started
    return best


def least(name: str, largest: int, device: torch.device) -> tuple[int | None, str]:
    """The smallest measured size from which on MLX wins, and the ratios by size."""
    shape = cpu.Shape.of(kernels.overload(name))
    through_cpu = cpu.carried(shape, device)
    through_mlx = cpu.carried(shape, device, inner=functools.partial(mlx_ops.run, mlx_ops.TABLE[name]))
    found, ratios = None, []
    for power in range(SMALLEST, largest + 1, 4):
        made = arguments(name, 1 << power)
        if made is None:
            return None, "not measured"
        given = torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, made)
        on_cpu = seconds(lambda given=given: through_cpu(*given))
        on_mlx = seconds(lambda given=given: through_mlx(*given))
        ratios.append(f"2^{power}: {on_cpu / on_mlx:.2f}")
        found = (found or 1 << power) if on_mlx < 0.9 * on_cpu else None
    return found, "  ".join(ratios)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures for the fallback chain")
    parser.add_argument("--largest", type=int, default=22, help="the largest size, as a power of two")
    parser.add_argument("--only", default="", help="operators, comma-separated")
    options = parser.parse_args()
    device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    print(thresholds.machine(), "- tensors on", device)
    figures: dict[str, int] = {}
    for name in options.only.split(",") if options.only else sorted(mlx_ops.TABLE):
        size, ratios = least(name, options.largest, device)
        print(f"{name:28} {'never' if size is None else f'from {size}':>14}  CPU/MLX  {ratios}", flush=True)
        if size is not None:
            figures[name] = size
    if options.write:
        thresholds.store(figures)
        print("written to", thresholds.path())
    return 0


if __name__ == "__main__":
    sys.exit(main())
