"""Runs PyTorch's own operator samples with device="cuda" on the mps driver and compares with the CPU.

    TORCHDEVICE_EMULATE_MPS=1 python tools/ops_mps.py [--dtype float32] [--samples 10] [--only add,mm] [--every 8]

Forward and backward; the table says for each operator whether it ran on the GPU alone, through MLX, or through the CPU.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import op_sweep


def prepare(options: argparse.Namespace) -> op_sweep.One:
    """Activate the driver; an operator's record says how it was computed."""
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="mps", policy="faithful")
    from op_samples import Device, checking

    from torchdevice_cuda.report.departures import departures

    check = checking(options, Device("cuda", narrows=True))

    def one(op: Any) -> op_sweep.Record:
        departures.clear()
        record = check(op)
        left = {where for _, _, where, _ in departures.rows()}
        route = "MLX" if "MLX" in left else "CPU" if "CPU" in left else "native"
        return {**record, "route": route}

    return one


def main() -> int:
    """Run the command line."""
    parser = op_sweep.arguments(__doc__.splitlines()[0])
    return op_sweep.main([__file__], parser, prepare, lambda given: given.dtype, routes=("native", "MLX", "CPU"))


if __name__ == "__main__":
    sys.exit(main())
