"""Measure the cost of a report: training steps with and without one, in two processes that take turns.

    python tools/bench/report.py [--steps 30] [--threads 1] [--only resnet18,transformer]

It is processor time, of all threads: what else the machine does is not in it. The ratio of a pair of steps is that of
neighbours in time, so that both see the same machine; the median of the pairs is shown. The bar is 1.05.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
WARM = 3


def worker(name: str, threads: int) -> None:
    """Run a step for each line of standard input, and say how long it took."""
    import torch
    import virtual

    torch.set_num_threads(threads)
    step = {"resnet18": virtual.resnet18, "transformer": virtual.transformer}[name]("cuda")
    for _ in range(WARM):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.process_time()
        step()
        print((time.process_time() - started) * 1e3, flush=True)


def begin(name: str, threads: int, *options: str, root: Path = ROOT) -> subprocess.Popen[str]:
    """A process that waits for its turns, with these options and the package of this folder."""
    program = [str(HERE), "--worker", name, "--threads", str(threads)]
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", *options, *program]
    paths = os.pathsep.join(filter(None, [str(root), str(HERE.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    # `-m` looks in the current folder first.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=root
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise SystemExit(f"the process of {name} did not begin")
    return process


def turn(process: subprocess.Popen[str]) -> float:
    """Milliseconds of a step."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="resnet18,transformer")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            report = ("--report", os.path.join(folder, "report.html"))
            both = [begin(name, options.threads, *given) for given in ((), report)]
            pairs = [(turn(both[0]), turn(both[1])) for _ in range(options.steps)]
            for process in both:
                process.communicate()
            without, counted = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(second / first for first, second in pairs)
            least = min(second for _, second in pairs) / min(first for first, _ in pairs)
            figures = f"{without:.2f} ms without, {counted:.2f} ms with a report"
            print(f"{name}: {figures}; ratio {ratio:.3f}, of the least {least:.3f}", flush=True)


if __name__ == "__main__":
    main()
