"""Thirteen kernels of the kinds that people write in Triton; each is compared with torch on the same device.

Arguments name kernels to leave out. Prints a JSON object:
the name of each, and by how much it is off, as a part of what it may be.
"""

import json
import sys

import torch
import triton_others  # noqa: F401 - its kernels are in the table
import triton_tutorials  # noqa: F401
from triton_kinds import KERNELS

if __name__ == "__main__":
    torch.manual_seed(0)
    left_out = sys.argv[1:]
    print(json.dumps({name: kernel() for name, kernel in KERNELS.items() if name not in left_out}))
