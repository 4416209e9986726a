"""Measure the cost of tensors that report CUDA on the Apple GPU.

    python tools/bench/identity.py [--cycles 5] [--repeats 1000] [--policy accelerate] [--json]

One process measures the same statements on the same tensors while torchdevice_cuda is active and after it has been
deactivated, when torch is stock, in turns; each figure is the best of many repeats. On machines without an Apple GPU
the device is emulated (TORCHDEVICE_EMULATE_MPS=1), which makes no difference: an attribute is not an operation.
The bar: ``x.device`` costs at most 0.6 microseconds more, other attributes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import timeit
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

#: Statement, and the microseconds that it may cost more; ``None`` where nothing is promised.
ROWS: tuple[tuple[str, float | None], ...] = (
    ("x.device", 0.6),
    ("c.device", 0.6),
    ("x.is_cuda", 0.6),
    ("x.is_cpu", 0.6),
    ("x.get_device()", 0.6),
    ("x.shape", 0.05),
    ("x.dtype", 0.05),
    ("x.ndim", 0.05),
    ("x.requires_grad", 0.05),
    ("x.device.type", None),
    ("g.device", None),
)
#: Short slices: whatever else the machine does falls between some of them.
_CALLS = 1000


def best(statement: str, names: dict[str, Any], repeats: int) -> float:
    """Microseconds of the fastest run."""
    return min(timeit.repeat(statement, globals=names, number=_CALLS, repeat=repeats)) / _CALLS * 1e6


def measure(cycles: int, repeats: int, policy: str) -> dict[str, dict[str, float]]:
    """Return the best figures of each statement, active and stock."""
    import torch

    import torchdevice_cuda

    names: dict[str, Any] = {"__name__": "program"}
    found: dict[str, dict[str, float]] = {statement: {} for statement, _ in ROWS}
    for _ in range(cycles):
        for state in ("active", "stock"):
            if state == "active":
                torchdevice_cuda.activate(driver="mps", policy=policy)
                device = "cuda"
            else:
                torchdevice_cuda.deactivate()
                device = "mps"
            names.setdefault("x", torch.ones(2, device=device))
            names.setdefault("c", torch.ones(2))
            names["g"] = torch.Generator(device)
            for statement, _ in ROWS:
                took = best(statement, names, repeats)
                found[statement][state] = min(took, found[statement].get(state, took))
    return found


def main() -> int:
    """Print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--policy", choices=("faithful", "accelerate"), default="faithful")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.cycles, options.repeats, options.policy)
    if options.json:
        print(json.dumps([{"what": name, "more_us": us["active"] - us["stock"]} for name, us in found.items()]))
        return 0
    missed = 0
    print(f"{'':<18}{'stock us':>10}{'active us':>11}{'more us':>9}{'ratio':>7}  bar")
    for statement, bar in ROWS:
        stock, active = found[statement]["stock"], found[statement]["active"]
        over = bar is not None and active - stock > bar
        missed += over
        shown = "" if bar is None else f"+{bar}" + (" MISSED" if over else "")
        print(f"{statement:<18}{stock:>10.3f}{active:>11.3f}{active - stock:>+9.3f}{active / stock:>7.2f}  {shown}")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
