"""Functions of CUDA's library of mathematics, in TTIR that is run over host memory."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import re
from pathlib import Path
from typing import Any

import pytest

from torchdevice_cuda.native import toolchain
from torchdevice_cuda.triton.compiler.emit.libdevice import write_extern
from triton_compiler.ttir import run

pytestmark = pytest.mark.skipif(not toolchain.has_compiler(), reason="no C++ compiler")

_C_TYPES: dict[str, Any] = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
_HALF_UP = 1 + 2.0**-30  # between two floats
_LARGEST = 3.4028234663852886e38
#: Symbol, types of the operands and of the result, operands, result.
CASES: list[tuple[str, str, str, tuple[Any, ...], Any]] = [
    *(
        (f"fadd_{rounding}", "f32 f32", "f32", (1.0, tiny), wanted)
        for rounding, tiny, wanted in (
            ("rn", 2.0**-30, 1.0), ("rd", 2.0**-30, 1.0), ("ru", 2.0**-30, 1 + 2.0**-23), ("rz", 2.0**-30, 1.0),
            ("rd", -(2.0**-30), 1 - 2.0**-24), ("ru", -(2.0**-30), 1.0), ("rz", -(2.0**-30), 1 - 2.0**-24),
        )
    ),
    ("fadd_rz", "f32 f32", "f32", (_LARGEST, _LARGEST), _LARGEST),
    ("fadd_ru", "f32 f32", "f32", (_LARGEST, _LARGEST), math.inf),
    ("dadd_rd", "f64 f64", "f64", (1.0, -1.0), -0.0),
    ("dsub_ru", "f64 f64", "f64", (1.0, 2.0**-80), 1.0),
    ("dsub_rd", "f64 f64", "f64", (1.0, 2.0**-80), 1 - 2.0**-53),
    ("fmul_rd", "f32 f32", "f32", (-_LARGEST, 10.0), -math.inf),
    ("fmul_ru", "f32 f32", "f32", (-_LARGEST, 10.0), -_LARGEST),
    ("fmul_ru", "f32 f32", "f32", (1e-30, 1e-30), 2.0**-149),
    ("ddiv_rd", "f64 f64", "f64", (1.0, 3.0), 0.3333333333333333),
    ("ddiv_ru", "f64 f64", "f64", (1.0, 3.0), 0.33333333333333337),
    ("drcp_ru", "f64", "f64", (-3.0,), -0.3333333333333333),
    ("dsqrt_rd", "f64", "f64", (2.0,), 1.414213562373095),
    ("dsqrt_ru", "f64", "f64", (2.0,), 1.4142135623730951),
    ("fmaf_rz", "f32 f32 f32", "f32", (1.0, 1.0, 2.0**-30), 1.0),
    ("fma_ru", "f64 f64 f64", "f64", (1.0, 1.0, 2.0**-80), 1 + 2.0**-52),
    ("double2float_ru", "f64", "f32", (_HALF_UP,), 1 + 2.0**-23),
    ("double2float_rd", "f64", "f32", (_HALF_UP,), 1.0),
    ("double2float_rz", "f64", "f32", (1e300,), _LARGEST),
    ("int2float_rd", "i32", "f32", (2**24 + 1,), 2.0**24),
    ("int2float_ru", "i32", "f32", (2**24 + 1,), 2.0**24 + 2),
    ("ull2double_rz", "i64", "f64", (-1,), 2.0**64 - 2048),
    ("uint2float_rn", "i32", "f32", (-1,), 2.0**32),
    ("float2int_rn", "f32", "i32", (2.5,), 2),
    ("float2int_rd", "f32", "i32", (-2.5,), -3),
    ("float2uint_rz", "f32", "i32", (4e9,), 4_000_000_000 - 2**32),
    ("double2ull_ru", "f64", "i64", (0.5,), 1),
    ("llrint", "f64", "i64", (3.5,), 4),
    ("double2hiint", "f64", "i32", (1.0,), 0x3FF00000),
    ("hiloint2double", "i32 i32", "f64", (0x40000000, 0), 2.0),
    ("rcp64h", "f64", "f64", (4.0,), 0.25),
    ("byte_perm", "i32 i32 i32", "i32", (0x03020100, 0x07060504, 0x0246), 0x00020406),
    ("byte_perm", "i32 i32 i32", "i32", (0x80, 0, 0x0008), 0x808080FF - 2**32),
    ("mulhi", "i32 i32", "i32", (-(2**31), 3), -2),
    ("umulhi", "i32 i32", "i32", (-1, -1), -2),
    ("mul64hi", "i64 i64", "i64", (-1, 1), -1),
    ("mul24", "i32 i32", "i32", (-5, 7), -35),
    ("umul24", "i32 i32", "i32", (-1, 2), 0x1FFFFFE),
    ("sad", "i32 i32 i32", "i32", (-3, 4, 10), 17),
    ("usad", "i32 i32 i32", "i32", (3, -1, 1), -3),
    ("hadd", "i32 i32", "i32", (-3, 2), -1),
    ("rhadd", "i32 i32", "i32", (-3, 2), 0),
    ("uhadd", "i32 i32", "i32", (-1, 1), -(2**31)),
    ("urhadd", "i32 i32", "i32", (-1, -2), -1),
    ("ilogb", "f64", "i32", (0.0,), -(2**31)),
    ("ilogbf", "f32", "i32", (10.0,), 3),
    ("scalbnf", "f32 i32", "f32", (3.0, 4), 48.0),
    ("sinpi", "f64", "f64", (0.25,), 0.7071067811865476),
    ("sinpif", "f32", "f32", (-3.0,), -0.0),
    ("cospi", "f64", "f64", (1.0,), -1.0),
    ("rcbrtf", "f32", "f32", (-8.0,), -0.5),
    ("rhypot", "f64 f64", "f64", (3.0, 4.0), 0.2),
    ("norm3d", "f64 f64 f64", "f64", (2.0, 3.0, 6.0), 7.0),
    ("rnorm4d", "f64 f64 f64 f64", "f64", (1.0, 1.0, 1.0, 1.0), 0.5),
    ("erfcx", "f64", "f64", (2.0,), 0.2553956763105057),
    ("erfcx", "f64", "f64", (100.0,), 0.005641613782989433),
    ("erfinv", "f64", "f64", (0.5,), 0.4769362762044699),
    ("erfinvf", "f32", "f32", (-1.0,), -math.inf),
    ("erfcinv", "f64", "f64", (1e-100,), 15.065574702593),
    ("erfcinv", "f64", "f64", (1.5,), -0.4769362762044699),
    ("normcdf", "f64", "f64", (-1.0,), 0.15865525393145707),
    ("normcdfinv", "f64", "f64", (0.975,), 1.959963984540054),
    ("cyl_bessel_i0", "f64", "f64", (5.0,), 27.239871823604442),
    ("cyl_bessel_i1", "f64", "f64", (-5.0,), -24.335642142450524),
    ("j0", "f64", "f64", (1.0,), 0.7651976865579666),
    ("jn", "i32 f64", "f64", (2, 1.0), 0.11490348493190047),
    ("ynf", "i32 f32", "f32", (2, 1.0), -1.6506826),
]  # fmt: skip


def write_kernel(cases: list[tuple[str, str, str, tuple[Any, ...], Any]]) -> str:
    """Return a kernel that loads the operands of each case and stores its result, both in slots of eight bytes."""
    lines = []
    slot = 0

    def add_pointer(name: str, base: str, type_: str) -> None:
        nonlocal slot
        lines.append(f"    %k{name} = arith.constant {slot} : i32")
        lines.append(f"    %q{name} = tt.addptr %{base}, %k{name} : !tt.ptr<i64>, i32")
        lines.append(f"    %p{name} = tt.bitcast %q{name} : !tt.ptr<i64> -> !tt.ptr<{type_}>")
        slot += 1

    for number, (symbol, operands, result, _, _) in enumerate(cases):
        names = []
        for place, type_ in enumerate(operands.split()):
            name = f"c{number}_{place}"
            add_pointer(name, "x", type_)
            lines.append(f"    %{name} = tt.load %p{name} : !tt.ptr<{type_}>")
            names.append(f"%{name}")
        types = ", ".join(operands.split())
        lines.append(
            f"    %r{number} = tt.extern_elementwise {', '.join(names)} "
            f'{{libname = "", libpath = "", pure = true, symbol = "__nv_{symbol}"}} : ({types}) -> {result}'
        )
        add_pointer(f"r{number}", "x", result)
        lines.append(f"    tt.store %pr{number}, %r{number} : !tt.ptr<{result}>")
    return (
        "module {\n  tt.func public @kernel(%x: !tt.ptr<i64>) {\n" + "\n".join([*lines, "    tt.return"]) + "\n  }\n}\n"
    )


@pytest.fixture(scope="module")
def results() -> list[Any]:
    slots = sum(len(operands.split()) + 1 for _, operands, *_ in CASES)
    memory = (ctypes.c_int64 * slots)()
    places, at = [], ctypes.addressof(memory)
    for _, operands, result, given, _ in CASES:
        for type_, value in zip(operands.split(), given, strict=True):
            _C_TYPES[type_].from_address(at).value = value
            at += 8
        places.append((_C_TYPES[result], at))
        at += 8
    run(write_kernel(CASES), (1, 1, 1), [memory], [memory])
    return [kind.from_address(place).value for kind, place in places]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case[0]}{case[3]}" for case in CASES])
def test_functions_of_libdevice_are_cudas(number: int, results: list[Any]) -> None:
    symbol, _, _, _, wanted = CASES[number]
    found = results[number]
    if isinstance(wanted, float) and not re.search(r"_r[nduz]$", symbol):
        assert found == pytest.approx(wanted, rel=2e-7 if symbol.endswith("f") else 1e-13)
    else:
        assert (found, math.copysign(1, found)) == (wanted, math.copysign(1, wanted))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="not installed: triton (the extra 'clients')")
def test_every_function_of_libdevice_is_compiled() -> None:
    spec = importlib.util.find_spec("triton")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).parent / "language/extra/cuda/libdevice.py").read_text()
    rows = re.findall(
        r'\(([^()]*(?:core\.dtype\([^()]*\)[^()]*)+)\)\s*:\s*\("__nv_(\w+)", core\.dtype\("(\w+)"\)', source
    )
    names = {"fp32": "f32", "fp64": "f64", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64"}
    cases: list[Any] = []
    for operands, symbol, result in rows:
        types = " ".join(names[one] for one in re.findall(r'dtype\("(\w+)"\)', operands))
        cases.append((symbol, types, names[result], (), None))
        assert write_extern(f"__nv_{symbol}", len(types.split()))
    assert len({case[0] for case in cases}) == len(set(re.findall(r'"__nv_(\w+)"', source))) > 300
    memory = (ctypes.c_int64 * sum(len(case[1].split()) + 1 for case in cases))()
    run(write_kernel(cases), (1, 1, 1), [memory], [memory])
