"""Kernels that cannot be compiled, or that fail: how each is told of. Prints a JSON object."""

import json

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from torchdevice_cuda.report.departures import departures

FOUND = {}


@triton.jit
def assembly_kernel(x):
    code: tl.constexpr = "vadd.s32.s32.s32 $0, $1, $1;"
    v = tl.inline_asm_elementwise(code, "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x, v)


@triton.jit
def interpreted_kernel(x):
    tl.store(x, libdevice.erfcx(tl.load(x)))


@triton.jit
def printing_kernel(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_print("x ", tl.load(x + i))
    tl.device_print("number", tl.program_id(0))


def told(name, function):
    try:
        FOUND[name] = [function(), ""][1]
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        FOUND[name] = [kinds, str(error)]


x = torch.ones(4, dtype=torch.int32, device="cuda")
told("assembly", lambda: assembly_kernel[(1,)](x))
told("interpreted", lambda: interpreted_kernel[(1,)](x.float()))
told("printing", lambda: printing_kernel[(2,)](x, N=2))
FOUND["departures"] = [row[1:] for row in departures.rows()]
print(json.dumps(FOUND))
