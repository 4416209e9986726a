"""Runs PyTorch's own operator samples on the device and compares with the CPU, forward and gradients.

    python -m tests.native.opinfo [--device cuda|mps] [--dtype float32] [--samples 10] [--only add,mm] [--every 8]

The samples and the sweep are those of tools/ops_mps.py; here the device is used without the rest of the product.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import op_sweep  # noqa: E402  (found through the line above)

from torchdevice_cuda.fallback.refusals import refusal  # noqa: E402


def worker(options: argparse.Namespace) -> None:
    """Goes through the operators with the bare device installed."""
    import torch
    from op_samples import Device, check

    from tests.native import harness

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.device == "cuda":
        harness.use_cuda(1)
        device = Device("cuda", strides=True, alike=True)
    else:
        harness.use_mps()
        # As mps, some operators are made of others than on the CPU, with results laid out differently.
        device = Device("mps", refuses=lambda error: refusal(error) is not None)
    dtype = getattr(torch, options.dtype)

    def one(op: Any) -> op_sweep.Record:
        status, detail = check(op, dtype, options.samples, device)
        return {"status": status, "detail": detail}

    op_sweep.work(options, one)


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status is 1 if anything failed."""
    parser = op_sweep.arguments(__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "mps"), default="cuda")
    options = parser.parse_args(arguments)
    if options.worker:
        worker(options)
        return 0
    records = op_sweep.watch(["-m", "tests.native.opinfo"], options, cwd=ROOT)
    print(op_sweep.summary(records, f"{options.device} {options.dtype}"))
    return int(any(r["status"] == "fail" for r in records))


if __name__ == "__main__":
    sys.exit(main())
