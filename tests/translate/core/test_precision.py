"""float64 where the accelerator has none: what becomes of it, what is warned of and counted, and where."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
import torch

from torchdevice_cuda.fallback.refusals import NARROW
from torchdevice_cuda.translate.core import precision
from torchdevice_cuda.translate.core.precision import COMPLEX128, Precision, refuse_complex128

from .departing import NO_DOUBLE, NO_FLOAT8, counting


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    return counting(monkeypatch)


def made(choice: str, partial: bool = True) -> Precision:
    return Precision(choice, "meta", partial)


# ---------------------------------------------------------------------------------- admit
def test_supported_dtypes_go_to_the_device() -> None:
    for dtype in (torch.float32, torch.int64, torch.complex64):
        there = made("downcast").admit(torch.ones(2, dtype=dtype))
        assert (there.device.type, there.dtype) == ("meta", dtype)
    whole = made("downcast", partial=False).admit(torch.ones(2, dtype=torch.float64))
    assert (whole.device.type, whole.dtype) == ("meta", torch.float64)


@pytest.mark.parametrize("dtype", NARROW)
def test_unsupported_dtypes(dtype: torch.dtype, counted: list[tuple[Any, ...]]) -> None:
    name, narrow = str(dtype).removeprefix("torch."), str(NARROW[dtype]).removeprefix("torch.")
    with pytest.warns(UserWarning) as said:
        there = made("downcast").admit(torch.ones(2, dtype=dtype))
    assert (there.device.type, there.dtype) == ("meta", NARROW[dtype])
    words = f"the GPU has no {name}: the tensor became {narrow} (--float64 chooses: downcast, cpu, raise)"
    assert [str(each.message) for each in said] == [words]
    site = (__file__, sys._getframe().f_lineno - 4)
    assert (said[0].filename, said[0].lineno) == site
    assert counted == [(name, narrow, f"the GPU has no {name}"), site]
    counted.clear()
    host = torch.ones(2, dtype=dtype)
    with pytest.warns(UserWarning, match=rf"^the GPU has no {name}: the tensor is kept and computed on the CPU \("):
        kept = made("cpu").admit(host)
    host.zero_()
    assert (kept.device.type, kept.dtype, kept.tolist()) == ("meta", dtype, [1, 1])
    assert counted[0] == (name, "cpu", f"the GPU has no {name}")


def test_a_line_is_warned_of_once_and_counted_each_time(counted: list[tuple[Any, ...]]) -> None:
    chosen = made("downcast")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            chosen.count(torch.float64)
        assert len(said) == 1
        chosen.count(torch.float64)
    assert len(said) == 2, "another line"
    assert len([row for row in counted if len(row) == 3]) == 4


def test_errors_that_are_refusals() -> None:
    error = TypeError(NO_DOUBLE)
    assert [made(choice).is_refusal(error) for choice in ("downcast", "cpu", "raise")] == [True, True, False]
    assert made("downcast").is_refusal(TypeError(NO_FLOAT8)) is False
    assert made("downcast").is_refusal(RuntimeError("other")) is False


def test_complex128_is_refused_as_torch_refuses_it_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert COMPLEX128 is torch.complex128
    refuse_complex128(torch.ones(1, dtype=torch.complex128))
    monkeypatch.setattr(precision, "_is_mps", vars(torch._C.TensorBase)["is_meta"].__get__)
    refuse_complex128(torch.ones(1))
    with pytest.raises(TypeError) as raised:
        refuse_complex128(torch.ones(1, device="meta"))
    assert made("downcast").is_refusal(raised.value), "it is known for what it is"
    words = "Trying to convert ComplexDouble to the MPS backend but it does not have support for it."
    assert str(raised.value) == words
