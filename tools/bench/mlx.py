"""Measures from which size on MLX is faster than the CPU, copies into MLX's arrays and back included.

    python tools/bench/mlx.py [--write] [--ship] [--largest 18] [--only mm,sort] [--found torchdevice-doctor-....json]

``--write`` keeps the figures in the cache, so that the fallback chain need not measure on this machine. ``--ship`` puts
sizes into the table that comes with the package, for MLX's kind of device (``cpu``, ``gpu``): what a machine goes by
that cannot measure for itself, so that only clear wins enter, at two sizes or more. ``--found`` measures nothing: the
figures are those that ``python -m torchdevice_cuda --doctor`` wrote down, on another machine perhaps.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if Path(sys.path[0]) == Path(__file__).resolve().parent:
    del sys.path[0]  # this file is called mlx too, and must not be found in MLX's place

import torch  # noqa: E402

from torchdevice_cuda.doctor.samples import COLUMNS, arguments  # noqa: E402
from torchdevice_cuda.fallback import mlx_ops, thresholds  # noqa: E402
from torchdevice_cuda.fallback.operators import overload  # noqa: E402

SMALLEST, STEP = 10, 4  # powers of two, in elements
CLEARLY = 0.5  # of the CPU's time, for what other machines are to go by


def both(on_cpu: Callable[[], Any], through_mlx: Callable[[], Any]) -> thresholds.Pair:
    """Return the best times of both, taken in turn: what else the machine does meets both.

    The CPU gets the better of one thread and all of them: on busy cores its threads wait for each other.
    """
    best, spent, threads = [math.inf, math.inf], 0.0, torch.get_num_threads()
    for number in (1, threads):
        torch.set_num_threads(number)
        on_cpu()
        while spent < (0.05 if number == 1 else 0.1):
            for place, call in enumerate((on_cpu, through_mlx)):
                started = time.perf_counter()
                call()
                took = time.perf_counter() - started
                best[place] = min(best[place], took)
                spent += took
    return best[0], best[1]


def measure(name: str, largest: int) -> dict[thresholds.Key, thresholds.Pair]:
    """Times of an operator by size class; empty where nobody has thought of arguments."""
    op, entry, found = overload(name), mlx_ops.TABLE[name], {}
    for power in range(SMALLEST, largest + 1, STEP):
        made = arguments(name, 1 << power)
        if made is None:
            break
        tensors = mlx_ops.tensors(made)
        size = thresholds.size_class(max(tensor.numel() for tensor in tensors))
        mlx_ops.run(entry, *made)  # compiles, on a GPU
        pair = both(lambda made=made: op(*made), lambda made=made: mlx_ops.run(entry, *made))
        found[name, str(tensors[0].dtype).removeprefix("torch."), size] = pair
    return found


def least(found: dict[thresholds.Key, thresholds.Pair], below: float = thresholds.WINS_BELOW) -> int | None:
    """Return the size from which on MLX always took less than a part of the CPU's time, ``None`` if there is none."""
    size = None
    for key in sorted(found, reverse=True):
        if found[key][1] >= below * found[key][0]:
            break
        size = 1 << (key[2] - 1)
    return size


def found_by_doctor(path: str) -> tuple[str, dict[str, dict[thresholds.Key, thresholds.Pair]]]:
    """Return the machine and the figures that the doctor wrote down."""
    checks = json.loads(Path(path).read_text(encoding="utf-8"))["checks"]
    told = [answer["figures"] for check in checks if check["name"] == "speed" for answer in check["answers"]]
    figures: dict[str, dict[thresholds.Key, thresholds.Pair]] = {}
    for row in (figure[COLUMNS] for figure in told if COLUMNS in figure):
        name, dtype, size, on_cpu, through_mlx, _ = row
        if on_cpu is not None and through_mlx is not None:
            figures.setdefault(name, {})[name, dtype, size] = (on_cpu, through_mlx)
    return next(figure["machine"] for figure in told if "machine" in figure), figures


def ship(figures: dict[str, dict[thresholds.Key, thresholds.Pair]], machine: str) -> None:
    """Replace the shipped sizes of MLX's kind of device."""
    table = json.loads(thresholds.DEFAULTS.read_text(encoding="utf-8"))
    sizes: dict[str, dict[str, int]] = {}
    for name, found in figures.items():
        size = least(found, CLEARLY)
        if size is not None and size < 1 << (max(key[2] for key in found) - 1):
            sizes[name] = {next(iter(found))[1]: size}
    kind = re.fullmatch(r"mlx \S+ on (\w+), .*", machine)
    assert kind is not None, f"MLX was not there: {machine}"
    table[kind[1]] = {"measured": machine, "least": sizes}
    thresholds.DEFAULTS.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures for the fallback chain on this machine")
    parser.add_argument("--ship", action="store_true", help="put the sizes into the package's own table")
    parser.add_argument("--largest", type=int, default=18, help="the largest size, as a power of two")
    parser.add_argument("--only", default="", help="operators, comma-separated")
    parser.add_argument("--found", help="a file of the doctor's, in the place of measuring")
    options = parser.parse_args()
    if options.found and options.write:
        parser.error("--write is for figures of this machine, --found for those of any")
    machine, figures = found_by_doctor(options.found) if options.found else (thresholds.machine(), {})
    print(machine)
    for name in options.only.split(",") if options.only else sorted(mlx_ops.TABLE):
        found = figures.get(name, {}) if options.found else measure(name, options.largest)
        figures[name] = found
        size = least(found)
        ratios = "  ".join(f"{1 << (key[2] - 1)}: {pair[0] / pair[1]:.2f}" for key, pair in found.items())
        verdict = "not measured" if not found else "never" if size is None else f"from {size}"
        print(f"{name:28} {verdict:>14}  CPU/MLX  {ratios}", flush=True)
    if options.write:
        known = thresholds.Figures()
        for found in figures.values():
            for key, pair in found.items():
                known.add(key, pair)
        known.save()
        print("kept in the cache:", thresholds.FILE)
    if options.ship:
        ship(figures, machine)
        print("written to", thresholds.DEFAULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
