"""How long the operators of MLX's table take on the GPU, through MLX and on the CPU: what thresholds can be set from.

Sizes and figures are those of ``tools/bench/mlx.py``: seconds, the best of a few, by operator, dtype and size class;
copies into MLX's arrays and back included, those between GPU and CPU not. Operators that the GPU lacks come first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from ....fallback import kernels, mlx_ops, thresholds
from ....fallback.capabilities import missing
from ....fallback.mlx_arrays import mlx
from .. import bare
from ..asking import Finding, expect, main, question
from ..samples import arguments

#: Powers of two, in elements.
_SIZES = (10, 14, 18)
#: For everything, and for one operator at one place.
_BUDGET_S, _SHARE_S, _ROUNDS = 8.0, 0.02, 5


def _best(call: Callable[[], Any]) -> float | None:
    """The best time of a few; ``None`` where it cannot be had."""
    best, spent = math.inf, 0.0
    try:
        call()  # what is compiled for it is, now
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            call()
            took = time.perf_counter() - started
            best, spent = min(best, took), spent + took
            if spent > _SHARE_S:
                break
    except (RuntimeError, TypeError, ValueError):
        return None
    return best


def _there(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(bare.bring_up())
    return [_there(item) for item in value] if isinstance(value, list) else value


def _on_gpu(op: Callable[..., Any], made: tuple[Any, ...]) -> float | None:
    """On the GPU, with the wait for it."""
    try:
        moved = [_there(value) for value in made]
    except (RuntimeError, TypeError):
        return None

    def call() -> None:
        op(*moved)
        torch.mps.synchronize()

    return _best(call)


@question
def the_table() -> Finding:
    lacking = {name.removeprefix("aten::") for name in missing("MPS")}
    order = sorted(mlx_ops.TABLE, key=lambda name: (name not in lacking, name))
    has_mlx, until = mlx() is not None, time.monotonic() + _BUDGET_S
    rows: list[list[Any]] = []
    late: list[str] = []
    for power in _SIZES:
        for name in order:
            if time.monotonic() > until:
                late.append(f"{name} of 2**{power}")
                continue
            made = arguments(name, 1 << power)
            if made is None:
                continue
            op, entry, tensors = kernels.overload(name), mlx_ops.TABLE[name], mlx_ops.tensors(made)
            size = thresholds.size_class(max(tensor.numel() for tensor in tensors))
            times = (
                _best(lambda op=op, made=made: op(*made)),  # type: ignore[misc]
                _best(lambda entry=entry, made=made: mlx_ops.run(entry, *made)) if has_mlx else None,  # type: ignore[misc]
                _on_gpu(op, made),
            )
            rows.append([name, str(tensors[0].dtype).removeprefix("torch."), size, *times])
    expect(rows, "no operator was measured")
    won = sum(row[4] is not None and thresholds.wins((row[3], row[4])) for row in rows if row[3] is not None)
    figures = {
        "columns": ["operator", "dtype", "size class", "CPU", "MLX", "GPU"],
        "rows": rows,
        "lacking on the GPU": sorted(lacking & set(mlx_ops.TABLE)),
        "not measured for want of time": late,
        "machine": thresholds.machine(),
    }
    return f"{len(rows)} figures; MLX beat the CPU in {won}", figures


@question
def a_large_product() -> Finding:
    """What a GPU is for."""
    host = torch.rand(1024, 1024)
    on_cpu, on_gpu = _best(lambda: host @ host), _on_gpu(torch.mm, (host, host))
    return {"seconds on the CPU": on_cpu, "on the GPU": on_gpu}


if __name__ == "__main__":
    main()
