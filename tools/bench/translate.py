"""Measure the cost of translation per call.

    python tools/bench/translate.py [--generations 6] [--rounds 12] [--driver cpu] [--calls 1000000] [--json]

Processes live side by side: stock torch, stock torch again (what it differs by is noise), stock torch with
``torch.set_default_device("cpu")``, and torch under torchdevice_cuda. They take turns at each row in slices of
milliseconds, so that whatever else the machine does falls on all of them alike. Where a process's memory happens to lie
makes small allocations up to a third faster or slower for its whole life: each of several generations of processes
gives one ratio (of medians), and the median of those is shown. At the end a process makes a million translated calls,
and its memory is watched.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
#: How long a slice lasts.
SLICE = 4e-3


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured statement, the same for every driver, with ``D`` for the device that a program names."""

    title: str
    statement: str
    #: what may be lost: a ratio, or microseconds if it begins with "+"
    bar: str


ROWS = (
    Row("x + y", "x + y", "1.02"),
    Row("mm, 64 x 64", "torch.mm(a, a)", "1.02"),
    Row("autograd step", "grad_step()", "1.02"),
    Row("x.device", "x.device", "1.02"),
    Row("x.is_cuda", "x.is_cuda", "1.02"),
    Row("torch.zeros(n)", "torch.zeros(8)", "+0.4"),
    Row("torch.zeros(n, dtype=...)", "torch.zeros(8, dtype=f32)", "+0.4"),
    Row("torch.zeros(n, device=D)", "torch.zeros(8, device=D)", "1.05"),
    Row("torch.zeros(1024, 1024, device=D)", "torch.zeros(1024, 1024, device=D)", "1.05"),
    Row("torch.rand(n, device=D)", "torch.rand(8, device=D)", ""),
    Row("torch.tensor([1.0, 2.0], device=D)", "torch.tensor([1.0, 2.0], device=D)", ""),
    Row("torch.zeros_like(x)", "torch.zeros_like(x)", ""),
    Row("x.new_zeros(n)", "x.new_zeros(8)", ""),
    Row("x.to(D), there already", "x.to(D)", "+0.3"),
    Row("x.to(device=D), there already", "x.to(device=D)", ""),
    Row("x.cuda(), there already", "there()", "+0.3"),
    Row("x.to(torch.float32), is so already", "x.to(f32)", ""),
    Row("transformer training step", "train()", "1.01"),
)


# --------------------------------------------------------------------------- the measured processes
def _namespace(device: str) -> dict:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y, a = torch.ones(8, device=device), torch.ones(8, device=device), torch.ones(64, 64, device=device)
    weight = torch.ones(16, 16, device=device, requires_grad=True)
    data = torch.ones(4, 16, device=device)

    def grad_step() -> None:
        weight.grad = None
        (data @ weight).relu().sum().backward()

    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(layer, torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(8, 16, 32)

    def train() -> None:
        inputs = batch.to(device)
        targets = torch.zeros(8, 16, 1, device=device)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    there = x.cuda if device == "cuda" else x.cpu
    return {"torch": torch, "D": device, "f32": torch.float32, **{k: v for k, v in locals().items() if k != "torch"}}


def serve(kind: str, driver: str) -> None:
    """Answer requests for slices: row numbers come in, microseconds per call go out."""
    import gc
    import timeit

    if kind == "active":
        import torchdevice_cuda

        torchdevice_cuda.activate(driver=driver)
    import torch

    if kind == "default device":
        torch.set_default_device("cpu")
    namespace = _namespace("cuda" if kind == "active" else "cpu")
    timers = [timeit.Timer(row.statement, globals=namespace) for row in ROWS]
    counts: list[int] = []
    for timer in timers:
        timer.timeit(3)
        once = min(timer.timeit(10) for _ in range(5)) / 10
        counts.append(max(1, round(SLICE / once)))
    print("ready", flush=True)
    for line in sys.stdin:
        number = int(line)
        gc.collect(0)
        print(timers[number].timeit(counts[number]) / counts[number] * 1e6, flush=True)


def watch_memory(calls: int, driver: str) -> None:
    """Make many translated calls; print how far the process's memory grew over the last nine tenths of them."""
    import resource

    import torchdevice_cuda

    torchdevice_cuda.activate(driver=driver)
    import torch

    x = torch.ones(8)

    def make(count: int) -> None:
        kept = [None] * 16
        for i in range(count // 4):
            made = torch.zeros(8, device="cuda")
            kept[i % 16] = made.to("cuda"), x.cuda(), made.cpu()

    make(calls // 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make(calls - calls // 10)
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


# ------------------------------------------------------------------------------------- the parent
class Process:
    """A measured process and what it answered."""

    def __init__(self, kind: str, driver: str) -> None:
        self.kind = kind
        self.times: list[list[float]] = [[] for _ in ROWS]
        command = [sys.executable, __file__, "--serve", kind.removesuffix(" again"), "--driver", driver]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        assert self._child.stdout is not None
        if self._child.stdout.readline() != "ready\n":
            raise SystemExit(f"the process {kind!r} did not start")

    def slice(self, number: int) -> float:
        """Measure a row once more."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(f"{number}\n")
        self._child.stdin.flush()
        return float(self._child.stdout.readline())

    def close(self) -> None:
        """Let the process end."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCHDEVICE_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), kept.get("PYTHONPATH")]))}


def measure(processes: list[Process], rounds: int) -> None:
    """Every process measures every row once per round, in another order each time."""
    for _ in range(rounds):
        for number in random.sample(range(len(ROWS)), len(ROWS)):
            for process in random.sample(processes, len(processes)):
                process.times[number].append(process.slice(number))


def holds(row: Row, stock: float, active: float) -> str:
    """Return whether a row is within its bar."""
    if not row.bar:
        return ""
    within = active - stock <= float(row.bar) if row.bar[0] == "+" else active / stock <= float(row.bar)
    return "ok" if within else "MISS"


KINDS = ("stock", "stock again", "default device", "active")


def measure_generation(rounds: int, driver: str) -> list[dict[str, float]]:
    """New processes, measured: for each row the median of each kind, in microseconds."""
    processes = [Process(kind, driver) for kind in KINDS]
    measure(processes, rounds)
    for process in processes:
        process.close()
    return [{p.kind: statistics.median(p.times[number]) for p in processes} for number in range(len(ROWS))]


def ratios_of(found: list[dict[str, float]]) -> dict[str, float]:
    """Compare each kind of process with stock, over the generations of a row."""
    return {
        kind: statistics.median(
            times[kind] / statistics.mean((times["stock"], times["stock again"])) for times in found
        )
        for kind in KINDS
    }


def table(generations: list[list[dict[str, float]]]) -> tuple[str, bool]:
    """Return the rows, and whether every bar holds."""
    lines = [
        f"{'':<36}{'stock':>10}{'active':>10}{'diff':>9}{'ratio':>8}{'bar':>7}{'':>6}{'stock again':>13}"
        f"{'set_default_device':>20}"
    ]
    good = True
    for number, row in enumerate(ROWS):
        found = [generation[number] for generation in generations]
        base = statistics.median(times[kind] for times in found for kind in KINDS[:2])
        ratios = ratios_of(found)
        now = base * ratios["active"]
        verdict = holds(row, base, now)
        good &= verdict != "MISS"
        lines.append(
            f"{row.title:<36}{base:>8.2f}us{now:>8.2f}us{now - base:>+9.2f}{ratios['active']:>8.3f}{row.bar:>7}"
            f"{verdict:>6}{ratios['stock again']:>13.3f}{ratios['default device']:>20.3f}"
        )
    return "\n".join(lines), good


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--generations", type=int, default=6, help="how often to start new processes (6)")
    parser.add_argument("--rounds", type=int, default=12, help="slices of each row in each process (12)")
    parser.add_argument("--driver", default="cpu", help="the driver to measure (cpu)")
    parser.add_argument("--calls", type=int, default=1_000_000, help="calls for the memory row (1000000; 0: none)")
    parser.add_argument("--json", action="store_true", help="the ratios alone, to be read by a program")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--watch-memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.driver)
    if options.watch_memory:
        return watch_memory(options.watch_memory, options.driver)
    generations = [measure_generation(options.rounds, options.driver) for _ in range(options.generations)]
    if options.json:
        found = {row.title: ratios_of([each[number] for each in generations]) for number, row in enumerate(ROWS)}
        print(json.dumps([{"what": title, **ratios} for title, ratios in found.items()], indent=1))
        return None
    text, good = table(generations)
    print(text, flush=True)
    if options.calls:
        command = [sys.executable, __file__, "--watch-memory", str(options.calls), "--driver", options.driver]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
        grown = json.loads(done.stdout)
        good &= grown < 8 << 10
        print(f"memory after {options.calls} translated calls: {grown:+d} KiB")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
