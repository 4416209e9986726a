"""Tensor types of old: what they make, whose instances tensors are, and what they say of themselves."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core import legacy
from torchdevice_cuda.translate.core.context import Context
from torchdevice_cuda.translate.core.legacy import HostTensorType, TensorType, attributes, dtypes, legacy_class

from . import Apart, context_of


@pytest.fixture
def host() -> Context:
    return context_of()


@pytest.fixture
def apart() -> Context:
    return context_of(Apart)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """torch.cuda is not ours here: its initialisation is kept account of; and what is discouraged has been said."""
    up: list[str] = []
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: up.append("up"))
    monkeypatch.setattr(TensorType, "_discouraged", True)
    return up


def of(context: Context, name: str = "FloatTensor", sparse: bool = False) -> Any:
    """Return a class of CUDA's."""
    module = "torch.cuda.sparse" if sparse else "torch.cuda"
    return legacy_class(context.translator, name, module, getattr(torch.sparse if sparse else torch, name))


# ---------------------------------------------------------------------------- appearance
def test_dtypes_are_those_of_torchs_own_types() -> None:
    found = dtypes("torch.cuda")
    for prefix in legacy.PREFIXES:
        assert found[f"torch.cuda.{prefix}Tensor"] is torch.empty(0).type(f"torch.{prefix}Tensor").dtype
    kind = type(torch.FloatTensor)
    stock = {name for name, value in vars(torch).items() if name.endswith("Tensor") and type(value) is kind}
    assert {f"{prefix}Tensor" for prefix in legacy.PREFIXES} == stock


def test_a_class_says_of_itself_what_torchs_does(host: Context) -> None:
    made, stock = of(host), torch.FloatTensor
    for name in ("dtype", "layout", "is_xpu", "is_sparse", "is_sparse_csr", "__doc__"):
        assert getattr(made, name) == getattr(stock, name), name
    assert made.is_cuda is True
    assert (made.__module__, made.__name__) == ("torch.cuda", "FloatTensor")
    kind = type(made)
    assert (kind.__module__, kind.__name__, kind.__qualname__) == (
        type(stock).__module__,
        type(stock).__name__,
        type(stock).__qualname__,
    )
    assert made.add is torch.Tensor.add
    assert made.backward is torch.Tensor.backward
    assert of(host, sparse=True).is_sparse is True
    for own in ("__dict__", "__weakref__", "__new__"):
        assert own not in attributes(torch.FloatTensor)


def test_it_is_not_to_derive_from(host: Context) -> None:
    made = of(host)
    with pytest.raises(TypeError) as ours:
        type(made)("Derived", (made,), {})
    assert str(ours.value) == "type 'torch.cuda.FloatTensor' is not an acceptable base type"
    with pytest.raises(TypeError) as stock:
        type("Derived", (torch.FloatTensor,), {})
    assert str(stock.value) == str(ours.value).replace("torch.cuda", "torch")


# -------------------------------------------------------------------------------- making
@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor")
def test_calls_make_what_torchs_class_makes(host: Context, quiet: list[str]) -> None:
    made, marks = of(host), host.translator.marks
    for args in ((), (2, 3), ([1.5, 2.5],), (torch.Size([2]),), (torch.arange(2.0),)):
        ours, stock = made(*args), torch.FloatTensor(*args)
        assert (ours.dtype, ours.shape) == (stock.dtype, stock.shape)
        assert ours in marks
    assert made([1.5, 2.5]).tolist() == [1.5, 2.5]
    assert quiet == ["up"] * 6
    assert of(host, "LongTensor")([1]).dtype is torch.int64
    sparse = of(host, sparse=True)(2, 3)
    assert sparse.is_sparse
    assert sparse not in marks


def test_the_device_of_a_call(host: Context) -> None:
    made = of(host)
    assert made(2, device="cuda").shape == (2,)
    assert made(2, device=torch.device("cuda", 1)).shape == (2,)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        made(2, device="cuda:7")
    words = "^legacy constructor expects device type: cuda but device type: cpu was passed$"
    with pytest.raises(RuntimeError, match=words):
        made(2, device="cpu")
    with pytest.raises(RuntimeError) as stock:
        torch.FloatTensor(2, device="cuda")
    assert str(stock.value) == "legacy constructor expects device type: cpu but device type: cuda was passed"


def test_on_a_gpu_apart(apart: Context) -> None:
    made = of(apart)
    assert made(2, 3).device.type == "meta"
    assert made([1.0]).device.type == "meta"
    there = torch.ones(2, device="meta")
    assert made(there).device.type == "meta"
    with pytest.raises(TypeError, match=r"^expected TensorOptions\(dtype=float, device=meta"):
        made(torch.ones(2))
    sparse = of(apart, sparse=True)
    assert sparse(2, 3).device.type == "meta"


def test_it_is_discouraged_once(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TensorType, "_discouraged", False)
    made = of(host)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made(1)
        made(1)
        assert len(said) == 1
        assert str(said[0].message).startswith("The torch.cuda.*DtypeTensor constructors are no longer recommended.")
        assert said[0].filename == __file__
        torch.set_warn_always(True)
        try:
            made(1)
        finally:
            torch.set_warn_always(False)
    assert len(said) == 2


# ----------------------------------------------------------------------------- instances
def test_isinstance_of_legacy_types_on_the_host(host: Context) -> None:
    made, marks = of(host), host.translator.marks
    there = marks.add(torch.ones(2))
    assert isinstance(there, made)
    assert not isinstance(torch.ones(2), made)
    assert not isinstance(marks.add(torch.ones(2).double()), made)
    assert not isinstance("no tensor", made)
    sparse = of(host, sparse=True)
    assert isinstance(torch.eye(2).to_sparse(), sparse)
    assert not isinstance(there, sparse)
    assert not isinstance(marks.add(torch.eye(2).to_sparse()), made)


def test_isinstance_of_legacy_types_on_a_separate_gpu(apart: Context) -> None:
    made, apparent_devices = of(apart), apart.translator.apparent_devices
    there = torch.ones(2, device="meta")
    assert not isinstance(there, made), "it is the CPU's to the program"
    apparent_devices.add_cuda(there)
    assert isinstance(there, made)
    assert not isinstance(torch.ones(2), made)
    faithful = of(context_of(Apart, policy="faithful"))
    assert isinstance(torch.ones(2, device="meta"), faithful)


def host_class(context: Context) -> Any:
    """``torch.FloatTensor`` where calls that name no device go to the accelerator."""
    entered: list[Any] = []

    def enter(made: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
        entered.append(args)
        return made.to("meta")

    own = {"_host": torch.FloatTensor, "_translator": context.translator, "_enter": staticmethod(enter)}
    made: Any = HostTensorType("FloatTensor", (), attributes(torch.FloatTensor) | own)
    made.entered = entered
    return made


def test_the_cpus_types_where_no_device_means_the_gpu(apart: Context) -> None:
    made, apparent_devices = host_class(apart), apart.translator.apparent_devices
    there = made(2, 3)
    assert (there.device.type, there.shape) == ("meta", (2, 3))
    assert made.entered == [(2, 3)]
    assert isinstance(there, made)
    assert isinstance(torch.ones(2), made)
    assert not isinstance(torch.ones(2).double(), made)
    assert not isinstance("no tensor", made)
    assert not isinstance(torch.eye(2).to_sparse(), made)
    apparent_devices.add_cuda(cuda := torch.ones(2, device="meta"))
    assert not isinstance(cuda, made)
    assert isinstance(torch.ones(2, device="meta"), made), "what operators made may be"
    other = host_class(context_of())
    assert not isinstance(torch.ones(2, device="meta"), other)
