"""PyTorch's operator samples: a quick part always, all of it when slow tests are asked for."""

from __future__ import annotations

import pytest

from . import opinfo


def test_every_ninth_operator() -> None:
    assert opinfo.main(["--every", "9", "--samples", "4"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16", "int64"])
def test_all_operators(dtype: str) -> None:
    assert opinfo.main(["--dtype", dtype]) == 0


@pytest.mark.slow
def test_all_operators_as_mps() -> None:
    assert opinfo.main(["--device", "mps"]) == 0
