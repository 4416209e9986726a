"""Methods that convert, move or make a tensor where the accelerator refuses the dtype: what is done instead."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from torchdevice_cuda.fallback.refusals import NARROW
from torchdevice_cuda.translate.core import conversions
from torchdevice_cuda.translate.core.conversions import CONVERSIONS, on_refusal

from . import Apart, context_of
from .departing import NO_DOUBLE, NO_FLOAT8, counting


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    return counting(monkeypatch)


META, HOST = torch.ones(2, device="meta"), torch.arange(2.0)


def resolved(name: str, tensor: torch.Tensor, *args: Any, choice: str = "downcast", **kwargs: Any) -> torch.Tensor:
    """Return how the device's refusal of a method is resolved."""
    resolve = on_refusal(context_of(Apart, float64=choice), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return resolve(TypeError(NO_DOUBLE), tensor, args, kwargs)


def test_methods_that_only_convert() -> None:
    for name, dtype in CONVERSIONS.items():
        if dtype is not None:
            assert getattr(HOST, name)().dtype is dtype


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "dtype"),
    [
        ("double", (), {}, torch.float32),
        ("cdouble", (), {}, torch.complex64),
        ("type", (torch.float64,), {}, torch.float32),
        ("to", (torch.float64,), {}, torch.float32),
        ("to", (), {"dtype": torch.float64}, torch.float32),
        ("to", ("meta", torch.complex128), {}, torch.complex64),
        ("to", (), {"device": "meta", "dtype": torch.float64}, torch.float32),
        ("new_zeros", ((3,),), {"dtype": torch.float64}, torch.float32),
        ("new_zeros", ((3,),), {"dtype": torch.float64, "device": "meta"}, torch.float32),
        ("new_tensor", ([1.0, 2.0, 3.0],), {"dtype": torch.float64}, torch.float32),
    ],
)
def test_on_the_device_precision_is_halved(
    name: str, args: Any, kwargs: Any, dtype: torch.dtype, counted: list[tuple[Any, ...]]
) -> None:
    there = resolved(name, META, *args, **kwargs)
    assert (there.device.type, there.dtype) == ("meta", dtype)
    assert there.shape == ((3,) if name.startswith("new") else (2,))
    wide = next(each for each, narrow in NARROW.items() if narrow is dtype)
    assert counted[0][0] == str(wide).removeprefix("torch.")
    assert len([row for row in counted if len(row) == 3]) == 1


@pytest.mark.parametrize("choice", ["downcast", "cpu"])
def test_from_the_cpu_a_tensor_goes_where_its_dtype_lets_it(choice: str) -> None:
    dtype = torch.float32 if choice == "downcast" else torch.float64
    for name, args, kwargs in (
        ("to", ("meta", torch.float64), {}),
        ("to", (torch.device("meta"), torch.float64), {}),
        ("to", (0, torch.float64), {}),
        ("to", (), {"device": "meta", "dtype": torch.float64}),
        ("double", (), {}),
        ("type", ("torch.DoubleTensor",), {}),
    ):
        there = resolved(name, HOST, *args, choice=choice, **kwargs)
        assert (there.device.type, there.dtype) == ("meta", dtype), name
        if choice == "cpu":
            assert there.tolist() == [0.0, 1.0]
    wide = HOST.double()
    for name, args in (("cuda", ()), ("to", ("meta",)), ("to", ("meta", None, False))):
        there = resolved(name, wide, *args, choice=choice)
        assert (there.device.type, there.dtype) == ("meta", dtype), name


def test_arguments_of_a_move_stay() -> None:
    """As modules say it: the device, no dtype, and whether to wait."""
    without = conversions._without_devices
    assert without(("cuda", None, True), {}) == ((), {"non_blocking": True})
    assert without(("cuda", None, True, False), {"memory_format": 1}) == (
        (),
        {"non_blocking": True, "copy": False, "memory_format": 1},
    )
    assert without(("cuda", torch.float64), {"device": "cuda", "copy": True}) == ((torch.float64,), {"copy": True})
    assert without((1, torch.float64), {}) == ((torch.float64,), {})
    assert without(("torch.cuda.DoubleTensor",), {}) == (("torch.cuda.DoubleTensor",), {})
    assert without((torch.float64,), {}) == ((torch.float64,), {})
    assert without((), {}) == ((), {})


def test_full_precision_on_the_cpu_where_that_is_chosen() -> None:
    wide = torch.tensor([1 / 3], dtype=torch.float64)
    kept = resolved("to", wide, "meta", choice="cpu")
    assert kept.tolist() == wide.tolist()
    assert resolved("new_tensor", HOST, [1 / 3], dtype=torch.float64, choice="cpu").tolist() == [1 / 3]


def test_a_dtype_that_the_device_has_no_code_for_goes_around(monkeypatch: pytest.MonkeyPatch) -> None:
    original = conversions._to

    def copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        """A GPU's memory can be read; that of the device here cannot."""
        return HOST if tensor is META and device.type == "cpu" else original(tensor, device)

    monkeypatch.setattr(conversions, "_to", copied)
    resolve = on_refusal(context_of(Apart), "to")
    for args, kwargs, where in (
        ((torch.device("cpu"), torch.int8), {}, "cpu"),
        ((), {"device": torch.device("cpu"), "dtype": torch.int8}, "cpu"),
        ((torch.int8,), {}, "meta"),
    ):
        there = resolve(TypeError(NO_FLOAT8), META, args, kwargs)
        assert (there.device.type, there.dtype) == (where, torch.int8)
        if where == "cpu":
            assert there.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("error", "name", "tensor"),
    [
        (TypeError(NO_FLOAT8), "to", HOST),
        (TypeError(NO_FLOAT8), "new_zeros", META),
        (RuntimeError("other"), "to", META),
        (ValueError("other"), "double", HOST),
    ],
)
def test_other_errors_are_raised(error: Exception, name: str, tensor: torch.Tensor) -> None:
    with pytest.raises(type(error)) as raised:
        on_refusal(context_of(Apart), name)(error, tensor, (), {})
    assert raised.value is error
    assert raised.value.__suppress_context__


def test_the_setting_raise_raises() -> None:
    error = TypeError(NO_DOUBLE)
    with pytest.raises(TypeError) as raised:
        on_refusal(context_of(Apart, float64="raise"), "double")(error, META, (), {})
    assert raised.value is error
