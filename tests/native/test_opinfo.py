"""PyTorch's operator samples: a quick part always, all of it when slow tests are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import ChildConfig, Finished, run_forked
from harness.places import must_be_ready

from .bare import BARE_MPS, bare

pytestmark = pytest.mark.native
TESTS = Path(__file__).resolve().parents[1]


def _run(place: ChildConfig, *options: str) -> Finished:
    must_be_ready(place)
    return run_forked("-m", "native.opinfo", *options, folder=TESTS, timeout=3600)


@pytest.mark.parametrize(("dtype", "every"), [("float32", "9"), pytest.param("float16", "18", marks=pytest.mark.slow)])
def test_some_operators(dtype: str, every: str) -> None:
    _run(bare(), "--dtype", dtype, "--every", every, "--samples", "4")


@pytest.mark.slow
def test_some_operators_that_run_later() -> None:
    """Their results are inferred, with shapes, strides and types, before they are computed."""
    _run(bare(), "--streams", "0", "--every", "12", "--samples", "4")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int64"])
def test_all_operators_that_run_later(dtype: str) -> None:
    _run(bare(), "--streams", "1", "--dtype", dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "bfloat16", "int64"])
def test_all_operators(dtype: str) -> None:
    _run(bare(), "--dtype", dtype)


@pytest.mark.slow
@pytest.mark.mps
def test_all_operators_as_mps() -> None:
    _run(BARE_MPS, "--device", "mps")
