"""Time the operators of MLX's table on the GPU, through MLX and on the CPU, as a basis for thresholds.

Sizes and figures are those of ``tools/bench/mlx.py``: seconds, the best of a few, by operator, dtype and size class,
including copies into MLX's arrays and back, without copies between GPU and CPU. Each operator and size is a separate
question: one that ends the process does not affect the others. Operators that the GPU lacks come first.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import torch

from ...fallback import mlx_ops, thresholds
from ...fallback.capabilities import missing
from ...fallback.mlx_arrays import mlx
from ...fallback.operators import overload
from .. import bare
from ..asking import Finding, NotHereError, add, expect, main, question
from ..samples import COLUMNS, arguments

#: In elements, as powers of two.
_SIZES = (10, 14, 18)
#: For everything, and for one operator on one device.
_BUDGET_S, _SHARE_S, _ROUNDS = 8.0, 0.02, 5


def _best(call: Callable[[], Any]) -> float | None:
    """Return the best time of a few calls; ``None`` if they fail."""
    best, spent = math.inf, 0.0
    try:
        call()  # compiles what it needs
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


def _on_cpu(call: Callable[[], Any]) -> float | None:
    """Return the better time of one thread and all threads: on busy cores threads wait for each other."""
    threads, found = torch.get_num_threads(), []
    for number in (1, threads):
        torch.set_num_threads(number)
        found.append(_best(call))
    return min((took for took in found if took is not None), default=None)


def _there(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(bare.bring_up())
    return [_there(item) for item in value] if isinstance(value, list) else value


def _on_gpu(op: Callable[..., Any], made: tuple[Any, ...]) -> float | None:
    """Return the time on the GPU, including the wait for it."""
    try:
        moved = [_there(value) for value in made]
    except (RuntimeError, TypeError):
        return None

    def call() -> None:
        op(*moved)
        torch.mps.synchronize()

    return _best(call)


bare.bring_up()  # registers the kernels of an emulated GPU
#: Operators that the GPU lacks, for which the figures are used.
_lacking = {name.removeprefix("aten::") for name in missing("MPS")}
_until = time.monotonic() + _BUDGET_S
_measured = _won = 0


def _operator(name: str, power: int) -> Finding:
    global _measured, _won
    if time.monotonic() > _until:
        raise NotHereError("for want of time")
    made = arguments(name, 1 << power)
    if made is None:
        raise NotHereError("nobody has thought of arguments")
    op, entry, tensors = overload(name), mlx_ops.TABLE[name], mlx_ops.tensors(made)
    size = thresholds.size_class(max(tensor.numel() for tensor in tensors))
    on_cpu = _on_cpu(lambda: op(*made))
    through_mlx = None if mlx() is None else _best(lambda: mlx_ops.run(entry, *made))
    _measured += 1
    _won += on_cpu is not None and through_mlx is not None and thresholds.wins((on_cpu, through_mlx))
    row = [name, str(tensors[0].dtype).removeprefix("torch."), size, on_cpu, through_mlx, _on_gpu(op, made)]
    return {COLUMNS: row, "lacking on the GPU": name in _lacking}


def _in_all() -> Finding:
    expect(_measured, "no operator was measured")
    return f"{_measured} figures; MLX beat the CPU in {_won}", {"machine": thresholds.machine()}


for _power in _SIZES:
    for _name in sorted(mlx_ops.TABLE, key=lambda name: (name not in _lacking, name)):
        add(f"{_name}, 2**{_power}", functools.partial(_operator, _name, _power))
add("in all", _in_all)


@question
def a_large_product() -> Finding:
    """Time a large matrix product, the purpose of a GPU."""
    host = torch.rand(1024, 1024)
    on_cpu, on_gpu = _on_cpu(lambda: host @ host), _on_gpu(torch.mm, (host, host))
    return {"seconds on the CPU": on_cpu, "on the GPU": on_gpu}


if __name__ == "__main__":
    main()
