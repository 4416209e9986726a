"""Tensors on the virtual GPU, of every layout, and what programs do around them."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from harness import child
from torch import nn

from .bare import bare

pytestmark = child(bare())


def _x() -> torch.Tensor:
    return torch.arange(6.0, device="cuda").reshape(2, 3)


def test_they_are_cuda_tensors() -> None:
    x = _x()
    assert x.is_cuda
    assert str(x.device) == "cuda:0"
    assert x.get_device() == 0
    assert "device='cuda:0'" in repr(x)
    assert x.type() == "torch.cuda.FloatTensor"


def test_moves_copy() -> None:
    host = torch.ones(3)
    moved = host.cuda()
    host.fill_(2)
    assert moved.tolist() == [1, 1, 1]
    assert moved.cpu().data_ptr() != moved.data_ptr()


def test_views() -> None:
    x = _x()
    assert x.view(3, 2).data_ptr() == x.data_ptr()
    assert x[1:].storage_offset() == 3


def test_strides() -> None:
    assert _x().t().contiguous().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_outputs_grow() -> None:
    x, out = _x(), torch.empty(0, device="cuda")
    torch.add(x, 1, out=out)
    assert out.shape == x.shape
    assert out[0, 0] == 1


def test_resizing() -> None:
    y = torch.empty(2, device="cuda").resize_(4, 4)
    assert y.shape == (4, 4)
    assert y.untyped_storage().nbytes() == 64


@pytest.mark.parametrize("dtype", ["float64", "complex64", "bfloat16", "float8_e4m3fn", "bool", "int8"])
def test_dtypes(dtype: str) -> None:
    assert torch.zeros(2, dtype=getattr(torch, dtype), device="cuda").dtype is getattr(torch, dtype)


SPARSE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda t: t.to_sparse(),
    "csr": lambda t: t.to_sparse_csr(),
    "csc": lambda t: t.to_sparse_csc(),
}


@pytest.mark.parametrize("layout", SPARSE)
def test_sparse_layouts(layout: str) -> None:
    dense = torch.tensor([[0.0, 0, 3], [4, 0, 5]])
    sparse = SPARSE[layout](dense.cuda())
    assert sparse.is_cuda
    assert sparse.layout == SPARSE[layout](dense).layout
    assert sparse.to_dense().tolist() == dense.tolist()
    assert sparse.cpu().device.type == "cpu"
    assert (sparse @ torch.ones(3, 2, device="cuda")).tolist() == [[3, 3], [9, 9]]


def test_nested_tensors() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], device="cuda")
    assert nested.is_cuda
    assert (nested * 2).to_padded_tensor(0.0).sum() == 18


def test_quantized_tensors() -> None:
    quantized = torch.quantize_per_tensor(torch.ones(4, device="cuda"), 0.5, 0, torch.quint8)
    assert quantized.is_cuda
    assert quantized.dequantize().tolist() == [1, 1, 1, 1]


def test_packed_sequences() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4, device="cuda"), torch.tensor([3, 1]), True)
    assert packed.data.is_cuda
    assert packed.batch_sizes.device.type == "cpu"


def test_checkpoints() -> None:
    x, file = _x(), io.BytesIO()
    torch.save({"x": x, "again": x}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].is_cuda
    assert loaded["x"].data_ptr() == loaded["again"].data_ptr()


COPIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
def test_copies(way: str) -> None:
    x = _x()
    other = COPIES[way](x)
    assert other.is_cuda
    assert torch.equal(other, x)
    assert other.data_ptr() != x.data_ptr()


def _scripted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b + a.sum()


def test_script() -> None:
    x = torch.arange(3.0, device="cuda")
    assert torch.jit.script(_scripted)(x, x).tolist() == [3, 4, 7]


def test_transforms() -> None:
    f = torch.func.vmap(torch.func.grad(lambda v: (v**2).sum()))
    assert f(torch.ones(2, 3, device="cuda")).tolist() == [[2.0] * 3] * 2


def test_gradcheck() -> None:
    x = torch.rand(3, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sigmoid, x)


def test_export() -> None:
    x = torch.arange(3.0, device="cuda")
    exported = torch.export.export(nn.Linear(3, 2).cuda(), (x,))
    assert exported.module()(x).is_cuda


def test_plans_of_fourier_transforms_are_counted() -> None:
    torch.fft.fft(torch.arange(3.0, device="cuda"))
    assert torch.backends.cuda.cufft_plan_cache[0].size == 1
