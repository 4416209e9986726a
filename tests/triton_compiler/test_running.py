"""Kernels of Triton that are interrupted, that fail in the interpreter, and that run on several threads."""

from __future__ import annotations

import importlib.util

import pytest

from triton_compiler.test_language import run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="not installed: triton (the extra 'clients')"
    ),
]


@pytest.mark.parametrize("grid", ["one program", "programs"])
@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_interrupt_ends_a_long_kernel(how: str, grid: str) -> None:
    seconds = run_program("running.py", how)[grid]
    assert isinstance(seconds, float), seconds
    assert 0.2 < seconds < 3


def test_kernel_that_the_interpreter_cannot_run_raises_a_runtime_error() -> None:
    found = run_program("running.py", "interpreted")
    kinds, message = found["unknown"]
    assert "RuntimeError" in kinds and "InterpreterError" not in kinds
    assert message.startswith("the Triton kernel unknown_kernel cannot be interpreted, at program (0, 0, 0): ")
    assert found["after"] == 128


def test_programs_run_on_as_many_threads_as_torch_has() -> None:
    assert run_program("running.py", "compiled")["threads"] == 2
