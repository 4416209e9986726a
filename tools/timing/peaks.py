"""The most memory that training steps take: rehearsed, beside an H200's."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator

from record.store import read_answers

from timing.recorded import RECORD

HERE = RECORD.parents[1]
_MIB = 1 << 20


def rehearse(cases: Iterable[str]) -> Iterator[tuple[str, float, float]]:
    """Rehearse recorded steps; return their names, and their peaks in MiB, predicted and recorded."""
    import torch

    sys.path.append(str(HERE))
    from recorded.timing import make

    for case in cases:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        call = make(case)
        call()
        call()
        yield case, torch.cuda.max_memory_allocated() / _MIB, read_answers(RECORD)[case]["peak_mib"]
        del call


def print_peaks() -> None:
    """Compare all recorded steps."""
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="virtual", gpu="h200", rehearse="on")
    errors = []
    print("| step | predicted MiB | recorded MiB | error |\n| --- | ---: | ---: | ---: |")
    for case, predicted, recorded in rehearse(case for case in read_answers(RECORD) if " step " in case):
        errors.append(abs(predicted / recorded - 1))
        print(f"| {case} | {predicted:,.1f} | {recorded:,.1f} | {predicted / recorded - 1:+.1%} |", flush=True)
    print(f"\n{len(errors)} steps: largest error {max(errors):.1%}, {sum(e <= 0.02 for e in errors)} within 2%")
