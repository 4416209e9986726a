"""TTIR that is compiled and run over host memory, without Triton and without a device."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest

from torchdevice_cuda.native import toolchain
from torchdevice_cuda.triton.compiler.ir import Unsupported
from torchdevice_cuda.triton.compiler.translate import translate
from triton_compiler.ttir import ADD, run, write_scalars

pytestmark = pytest.mark.skipif(not toolchain.has_compiler(), reason="no C++ compiler")


def make_floats(count: int) -> Any:
    return (ctypes.c_float * count)(*range(count))


@pytest.mark.parametrize("threads", [1, 4])
def test_elements_that_a_mask_selects_are_computed(threads: int) -> None:
    x, o = make_floats(1000), make_floats(1000)
    run(ADD, (7, 1, 1), [x, o, 800], [x, o], threads)
    assert list(o) == [*(number + 1 for number in range(800)), *range(800, 1000)]


def test_bad_address_names_kernel_line_and_program() -> None:
    x, o = make_floats(1000), make_floats(1000)
    with pytest.raises(RuntimeError) as raised:
        run(ADD, (7, 1, 1), [x, o, 800], [x])
    text = str(raised.value)
    assert text.startswith("CUDA error: an illegal memory access was encountered\n")
    assert re.search(
        r"It happened in the Triton kernel kernel at kernels\.py:12, program \(\d, 0, 0\), address 0x", text
    )
    assert list(o) == list(range(1000))


def test_elements_that_a_mask_leaves_out_are_not_accessed() -> None:
    x, o = make_floats(100), make_floats(100)
    run(ADD, (1, 1, 1), [x, o, 100], [x, o])
    assert list(o) == [number + 1 for number in range(100)]
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(ADD, (1, 1, 1), [x, o, 101], [x, o])


def test_memory_that_is_new_is_looked_up_before_an_error() -> None:
    from torchdevice_cuda.triton.compiler.launch import Compiled

    x, o, asked = make_floats(128), make_floats(128), list[int]()

    def list_accessible() -> list[tuple[int, int]]:
        asked.append(1)
        return [(ctypes.addressof(o), ctypes.sizeof(o))]

    given = [ctypes.addressof(x), ctypes.addressof(o), 128]
    known = [(ctypes.addressof(x), ctypes.sizeof(x))]
    Compiled(ADD, "kernel", contracts=True).run((1, 1, 1), given, known, list_accessible, 1)
    assert asked == [1] and o[127] == 128


ENDINGS = {
    "condition": """
    %b = arith.cmpi slt, %c0, %n : i32
    scf.if %b {
      tt.store %o, %n : !tt.ptr<i32>
    } else {
      %d = arith.cmpi slt, %n, %c0 : i32
      scf.if %d {
        tt.store %o, %c1 : !tt.ptr<i32>
      }
    }
""",
    "loop": """
    scf.for %i = %c0 to %n step %c1  : i32 {
      %v = tt.load %o : !tt.ptr<i32>
      %w = arith.addi %v, %c1 : i32
      tt.store %o, %w : !tt.ptr<i32>
    }
""",
}


@pytest.mark.parametrize(("body", "number", "stored"), [("condition", 5, 5), ("condition", -5, 1), ("loop", 4, 4)])
def test_blocks_that_yield_nothing_run_their_last_operation(body: str, number: int, stored: int) -> None:
    x = (ctypes.c_int32 * 1)()
    run(write_scalars(ENDINGS[body]), (1, 1, 1), [x, x, number], [x])
    assert x[0] == stored


ARITHMETIC = {
    "divsi": (lambda a, b: -1 if b == 0 else int(a / b)),
    "remsi": (lambda a, b: a if b == 0 else a - b * int(a / b)),
    "shli": (lambda a, b: a << b if 0 <= b < 32 else 0),
    "shrsi": (lambda a, b: a >> b if 0 <= b < 32 else a >> 31),
    "shrui": (lambda a, b: (a & 0xFFFFFFFF) >> b if 0 <= b < 32 else 0),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_integers_that_cpp_leaves_undefined_are_a_gpus(name: str) -> None:
    text = write_scalars(f"""
    %a = tt.load %x : !tt.ptr<i32>
    %p = tt.addptr %x, %c1 : !tt.ptr<i32>, i32
    %b = tt.load %p : !tt.ptr<i32>
    %r = arith.{name} %a, %b : i32
    tt.store %o, %r : !tt.ptr<i32>
""")
    for a, b in ((7, 0), (-7, 0), (7, 32), (-7, 40), (-8, 3), (-(2**31), -1), (5, -1)):
        x, o = (ctypes.c_int32 * 2)(a, b), (ctypes.c_int32 * 1)()
        run(text, (1, 1, 1), [x, o, 0], [x, o])
        wanted = ARITHMETIC[name](a, b) & 0xFFFFFFFF
        assert o[0] & 0xFFFFFFFF == wanted, (a, b)


def test_assertion_is_printed_and_raised(capfd: pytest.CaptureFixture[str]) -> None:
    text = write_scalars("""
    %ok = arith.cmpi sgt, %n, %c1 : i32
    tt.assert %ok, "n is \\22small\\22" : i1 loc("kernels.py":3:5)
""")
    x = (ctypes.c_int32 * 1)()
    run(text, (1, 1, 1), [x, x, 2], [x])
    with pytest.raises(RuntimeError, match="device-side assert triggered"):
        run(text, (1, 1, 1), [x, x, 1], [x])
    shown = 'kernels.py:3: unknown: block: [0,0,0], thread: [0,0,0] Assertion `n is "small"` failed.'
    assert shown in capfd.readouterr().err


def test_early_returns_and_branches() -> None:
    text = write_scalars("""
    %first = arith.cmpi eq, %n, %c0 : i32
    cf.cond_br %first, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    tt.store %o, %c1 : !tt.ptr<i32>
    cf.br ^bb3(%c1 : i32)
  ^bb2:  // pred: ^bb0
    %second = arith.cmpi eq, %n, %c1 : i32
    cf.cond_br %second, ^bb4, ^bb3(%n : i32)
  ^bb3(%v: i32 loc("v"(#loc))):  // 2 preds: ^bb1, ^bb2
    %p = tt.addptr %o, %c1 : !tt.ptr<i32>, i32
    tt.store %p, %v : !tt.ptr<i32>
    tt.return
  ^bb4:  // pred: ^bb2
""")
    for n, wanted in ((0, [1, 1]), (1, [0, 0]), (9, [0, 9])):
        o = (ctypes.c_int32 * 2)()
        run(text, (1, 1, 1), [o, o, n], [o])
        assert list(o) == wanted


@pytest.mark.parametrize("name", ["twice", '"module.twice__i32__(1,)constexpr"'])
def test_functions_that_are_called_run_in_their_place(name: str) -> None:
    text = write_scalars("""
    %a = tt.call @twice(%n) : (i32) -> i32
    %b = tt.call @twice(%a) : (i32) -> i32
    tt.store %o, %b : !tt.ptr<i32>
""").replace(
        "module {",
        """module {
  tt.func private @twice(%n: i32) -> i32 attributes {noinline = true} {
    %0 = arith.addi %n, %n : i32
    tt.return %0 : i32
  }""",
    )
    text = text.replace("@twice", f"@{name}")
    o = (ctypes.c_int32 * 1)()
    run(text, (1, 1, 1), [o, o, 5], [o])
    assert o[0] == 20


WAITING = """
    scf.while : () -> () {
      %seen = tt.atomic_cas acq_rel, gpu, %x, %c1, %c1 : (!tt.ptr<i32>, i32, i32) -> i32
      %waits = arith.cmpi eq, %seen, %c0 : i32
      scf.condition(%waits)
    } do {
      scf.yield
    } loc("kernels.py":4:1)
"""


@pytest.mark.slow  # ten seconds pass until it is certain
def test_kernel_that_waits_for_ever_ends() -> None:
    x = (ctypes.c_int32 * 1)()
    with pytest.raises(RuntimeError, match="does not end: at kernels.py:4"):
        run(write_scalars(WAITING), (2, 1, 1), [x, x, 0], [x], 2)


def test_kernel_that_waits_for_nothing_ends() -> None:
    x = (ctypes.c_int32 * 1)(1)
    run(write_scalars(WAITING), (2, 1, 1), [x, x, 0], [x], 2)


UNSUPPORTED = {
    "the operation tt.unheard_of": "%y = tt.unheard_of %n : i32",
    "the PTX instruction vunheard.s32 in inline assembly": (
        '%y = tt.elementwise_inline_asm "vunheard.s32 $0, $1, $1;" '
        '{constraints = "=r,r", packed_element = 1 : i32} %n : i32 -> i32'
    ),
    "__nv_unheard of libdevice": '%y = tt.extern_elementwise %n {symbol = "__nv_unheard"} : (i32) -> i32',
    "its TTIR is not understood": "%y = tt.expand_dims %n : i32 ->",
    "TTIR with %z before its definition": "%y = arith.addi %z, %n : i32",
}


@pytest.mark.parametrize("reason", UNSUPPORTED)
def test_kernels_that_cannot_be_compiled_say_why(reason: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(reason)):
        translate(write_scalars(UNSUPPORTED[reason]))


def test_large_tiles_run_on_a_stack_of_their_own() -> None:
    text = ADD.replace("128", "524288")
    x, o = make_floats(600_000), make_floats(600_000)
    run(text, (2, 1, 1), [x, o, 600_000], [x, o])
    assert o[599_999] == 600_000 and o[0] == 1


def test_elements_between_the_ends_of_a_strided_row_are_checked() -> None:
    text = ADD.replace(
        "    %xs = tt.splat",
        "    %far = arith.muli %i, %limit : tensor<128xi32> loc(#loc2)\n    %xs = tt.splat",
    ).replace("tt.addptr %xs, %i", "tt.addptr %xs, %far")
    x, o = make_floats(64 * 64), make_floats(128)
    run(text, (1, 1, 1), [x, o, 64], [x, o])
    assert list(o)[:64] == [number * 64 + 1 for number in range(64)]
    first, size = ctypes.addressof(x), ctypes.sizeof(x)
    ends = [(ctypes.c_char * 400).from_address(first), (ctypes.c_char * 400).from_address(first + size - 400)]
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(text, (1, 1, 1), [x, o, 64], [*ends, o])
