"""Measure random numbers on the virtual GPU and on the CPU in one run.

    python tools/bench/draws.py [--json] [--threads 1] [--only rand,dropout]

A GPU's numbers are computed (Philox, and a transcendental function for normal ones), the CPU's are those of its own
generator. Sides alternate and the best of several repeats counts, so that both see the same machine. Of one thread its
own time is measured, which other programs disturb little; of more, the clock's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from on_virtual import begin, find_best_us, show
from torch.nn.functional import dropout

SIZES = (1_000, 100_000, 10_000_000)


def draws(device: str, size: int) -> dict[str, Callable[[], object]]:
    """Ways to draw `size` numbers on a device."""
    out, ones = torch.empty(size, device=device), torch.ones(size, device=device)
    whole = torch.empty(size, device=device, dtype=torch.int64)
    return {
        "rand": lambda: out.uniform_(),
        "randn": lambda: out.normal_(),
        "randint": lambda: whole.random_(0, 1000),
        "bernoulli": lambda: out.bernoulli_(0.3),
        "dropout": lambda: dropout(ones, 0.1),
        "exponential": lambda: out.exponential_(),
    }


def main() -> None:
    """The command line."""
    options, only = begin(__doc__)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    rows: list[dict[str, object]] = []
    for size in SIZES:
        on_cpu, on_cuda = draws("cpu", size), draws("cuda", size)
        for name in on_cpu:
            if only and name not in only:
                continue
            a, b = find_best_us([on_cpu[name], on_cuda[name]], size, clock)
            ratio = round(b / a, 2)
            rows.append({"what": name, "size": size, "cpu_us": round(a, 1), "virtual_us": round(b, 1), "ratio": ratio})
    show(rows, options)


if __name__ == "__main__":
    main()
