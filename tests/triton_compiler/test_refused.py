"""Kernels that are interpreted because they cannot be compiled, and kernels that fail."""

from __future__ import annotations

import importlib.util
import json

import pytest
from harness import VIRTUAL, python
from harness.places import must_be_ready

from triton_compiler.test_language import PROGRAMS, run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="not installed: triton (the extra 'clients')"
    ),
]


def test_kernel_that_cannot_run_raises_a_runtime_error_by_name() -> None:
    kinds, message = run_program("refused.py", "compiled")["assembly"]
    assert "RuntimeError" in kinds
    assert (
        message
        == "the Triton kernel assembly_kernel cannot run here: the PTX instruction vadd.s32.s32.s32 in inline assembly"
    )


def test_reason_of_interpreting_is_in_the_report() -> None:
    assert run_program("refused.py", "compiled")["departures"] == [
        [
            "triton.interpreted_kernel",
            "Triton's interpreter",
            "it cannot be compiled: __nv_erfcxf of libdevice",
        ]
    ]


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_kernels_print_a_line_for_each_element(how: str) -> None:
    must_be_ready(VIRTUAL)
    line = ("-m", "torchdevice_cuda", "--driver", "virtual", "--triton", how, PROGRAMS / "refused.py")
    out = python(*line, environment=VIRTUAL.full_environment(), timeout=300).out.splitlines()
    assert json.loads(out[-1])["printing"] == ""
    lines = {line for line in out if line.startswith("pid")}
    assert lines == {
        *(f"pid ({program}, 0, 0) idx ({index}) x: 1" for program in (0, 1) for index in (0, 1)),
        *(f"pid ({program}, 0, 0) idx () number: {program}" for program in (0, 1)),
    }
