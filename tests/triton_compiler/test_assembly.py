"""Inline assembly of Triton kernels."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

import pytest

from torchdevice_cuda.triton.compiler.ir import Refused
from torchdevice_cuda.triton.compiler.translate import translate
from triton_compiler.test_language import run_program
from triton_compiler.ttir import ADD, run, write_scalars


def write_statement(text: str, constraints: str, operands: str, types: str, pack: int = 1) -> str:
    """Return the operation, as Triton writes it."""
    attributes = f'{{constraints = "{constraints}", packed_element = {pack} : i32, pure = true}}'
    return f'tt.elementwise_inline_asm "{text}" {attributes} {operands} : {types}'


def test_elements_of_a_tile() -> None:
    text = "{ // twice\\0A mul.rn.f32 $0, $1, 0f40000000;  // and one more\\0A add.f32 $0, $0, $2; }"
    statement = write_statement(text, "=f,f,r", "%v, %one", "tensor<128xf32>, tensor<128xf32> -> tensor<128xf32>")
    kernel = ADD.replace("arith.addf %v, %one : tensor<128xf32>", statement)
    x, o = (ctypes.c_float * 300)(*range(300)), (ctypes.c_float * 300)()
    run(kernel, (3, 1, 1), [x, o, 300], [x, o])
    assert list(o) == [2.0 * i + 1 for i in range(300)]


PACKED = """
module {
  tt.func public @packed(%x: !tt.ptr<i8>, %o: !tt.ptr<i16>) attributes {noinline = false} {
    %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<i8> -> tensor<8x!tt.ptr<i8>>
    %px = tt.addptr %xs, %range : tensor<8x!tt.ptr<i8>>, tensor<8xi32>
    %v = tt.load %px : tensor<8x!tt.ptr<i8>>
    %w = STATEMENT
    %os = tt.splat %o : !tt.ptr<i16> -> tensor<8x!tt.ptr<i16>>
    %po = tt.addptr %os, %range : tensor<8x!tt.ptr<i16>>, tensor<8xi32>
    tt.store %po, %w : tensor<8x!tt.ptr<i16>>
    tt.return
  }
}
"""


def test_elements_are_packed_into_registers() -> None:
    # Four elements of eight bits are a register, and their sixteen bits two.
    text = "prmt.b32 $0, $2, 0, 0x4140; prmt.b32 $1, $2, 0, 0x4342;"
    statement = write_statement(text, "=r,=r,r", "%v", "tensor<8xi8> -> tensor<8xi16>", pack=4)
    x, o = (ctypes.c_uint8 * 8)(*range(250, 258 - 2), 0, 1), (ctypes.c_uint16 * 8)()
    run(PACKED.replace("STATEMENT", statement), (1, 1, 1), [x, o], [x, o])
    assert list(o) == list(x)


def run_scalar(text: str, constraints: str, n: int, programs: int = 1) -> list[int]:
    """Run a statement of %n in each program, and return what it gives each."""
    body = f"""
    %p = tt.get_program_id x : i32
    %y = {write_statement(text, constraints, "%n, %x", "i32, !tt.ptr<i32> -> i32")} loc(#loc)
    %q = tt.addptr %o, %p : !tt.ptr<i32>, i32
    tt.store %q, %y : !tt.ptr<i32>
    """
    x, o = (ctypes.c_int32 * 1)(77), (ctypes.c_int32 * programs)()
    run(write_scalars(body), (programs, 1, 1), [x, o, n], [x, o])
    return list(o)


def test_scalars_special_registers_and_memory() -> None:
    assert run_scalar("mad.lo.s32 $0, $1, 3, -1;", "=r,r,l", 5) == [14]
    assert run_scalar("mov.u32 $0, %ctaid.x;", "=r,r,l", 0, 3) == [0, 1, 2]
    assert run_scalar("mov.u32 $0, %nctaid.x;", "=r,r,l", 0, 3) == [3, 3, 3]
    assert run_scalar("ld.global.acquire.gpu.u32 $0, [$2];", "=r,r,l", 0) == [77]
    assert run_scalar("add.u32 $0, $0, 1;", "=r,0,l", 41) == [42]
    later = "{ .reg .u64 t, u; mov.u64 t, %globaltimer; mov.u64 u, %globaltimer; sub.u64 t, u, t; cvt.u32.u64 $0, t; }"
    assert 0 <= run_scalar(later, "=r,r,l", 0)[0] < 1_000_000_000


@pytest.mark.parametrize(("of", "expected"), [("f64", -(2**31)), ("f32", 0)])
def test_integer_of_nan_depends_on_its_source(of: str, expected: int) -> None:
    # As cvt.rzi.s32 does it on an H200.
    bits = {"f64": "0x7FF8000000000000", "f32": "0x7FC00000"}[of]
    body = f"""
    %nan = arith.constant {bits} : {of}
    %y = arith.fptosi %nan : {of} to i32
    tt.store %o, %y : !tt.ptr<i32>
    """
    o = (ctypes.c_int32 * 1)()
    run(write_scalars(body), (1, 1, 1), [o, o, 0], [o])
    assert list(o) == [expected]


def test_bad_address_raises_cudas_error_with_its_line() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)illegal memory access.*kernels.py:5"):
        run_scalar("ld.global.u32 $0, [$2+4096];", "=r,r,l", 0)


@pytest.mark.parametrize(
    ("text", "constraints", "words"),
    [
        ("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r,l", "shfl.sync.idx.b32, which needs the threads of CUDA C++,"),
        ("ld.shared.u32 $0, [$2];", "=r,r,l", "the memory .shared"),
        ("mov.u32 $0, %tid.x;", "=r,r,l", "the special register %tid.x"),
        ("mov.u32 $0, 1;", "=x,r,l", 'the constraint "x"'),
        ("mov.u32 $0, 1;", "=r,r", "fewer constraints than operands"),
        ("mov.u32 $0, 1;", "=r,r,l,r", "more constraints than operands"),
        ("mov.u32 $0, 1;", "=h,r,l", '32 bits for the constraint "h"'),
    ],
)
def test_what_is_not_supported_is_refused_by_name(text: str, constraints: str, words: str) -> None:
    statement = write_statement(text, constraints, "%n, %x", "i32, !tt.ptr<i32> -> i32")
    with pytest.raises(Refused) as refused:
        translate(write_scalars(f"%y = {statement}"))
    assert words in str(refused.value)


EXPECTED: dict[str, Any] = {
    "funnel": True, "packed": True, "pointers": True, "several": [True, True], "timer": True,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="not installed: triton (the extra 'clients')")
def test_kernels_of_triton() -> None:
    assert run_program("assembly.py", "compiled") == EXPECTED
