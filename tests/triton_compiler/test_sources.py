"""Kernels run from the source that they have at a launch, with the types of the language, in both ways."""

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


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_counters_of_loops_are_tensors(how: str) -> None:
    thrice = (3 * 1000000007 + 2**31) % 2**32 - 2**31
    wide = (2**40 * 1000000007 + 2**63) % 2**64 - 2**63
    assert run_program("edited.py", how)["counted"] == [7, 2, 2 * 1000000007, thrice, wide]


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_the_current_source_runs(how: str) -> None:
    assert run_program("edited.py", how)["edited"] == [3.0, 4.0]
