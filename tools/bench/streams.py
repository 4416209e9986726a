"""Measure the cost of adversarial streams and of the detector of races: training steps with and without, in turns.

    python tools/bench/streams.py [--json] [--steps 30] [--threads 1] [--only resnet18,transformer]
    python tools/bench/streams.py --against FOLDER      # also eager steps, beside those of another checkout

The ratios are those of ``report.py``: of processor time, of neighbours in time. The bar is 3, and 1 for eager steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from report import begin, turn

#: Seeds 0 to 3 differ in what they defer.
MODES = {
    "adversarial:0": ("--streams", "adversarial:0"),
    "adversarial:2": ("--streams", "adversarial:2"),
    "check": ("--check-streams", "error"),
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="resnet18,transformer")
    parser.add_argument("--against", type=Path, help="another checkout")
    options = parser.parse_args()
    rows = []
    for name in options.only.split(","):
        eager = begin(name, options.threads)
        others = {mode: begin(name, options.threads, *given) for mode, given in MODES.items()}
        if options.against:
            others["before"] = begin(name, options.threads, root=options.against.resolve())
        turns = [(turn(eager), {mode: turn(other) for mode, other in others.items()}) for _ in range(options.steps)]
        for process in (eager, *others.values()):
            process.communicate()
        for mode in others:
            ratio = statistics.median(taken[mode] / first for first, taken in turns)
            figure = {"what": f"{name} {mode}", "ratio": round(ratio, 3)}
            if mode == "before":
                figure = {"what": f"{name} eager", "ratio": round(1 / ratio, 3)}
            rows.append(figure)
            if not options.json:
                print(f"{figure['what']:26} ratio {figure['ratio']}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
