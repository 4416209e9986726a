"""Operations of TTIR that few kernels use, run over host memory without Triton and without a device."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import pytest

from torchdevice_cuda.native import toolchain
from torchdevice_cuda.triton.compiler.emit.descriptors import PADS_WITH_NAN, ROUNDS_TO_TF32
from triton_compiler.ttir import run, write_scalars

pytestmark = pytest.mark.skipif(not toolchain.has_compiler(), reason="no C++ compiler")


def make_integers(count: int, first: int = 0) -> Any:
    return (ctypes.c_int32 * count)(*range(first, first + count))


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [("addi", [0, 1, 1, 0]), ("subi", [0, 1, 1, 0]), ("maxsi", [0, 0, 0, 1]), ("minsi", [0, 1, 1, 1]),
     ("cmpi slt,", [0, 0, 1, 0]), ("cmpi sge,", [1, 1, 0, 1]), ("cmpi ult,", [0, 1, 0, 0])],
)  # fmt: skip
def test_integers_of_one_bit_wrap_around_and_have_a_sign(operation: str, wanted: list[int]) -> None:
    text = write_scalars(f"""
    %two = arith.constant 2 : i32
    %p = tt.get_program_id x : i32
    %high = arith.divsi %p, %two : i32
    %a = arith.trunci %high : i32 to i1
    %b = arith.trunci %p : i32 to i1
    %c = arith.{operation} %a, %b : i1
    %d = arith.extui %c : i1 to i32
    %po = tt.addptr %o, %p : !tt.ptr<i32>, i32
    tt.store %po, %d : !tt.ptr<i32>
""")
    o = make_integers(4)
    run(text, (4, 1, 1), [o, o, 0], [o])
    assert list(o) == wanted


EARLY = """module {
  tt.func private @early(%o: !tt.ptr<i32>, %n: i32) -> i32 attributes {noinline = true} {
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %is_large = arith.cmpi sgt, %n, %c3 : i32
    cf.cond_br %is_large, ^bb1, ^bb2
  ^bb1:
    tt.return %n : i32
  ^bb2:
    tt.store %o, %n : !tt.ptr<i32>
    %more = arith.addi %n, %c1 : i32
    tt.return %more : i32
  }"""


@pytest.mark.parametrize(("n", "wanted"), [(7, [0, 7, 7]), (2, [3, 3, 4])])
def test_functions_that_are_called_may_return_early(n: int, wanted: list[int]) -> None:
    text = write_scalars("""
    %two = arith.constant 2 : i32
    %o1 = tt.addptr %o, %c1 : !tt.ptr<i32>, i32
    %o2 = tt.addptr %o, %two : !tt.ptr<i32>, i32
    %a = tt.call @early(%o, %n) : (!tt.ptr<i32>, i32) -> i32
    tt.store %o1, %a : !tt.ptr<i32>
    %b = tt.call @early(%o, %a) : (!tt.ptr<i32>, i32) -> i32
    tt.store %o2, %b : !tt.ptr<i32>
""").replace("module {", EARLY)
    o = (ctypes.c_int32 * 3)()
    run(text, (1, 1, 1), [o, o, n], [o])
    assert list(o) == wanted


#: What kernels of tiles of 16 elements begin with: %i, and the addresses %px and %po.
_TILES = """
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %px = tt.addptr %xs, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %os = tt.splat %o : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %po = tt.addptr %os, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
"""


def test_functions_of_elements_may_take_several() -> None:
    text = write_scalars(f"""{_TILES}
    %v = tt.load %px : tensor<16x!tt.ptr<i32>>
    %m:2 = "tt.map_elementwise"(%v, %i) <{{pack = 2 : i32}}> ({{
    ^bb0(%a0: i32, %a1: i32, %b0: i32, %b1: i32):
      %more = arith.cmpi sgt, %b1, %n : i32
      cf.cond_br %more, ^bb1, ^bb2
    ^bb1:
      cf.br ^bb3(%a1, %a0, %b0, %b1 : i32, i32, i32, i32)
    ^bb2:
      cf.br ^bb3(%c0, %b0, %a1, %a0 : i32, i32, i32, i32)
    ^bb3(%r0: i32, %r1: i32, %s0: i32, %s1: i32):
      tt.map_elementwise.return %r0, %r1, %s0, %s1 : i32, i32, i32, i32
    }}) : (tensor<16xi32>, tensor<16xi32>) -> (tensor<16xi32>, tensor<16xi32>)
    tt.store %po, %m#0 : tensor<16x!tt.ptr<i32>>
    tt.store %px, %m#1 : tensor<16x!tt.ptr<i32>>
""")
    x, o = make_integers(16, 100), make_integers(16)
    run(text, (1, 1, 1), [x, o, 8], [x, o])
    pairs = [(even, 100 + even, 101 + even) for even in range(0, 16, 2)]
    assert list(o) == [one for e, a, b in pairs for one in ((b, a) if e + 1 > 8 else (0, e))]
    assert list(x) == [one for e, a, b in pairs for one in ((e, e + 1) if e + 1 > 8 else (b, a))]


DESCRIPTORS = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %m: i32, %n: i32) {
    %c0 = arith.constant 0 : i32
    %one = arith.constant 1 : i64
    %start = arith.constant 2 : i32
    %wide = arith.extsi %n : i32 to i64
    %source = tt.make_tensor_descriptor %x, [%m, %n], [%wide, %one] OPTIONS : <f32>, <SHAPExf32>
    %target = tt.make_tensor_descriptor %o, [%m, %n], [%wide, %one] : <f32>, <SHAPExf32>
BODY
    tt.return
  }
}
"""


def run_descriptors(body: str, shape: str, options: str = "") -> list[float]:
    """Run a kernel with descriptors of 4 x 6 floats: %source of 0, 1, 2, ..., and %target of zeros."""
    text = DESCRIPTORS.replace("BODY", body).replace("SHAPE", shape).replace("OPTIONS", options)
    x, o = (ctypes.c_float * 24)(*range(24)), (ctypes.c_float * 24)()
    run(text, (1, 1, 1), [x, o, 4, 6], [x, o])
    return list(o)


@pytest.mark.parametrize("options", ["", "{padding = 2 : i32}"])
def test_descriptors_pad_with_zero_or_nan(options: str) -> None:
    body = """
    %v = tt.descriptor_load %source[%start, %start] : !tt.tensordesc<4x8xf32> -> tensor<4x8xf32>
    tt.descriptor_store %target[%c0, %c0], %v : !tt.tensordesc<4x8xf32>, tensor<4x8xf32>"""
    found = run_descriptors(body, "4x8", options)
    rest = math.nan if options else 0.0
    wanted = [
        float((row + 2) * 6 + column + 2) if row < 2 and column < 4 else rest for row in range(4) for column in range(6)
    ]
    assert list(map(str, found)) == list(map(str, wanted))


@pytest.mark.parametrize("option", [0, PADS_WITH_NAN, ROUNDS_TO_TF32])
def test_descriptors_that_are_given_have_their_options(option: int) -> None:
    text = """module {
  tt.func public @kernel(%d: !tt.tensordesc<2x4xf32>, %s0: i32, %s1: i32, %t0: i64, %t1: i64, %o: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v = tt.descriptor_load %d[%c1, %c0] : !tt.tensordesc<2x4xf32> -> tensor<2x4xf32>
    %flat = tt.reshape %v : tensor<2x4xf32> -> tensor<8xf32>
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %po = tt.addptr %os, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %po, %flat : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}"""
    x, o = (ctypes.c_float * 8)(*(1 + 2**-11 for _ in range(8))), (ctypes.c_float * 8)()
    run(text, (1, 1, 1), [x, 2 + option, 4, 4, 1, o], [x, o])
    inside = 1 + 2**-10 if option == ROUNDS_TO_TF32 else 1 + 2**-11
    outside = math.nan if option == PADS_WITH_NAN else 0.0
    assert list(map(str, o)) == [str(inside)] * 4 + [str(outside)] * 4


def test_descriptors_gather_and_scatter_rows() -> None:
    body = """
    %c3 = arith.constant 3 : i32
    %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %threes = tt.splat %c3 : i32 -> tensor<4xi32>
    %rows = arith.muli %i, %threes : tensor<4xi32>
    %back = arith.subi %threes, %i : tensor<4xi32>
    %v = tt.descriptor_gather %source[%rows, %start] : (!tt.tensordesc<1x8xf32>, tensor<4xi32>, i32) -> tensor<4x8xf32>
    tt.descriptor_scatter %target[%back, %c0], %v : !tt.tensordesc<1x8xf32>, tensor<4xi32>, i32, tensor<4x8xf32>"""
    rows = [run_descriptors(body, "1x8")[start : start + 6] for start in range(0, 24, 6)]
    # Rows 0, 3, 6 and 9, from column 2 on, go to rows 3, 2, 1 and 0; those outside of the tensor are zero.
    assert rows == [[0.0] * 6, [0.0] * 6, [20.0, 21.0, 22.0, 23.0, 0.0, 0.0], [2.0, 3.0, 4.0, 5.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("kind", "sign", "wanted"), [("add", "s", 2), ("max", "s", 3), ("max", "u", -1), ("xor", "s", -4)]
)
def test_descriptors_reduce_into_memory(kind: str, sign: str, wanted: int) -> None:
    text = DESCRIPTORS.replace("f32", "i32").replace("xi32>\n", f"x{sign}i32>\n").replace("OPTIONS", "")
    body = f"""
    %v = arith.constant dense<3> : tensor<2x4xi32>
    tt.descriptor_reduce {kind}, %target[%start, %start], %v : !tt.tensordesc<2x4x{sign}i32>, tensor<2x4xi32>"""
    x, o = (ctypes.c_int32 * 24)(), (ctypes.c_int32 * 24)(*[-1] * 24)
    run(text.replace("BODY", body).replace("SHAPE", "2x4"), (1, 1, 1), [x, o, 4, 6], [x, o])
    assert list(o) == [wanted if place // 6 >= 2 and place % 6 >= 2 else -1 for place in range(24)]


def test_descriptors_load_tiles_without_dimensions_of_one_element() -> None:
    body = """
    %v = tt.descriptor_load %source[%start, %start] : !tt.tensordesc<1x4xf32> -> tensor<4xf32>
    tt.descriptor_store %target[%c0, %c0], %v : !tt.tensordesc<1x4xf32>, tensor<4xf32>"""
    assert run_descriptors(body, "1x4")[:8] == [14.0, 15.0, 16.0, 17.0, 0.0, 0.0, 0.0, 0.0]


FOUR_BITS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def find_scaled_product(is_inner: bool, scale: str) -> tuple[list[float], list[float]]:
    """Return a product of 2 x 32 and 32 x 2 elements of four bits, and the product that is wanted."""
    left, right = ("2x16", "16x2") if is_inner else ("1x32", "32x1")
    options = "" if is_inner else ", lhs_k_pack = false, rhs_k_pack = false"
    groups = 1 if scale == "i8" else 2
    loads = "".join(
        f"""
    %i{name} = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>
    %b{name} = tt.splat %{name} : !tt.ptr<{element}> -> tensor<{size}x!tt.ptr<{element}>>
    %p{name} = tt.addptr %b{name}, %i{name} : tensor<{size}x!tt.ptr<{element}>>, tensor<{size}xi32>
    %l{name} = tt.load %p{name} : tensor<{size}x!tt.ptr<{element}>>
    %v{name} = tt.reshape %l{name} : tensor<{size}x{element}> -> tensor<{shape}x{element}>"""
        for name, size, shape, element in (
            ("a", 32, left, "i8"), ("b", 32, right, "i8"),
            ("s", 2 * groups, f"2x{groups}", scale), ("t", 2 * groups, f"2x{groups}", scale),
        )
    )  # fmt: skip
    text = f"""module {{
  tt.func public @kernel(%a: !tt.ptr<i8>, %b: !tt.ptr<i8>, %s: !tt.ptr<{scale}>, %t: !tt.ptr<{scale}>, %o: !tt.ptr<f32>) {{
    %zero = arith.constant dense<0.000000e+00> : tensor<2x2xf32>{loads}
    %d = tt.dot_scaled %va scale %vs, %vb scale %vt, %zero lhs = e2m1 rhs = e2m1 {{fastMath = false{options}}} : tensor<{left}xi8>, tensor<2x{groups}x{scale}> * tensor<{right}xi8>, tensor<2x{groups}x{scale}> -> tensor<2x2xf32>
    %flat = tt.reshape %d : tensor<2x2xf32> -> tensor<4xf32>
    %i = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %po = tt.addptr %os, %i : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    tt.store %po, %flat : tensor<4x!tt.ptr<f32>>
    tt.return
  }}
}}"""  # noqa: E501 - as Triton writes it
    bytes_ = [(7 * place + 3) % 256 for place in range(64)]
    a, b = (ctypes.c_uint8 * 32)(*bytes_[:32]), (ctypes.c_uint8 * 32)(*bytes_[32:])
    # As exponents, 2 and 1/2, then 1 and 4; as numbers of eight bits, 2, 1, 4 and 1/2.
    codes = [128, 126, 127, 129] if scale == "i8" else [0x40, 0x38, 0x48, 0x30]
    factors = [2.0, 0.5, 1.0, 4.0] if scale == "i8" else [2.0, 1.0, 4.0, 0.5]
    s, t = (ctypes.c_uint8 * 4)(*codes), (ctypes.c_uint8 * 4)(*reversed(codes))
    o = (ctypes.c_float * 4)()
    run(text, (1, 1, 1), [a, b, s, t, o], [a, b, s, t, o])

    def element(codes: Any, outer: int, inner: int, is_left: bool) -> float:
        place = (outer * 16 + inner // 2 if is_left else inner // 2 * 2 + outer) if is_inner else inner
        return FOUR_BITS[codes[place] >> 4 * ((inner if is_inner else outer) % 2) & 15]

    def scaled(row: int, column: int, inner: int) -> float:
        group = inner * groups // 32
        left_scale, right_scale = factors[row * groups + group], factors[::-1][column * groups + group]
        return element(a, row, inner, True) * left_scale * element(b, column, inner, False) * right_scale

    wanted = [sum(scaled(row, column, inner) for inner in range(32)) for row in range(2) for column in range(2)]
    return list(o), wanted


@pytest.mark.parametrize("scale", ["i8", "f8E4M3FN"])
@pytest.mark.parametrize("is_inner", [True, False])
def test_scaled_products_of_four_bits(is_inner: bool, scale: str) -> None:
    found, wanted = find_scaled_product(is_inner, scale)
    assert found == wanted


@pytest.mark.parametrize("n", [0, 1])
def test_scalars_select_between_tiles(n: int) -> None:
    text = write_scalars(f"""{_TILES}
    %v = tt.load %px : tensor<16x!tt.ptr<i32>>
    %is_set = arith.cmpi sgt, %n, %c0 : i32
    %s = arith.select %is_set, %v, %i : tensor<16xi32>
    tt.store %po, %s : tensor<16x!tt.ptr<i32>>
""")
    x, o = make_integers(16, 100), make_integers(16)
    run(text, (1, 1, 1), [x, o, n], [x, o])
    assert list(o) == list(range(100 * n, 100 * n + 16))


def test_loops_and_conditions_carry_descriptors() -> None:
    body = """
    %last = tt.make_tensor_descriptor %o, [%start, %n], [%wide, %one] : <f32>, <1x4xf32>
    %step = arith.constant 1 : i32
    %d = scf.for %row = %c0 to %m step %step iter_args(%now = %target) -> (!tt.tensordesc<1x4xf32>)  : i32 {
      %v = tt.descriptor_load %source[%row, %c0] : !tt.tensordesc<1x4xf32> -> tensor<1x4xf32>
      tt.descriptor_store %now[%row, %start], %v : !tt.tensordesc<1x4xf32>, tensor<1x4xf32>
      %is_second = arith.cmpi eq, %row, %step : i32
      %next = scf.if %is_second -> (!tt.tensordesc<1x4xf32>) {
        scf.yield %last : !tt.tensordesc<1x4xf32>
      } else {
        scf.yield %now : !tt.tensordesc<1x4xf32>
      }
      scf.yield %next : !tt.tensordesc<1x4xf32>
    }"""
    found = run_descriptors(body, "1x4")
    # From row 2 on, the descriptor is of a tensor of two rows: nothing is stored.
    assert found == [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 6.0, 7.0, 8.0, 9.0] + [0.0] * 12


def test_lines_that_kernels_print_have_the_form_of_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    text = write_scalars("""
    %i = tt.make_range {end = 12 : i32, start = 0 : i32} : tensor<12xi32>
    %row = tt.expand_dims %i {axis = 0 : i32} : tensor<12xi32> -> tensor<1x12xi32>
    %b = arith.trunci %n : i32 to i8
    %f = arith.sitofp %n : i32 to f32
    tt.print " row: " {hex = false, isSigned = array<i32: 1>} : %row : tensor<1x12xi32>
    tt.print " signed: " {hex = false, isSigned = array<i32: 1>} : %b : i8
    tt.print " unsigned: " {hex = false, isSigned = array<i32: 0>} : %b : i8
    tt.print " hex: " {hex = true, isSigned = array<i32: 1, 0>} : %b, %f : i8, f32
    tt.print " none" {hex = false, isSigned = array<i32>}
""")
    x = make_integers(1)
    run(text, (1, 1, 1), [x, x, -3], [x])
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[11], *lines[12:]] == [
        "pid (0, 0, 0) idx (0,  0) row: 0",
        "pid (0, 0, 0) idx (0, 11) row: 11",
        "pid (0, 0, 0) idx () signed: -3",
        "pid (0, 0, 0) idx () unsigned: 253",
        "pid (0, 0, 0) idx () hex: (operand 0) 0xfd",
        "pid (0, 0, 0) idx () hex: (operand 1) -0x1.8p+1",
        "pid (0, 0, 0) none",
    ]
