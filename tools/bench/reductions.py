"""Measure reductions on the virtual GPU and on the CPU in one run.

    python tools/bench/reductions.py [--json] [--threads 1] [--only sum,norm]

The virtual GPU adds in the order of CUDA's kernel. Rows, columns and whole tensors have loops of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from on_virtual import begin, find_best_us, show

#: A shape and the reduced dimension.
CASES = (
    *(((1 << 22,), 0), ((100_000,), 0), ((1000,), 0), ((2048, 2048), 0), ((1000, 1000), 0), ((4096, 64), 0)),
    *(((2048, 2048), 1), ((1000, 1000), 1), ((256, 256), 1), ((4096, 64), 1), ((4096, 150), 1), ((10_000, 7), 1)),
    ((64, 512, 56), 1),
)
REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "norm": torch.linalg.vector_norm,
    "var": torch.var,
    "prod": torch.prod,
}


def main() -> None:
    """The command line."""
    options, only = begin(__doc__)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    rows: list[dict[str, object]] = []
    for shape, dim in CASES:
        host = torch.rand(shape)
        device = host.cuda()
        for name, call in REDUCTIONS.items():
            # The CPU's products and variances take a hundred times as long.
            if (only and name not in only) or (name in ("prod", "var") and host.numel() > 1 << 16):
                continue
            sides = [partial(call, t, dim=dim) for t in (host, device)]
            a, b = find_best_us(sides, host.numel(), clock)
            what = f"{name} {'x'.join(map(str, shape))} {dim}"
            rows.append({"what": what, "cpu_us": round(a, 1), "virtual_us": round(b, 1), "ratio": round(b / a, 2)})
    show(rows, options)


if __name__ == "__main__":
    main()
