"""Kernels of a program's own: what they are predicted to take, beside what an H200 took."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from record.store import read_answers

from timing.layouts import RECORD
from torchdevice_cuda.rehearsal.prediction import GAP_NS

HERE = RECORD.parents[1]
#: Kernels that a processor computes for minutes.
_LONG = [
    *((name, 1 << 24) for name in ("arithmetic", "shared", "barriers", "exponents", "sums")),
    ("barriers", 1 << 20),
    ("product", 1 << 11),
    ("gather", 1 << 26),
]


def _measure(call: Callable[[], object]) -> float:
    """Return the microseconds of a call on the GPU's clock, without the time between kernels, as a profiler does."""
    import torch

    call()  # compiles
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(int(3e9))  # the GPU is busy while this machine issues the call
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 - GAP_NS / 1e3


def print_kernels() -> None:
    """Launch each recorded kernel on the virtual GPU, and compare."""
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="virtual", clock="gpu", gpu="h200")
    sys.path.append(str(HERE))
    from recorded._timing_kernels import make_kernel

    errors = []
    print("| kernel | elements | predicted us | recorded us | error |\n| --- | ---: | ---: | ---: | ---: |")
    for case, answer in read_answers(RECORD).items():
        if case.startswith("kernel ") and isinstance(answer, dict):
            name, _, count = case.removeprefix("kernel ").rpartition(" ")
            if (name, int(count)) in _LONG:
                continue
            recorded = sum(us for *_, kernels in answer["work"] for _, _, us in kernels) / 1e3
            predicted = _measure(make_kernel(name, int(count)))
            errors.append(predicted / recorded - 1)
            print(f"| {name} | {count} | {predicted:.1f} | {recorded:.1f} | {errors[-1]:+.0%} |", flush=True)
    sizes = [abs(error) for error in errors]
    print(f"\n{len(errors)} kernels: median error {statistics.median(sizes):.0%}, largest {max(sizes):.0%}")
