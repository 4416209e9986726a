"""Runs PyTorch's own operator samples with device="cuda" on the mps driver and compares with the CPU.

    TORCHDEVICE_EMULATE_MPS=1 python tools/ops_mps.py [--dtype float32] [--samples 10] [--only add,mm] [--every 8]

Forward and backward; the table says for each operator whether it ran on the GPU alone, through MLX, or through the CPU.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from typing import Any

import op_sweep


def worker(options: argparse.Namespace) -> None:
    """Go through the operators with the driver active."""
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="mps", policy="faithful")
    import torch
    from op_samples import Device, check

    from torchdevice_cuda.report.departures import departures

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dtype, device = getattr(torch, options.dtype), Device("cuda", narrows=True)

    def one(op: Any) -> op_sweep.Record:
        departures.clear()
        status, detail = check(op, dtype, options.samples, device)
        left = {where for _, _, where, _ in departures.rows()}
        route = "MLX" if "MLX" in left else "CPU" if "CPU" in left else "native"
        return {"status": status, "detail": detail, "route": route}

    op_sweep.work(options, one)


def main() -> int:
    options = op_sweep.arguments(__doc__.splitlines()[0]).parse_args()
    if options.worker:
        worker(options)
        return 0
    records = op_sweep.watch([__file__], options)
    routes = collections.Counter(r["route"] for r in records if r["status"] == "pass")
    failed = sum(r["status"] == "fail" for r in records)
    print(op_sweep.summary(records, options.dtype))
    print(f"native {routes['native']}, MLX {routes['MLX']}, CPU {routes['CPU']}, failed {failed}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
