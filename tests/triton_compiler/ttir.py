"""Kernels in TTIR, as Triton writes them, and how tests run them over host memory without Triton."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from torchdevice_cuda.triton.compiler.launch import Compiled

ADD = """
#loc = loc("kernels.py":7:1)
#loc4 = loc("kernels.py":12:3)
module {
  tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %o: !tt.ptr<f32> loc("o"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %c128_i32 = arith.constant 128 : i32 loc(#loc1)
    %one = arith.constant dense<1.000000e+00> : tensor<128xf32> loc(#loc1)
    %pid = tt.get_program_id x : i32 loc(#loc2)
    %start = arith.muli %pid, %c128_i32 : i32 loc(#loc2)
    %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32> loc(#loc2)
    %starts = tt.splat %start : i32 -> tensor<128xi32> loc(#loc2)
    %i = arith.addi %starts, %range : tensor<128xi32> loc(#loc2)
    %limit = tt.splat %n : i32 -> tensor<128xi32> loc(#loc2)
    %mask = arith.cmpi slt, %i, %limit : tensor<128xi32> loc(#loc2)
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc3)
    %px = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc3)
    %v = tt.load %px, %mask : tensor<128x!tt.ptr<f32>> loc(#loc3)
    %w = arith.addf %v, %one : tensor<128xf32> loc(#loc3)
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc3)
    %po = tt.addptr %os, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc3)
    tt.store %po, %w, %mask : tensor<128x!tt.ptr<f32>> loc(#loc5)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc(unknown)
#loc2 = loc("kernels.py":8:3)
#loc3 = loc("kernels.py":9:12)
#loc5 = loc(callsite(#loc3 at #loc4))
"""  # noqa: E501 - as Triton writes it

#: A kernel of scalars: %body is between its arguments and its end.
_SCALARS = """
module {
  tt.func public @scalars(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) attributes {noinline = false} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
BODY
    tt.return loc(#loc)
  } loc(#loc)
}
#loc = loc("kernels.py":5:1)
"""


def write_scalars(body: str) -> str:
    """Return a kernel with pointers %x and %o, the number %n and constants %c0 and %c1."""
    return _SCALARS.replace("BODY", body.strip("\n"))


def run(
    text: str, grid: tuple[int, int, int], arguments: Sequence[Any], memory: Sequence[Any], threads: int = 1
) -> None:
    """Compile and launch a kernel; its arguments are arrays of ctypes and numbers, `memory` what it may access."""
    kernel = Compiled(text, "kernel", contracts=True)
    given = [ctypes.addressof(one) if isinstance(one, ctypes.Array) else one for one in arguments]
    ranges = [(ctypes.addressof(one), ctypes.sizeof(one)) for one in memory]
    kernel.run(grid, given, ranges, list, threads)
