"""Runs PyTorch's own operator samples on the bare device and compares with the CPU, forward and gradients.

    cd tests; python -m native.opinfo [--device cuda|mps] [--streams SEED] [--dtype float32]
        [--samples 10] [--only add,mm] [--every 8]

The samples and the command line are those of tools/ops_mps.py; here the device is used without the rest of the product.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import op_sweep  # noqa: E402  (found through the line above)

from .bare import use_cuda, use_mps  # noqa: E402


def _refuses(error: BaseException) -> bool:
    """Return whether CUDA has no kernel, despite the samples, or none for a CPU's sample."""
    return str(error).startswith("Could not run") or str(error).endswith("is not supported on CUDA")


def prepare(options: argparse.Namespace) -> op_sweep.One:
    """Install the device."""
    if options.device == "cuda":
        native = use_cuda()
        if options.streams >= 0:
            native.start_deferral(options.streams)
    else:
        use_mps()
    from op_samples import Device, checking

    from torchdevice_cuda.fallback.refusals import refusal

    devices = {
        "cuda": Device("cuda", _refuses, strides=True, alike=True),
        # As mps, some operators are made of others than on the CPU, with results laid out differently.
        "mps": Device("mps", refuses=lambda error: refusal(error) is not None),
    }
    return checking(options, devices[options.device])


def main() -> int:
    """Run the command line."""
    parser = op_sweep.arguments(__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "mps"), default="cuda")
    parser.add_argument(
        "--streams", type=int, default=-1, metavar="SEED", help="run work later, in an order that the seed chooses"
    )
    return op_sweep.main(["-m", "native.opinfo"], parser, prepare, lambda given: f"{given.device} {given.dtype}")


if __name__ == "__main__":
    sys.exit(main())
