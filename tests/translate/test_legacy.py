"""The tensor types of old, ``torch.cuda.FloatTensor`` and its kin, are what torch's C++ makes of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from harness import CPU, MPS, STOCK, VIRTUAL, child

KINDS = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
SHOWN = ("dtype", "layout", "is_cuda", "is_xpu", "is_sparse", "is_sparse_csr", "__module__", "__name__", "__mro__")


def classes() -> list[Any]:
    named = [(owner, f"{kind}Tensor") for owner in (torch.cuda, torch.cuda.sparse, torch) for kind in KINDS]
    return [getattr(owner, name) for owner, name in named if hasattr(owner, name)]


@child(CPU, VIRTUAL, MPS, as_in=STOCK)
def test_a_class_has_what_it_has_in_stock() -> list[Any]:
    tensors = {name for name in dir(torch.Tensor) if not name.startswith("_torchdevice_")}
    tensors -= {"__dict__", "__weakref__"}  # which Python gives every class of its own
    return [
        [str(kind), str(type(kind)), issubclass(kind, torch.Tensor), *(str(getattr(kind, name)) for name in SHOWN)]
        + sorted(tensors & set(dir(kind)))
        for kind in classes()
    ]


@child(CPU, VIRTUAL, MPS)
def test_a_method_of_a_class() -> None:
    x = torch.ones(2, device="cuda")
    kinds = classes()
    assert len(kinds) >= 29
    for kind in kinds:
        assert kind.add(x, 1).tolist() == [2.0, 2.0]
        assert kind.mul is torch.Tensor.mul


@child(CPU, VIRTUAL, MPS)
def test_no_class_is_derived_from_one() -> None:
    with pytest.raises(TypeError, match=r"type 'torch.cuda.FloatTensor' is not an acceptable base type"):
        type("Mine", (torch.cuda.FloatTensor,), {})


@child(CPU, VIRTUAL, MPS)
def test_a_constructor_is_discouraged_once() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.cuda.FloatTensor([0])
        torch.FloatTensor([0])
    assert [str(each.message)[:66] for each in told] == [
        "The torch.cuda.*DtypeTensor constructors are no longer recommended"
    ]
    assert told[0].filename == __file__


@child(CPU, VIRTUAL, MPS)
def test_a_device_is_given() -> None:
    assert torch.cuda.FloatTensor(2, device="cuda").shape == (2,)
    with pytest.raises(RuntimeError, match="legacy constructor expects device type: cuda but device type: cpu was"):
        torch.cuda.FloatTensor(2, device="cpu")


@child(CPU, VIRTUAL, MPS)
def test_a_tensor_around_what_is_on_the_device() -> None:
    x = torch.ones(2, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # typed storages are deprecated
        around = [torch.cuda.FloatTensor(x), torch.cuda.FloatTensor(x.storage())]
    x.fill_(3)
    assert [made.tolist() for made in around] == [[3.0, 3.0]] * 2
    with pytest.raises(TypeError, match="expected TensorOptions"):
        torch.cuda.FloatTensor(x.int())


@child(VIRTUAL)
def test_a_tensor_of_the_cpu_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected TensorOptions\(dtype=float, device=cuda.*got.*device=cpu"):
        torch.cuda.FloatTensor(torch.ones(2))


@child(CPU, VIRTUAL, MPS)
def test_sparse_tensors() -> None:
    kind = torch.cuda.sparse.FloatTensor
    indices, values = torch.tensor([[0, 1]], device="cuda"), torch.ones(2, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse constructors are deprecated
        made = [kind(indices, values), kind(indices, values, torch.Size([4])), kind(), kind(2, 3)]
    assert [tuple(each.shape) for each in made] == [(2,), (4,), (0,), (2, 3)]
    assert len({each.device for each in made}) == 1
    assert all(isinstance(each, kind) for each in made)


@child(VIRTUAL, alone=True)
def test_torch_tensor_is_of_the_default_type() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # set_default_tensor_type is deprecated
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        given = [torch.Tensor([1.0]), torch.Tensor(2), torch.Tensor(), torch.Tensor(torch.zeros(2)), torch.zeros(1)]
        assert {tensor.type() for tensor in given} == {"torch.cuda.FloatTensor"}
        assert not torch.FloatTensor(2).is_cuda
        assert not torch.Tensor(torch.zeros(2, device="cpu")).is_cuda
        assert repr(torch.Tensor([1.0])) == "tensor([1.])"
        torch.set_default_tensor_type(torch.cuda.HalfTensor)
        assert torch.Tensor([1.0]).type() == "torch.cuda.HalfTensor"
        torch.set_default_tensor_type(torch.FloatTensor)
        assert {torch.Tensor([1.0]).type(), torch.zeros(1).type()} == {"torch.FloatTensor"}
        assert repr(torch.ones(1, device="cuda")) == "tensor([1.], device='cuda:0')"


@child(VIRTUAL.with_settings(devices=2))
def test_a_class_makes_tensors_on_any_device() -> None:
    made = [torch.cuda.FloatTensor(1, device=1), torch.cuda.FloatTensor([1.0], device="cuda:1")]
    assert [tensor.get_device() for tensor in made] == [1, 1]


@child(MPS, as_in=VIRTUAL)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by_name", [True, False])
def test_a_default_type_of_cuda(by_name: bool) -> list[str]:
    found = []
    try:
        for name in ("torch.cuda.DoubleTensor", "torch.FloatTensor", "torch.cuda.FloatTensor"):
            kind = getattr(torch.cuda if "cuda" in name else torch, name.rpartition(".")[2])
            torch.set_default_tensor_type(name if by_name else kind)
            if "Double" not in name:
                made = (torch.Tensor([1.0]), torch.Tensor(2, 3), torch.zeros(1), torch.nn.Linear(1, 1).weight)
                found += [str(x.device) for x in made]
            found += [str(torch.get_default_dtype())]
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    return [*found, str(torch.Tensor([1.0]).device), str(torch.zeros(1).device)]
