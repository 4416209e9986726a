"""Tensors, storages and generators: where they go, and what is copied on the way."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from harness import CPU, child
from torch.utils.data import DataLoader, TensorDataset

from .asking import HOST, on_cuda

pytestmark = child(CPU, CPU.when("after"))

TARGETS: dict[str, Any] = {"cuda": "cuda", "cuda:0": "cuda:0", "device": torch.device("cuda"), "0": 0, "mps": "mps"}


# --------------------------------------------------------------------------- Tensor.to
@pytest.mark.parametrize("target", TARGETS)
def test_to_a_device(target: str) -> None:
    x, to = torch.arange(6.0).reshape(2, 3), TARGETS[target]
    for moved in (
        x.to(to),
        x.to(device=to),
        x.to(to, non_blocking=True),
        x.to(to, copy=True),
        x.to(to, memory_format=torch.preserve_format),
        x.to(device=to, non_blocking=False, copy=False),
    ):
        assert torch.equal(moved, x)
        assert moved.dtype is x.dtype
        assert moved.data_ptr() != x.data_ptr() or target == "mps"


@pytest.mark.parametrize("target", TARGETS)
def test_to_a_device_and_a_dtype(target: str) -> None:
    x, to = torch.arange(6.0).reshape(2, 3), TARGETS[target]
    for moved in (
        x.to(to, torch.float64),
        x.to(to, dtype=torch.float64),
        x.to(device=to, dtype=torch.float64),
        x.to(to, torch.float64, True),
        x.to(to, torch.float64, False, True),
        x.to(dtype=torch.float64, device=to, copy=True),
    ):
        assert moved.dtype is torch.float64
        assert moved.tolist() == x.tolist()


def test_to_a_dtype() -> None:
    x = torch.arange(6.0)
    assert x.to(torch.float64).dtype is torch.float64
    assert x.to(torch.float16, True).dtype is torch.float16
    assert x.to(dtype=torch.int64).dtype is torch.int64
    assert x.to(None, torch.float64).dtype is torch.float64
    assert x.to(torch.float32) is x
    assert x.to(torch.float32, copy=True) is not x


def test_to_the_dtype_of_another_tensor() -> None:
    x, other = torch.arange(6.0), torch.zeros(1, dtype=torch.float64)
    assert x.to(other).dtype is torch.float64
    assert x.to(other, non_blocking=True).dtype is torch.float64
    assert x.to(tensor=other).dtype is torch.float64
    assert x.to(x) is x


def test_to_the_device_of_another_tensor() -> None:
    here, there = torch.ones(2), torch.ones(1, dtype=torch.float64, device="cuda")
    moved = here.to(there)
    assert on_cuda(moved)
    assert moved.dtype is torch.float64
    assert there.to(there) is there


def test_to_the_device_of_another_tensor_is_a_copy() -> None:
    here = torch.ones(2)
    here.to(torch.ones(1, device="cuda")).add_(1)
    assert here.tolist() == [1.0, 1.0]


def test_to_keeps_strides_or_takes_a_memory_format() -> None:
    x, wide = torch.arange(6.0).reshape(2, 3).t(), torch.ones(1, 2, 3, 4)
    assert x.to("cuda").stride() == x.stride()
    assert wide.to("cuda", memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)


# ------------------------------------------------------------------- Tensor.cuda and cpu
def test_copies_between_cuda_and_cpu_are_copies() -> None:
    here = torch.zeros(3)
    there = here.cuda()
    there.add_(1)
    back = there.cpu()
    there.add_(1)
    assert here.tolist() == [0.0] * 3
    assert back.tolist() == [1.0] * 3
    assert there.tolist() == [2.0] * 3
    assert there.type("torch.FloatTensor").data_ptr() != there.data_ptr()
    assert there.to("cpu") is not there
    assert there.to("cuda", copy=True) is not there


def test_moves_to_the_own_device_return_the_tensor() -> None:
    there, here = torch.zeros(3, device="cuda"), torch.zeros(3)
    for stays in (
        there.cuda(),
        there.cuda(0),
        there.cuda(non_blocking=True),
        there.cuda(torch.device("cuda")),
        there.cuda("cuda:0"),
        there.to("cuda"),
        there.to("cuda:0"),
        there.to(0),
        there.to(device="cuda"),
    ):
        assert stays is there
    assert here.cpu() is here
    assert here.to("cpu") is here


def test_gradients_come_back() -> None:
    leaf = torch.ones(2, requires_grad=True)
    (leaf.cuda() * 3).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [3.0, 3.0]
    assert not leaf.cuda().is_leaf


def test_memory_formats_of_cuda_and_cpu() -> None:
    there = torch.ones(1, 2, 3, 4).cuda(memory_format=torch.channels_last)
    assert there.is_contiguous(memory_format=torch.channels_last)
    assert there.cpu(memory_format=torch.contiguous_format).is_contiguous()


def test_cuda_wants_a_cuda_device() -> None:
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="must be cuda device but got cpu"):
        x.cuda("cpu")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        x.cuda(5)


def test_cuda_wants_its_own_arguments() -> None:
    x = torch.ones(2)
    with pytest.raises(TypeError):
        x.cuda(nonsense=1)
    with pytest.raises(TypeError):
        x.cuda(0, True, torch.preserve_format, 1)


# ------------------------------------------------------------------------- Tensor.type
def test_type_says_what_it_is() -> None:
    assert torch.ones(2).type() == "torch.FloatTensor"


def test_type_of_a_dtype() -> None:
    assert torch.ones(2).type(torch.float64).dtype is torch.float64
    assert torch.ones(2).type("torch.IntTensor").dtype is torch.int32
    assert torch.ones(2).type(torch.LongTensor).dtype is torch.int64


def test_type_of_cuda() -> None:
    for kind in ("torch.cuda.DoubleTensor", torch.cuda.DoubleTensor):
        moved = torch.ones(2).type(kind)
        assert moved.dtype is torch.float64
        assert on_cuda(moved)


# ------------------------------------------------------------------------ pinned memory
def test_pinned_memory() -> None:
    x = torch.ones(2)
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert not x.is_pinned()
    assert pinned.to("cuda", non_blocking=True).tolist() == [1.0, 1.0]


def test_factories_pin() -> None:
    assert torch.zeros(2, pin_memory=True).is_pinned()
    assert torch.zeros_like(torch.ones(2), pin_memory=True).is_pinned()
    assert not torch.zeros(2, pin_memory=False).is_pinned()


def test_only_the_cpus_memory_is_pinned() -> None:
    with pytest.raises(RuntimeError, match="dense CPU tensors can be pinned"):
        torch.ones(2).cuda().pin_memory()
    with pytest.raises(RuntimeError, match="can be pinned"):
        torch.zeros(2, device="cuda", pin_memory=True)


@pytest.mark.parametrize("options", [{}, {"pin_memory_device": "cuda"}], ids=["", "of a device"])
def test_data_loaders_pin(options: dict[str, Any]) -> None:
    data = TensorDataset(torch.arange(6.0), torch.arange(6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = list(DataLoader(data, batch_size=3, pin_memory=True, **options))
    assert len(batches) == 2
    assert all(x.is_pinned() and y.is_pinned() for x, y in batches)
    assert torch.cat([x.cuda(non_blocking=True) for x, _ in batches]).tolist() == list(range(6))


def test_record_stream() -> None:
    there = torch.ones(2).cuda()
    assert there.record_stream(torch.cuda.current_stream()) is None
    with pytest.raises(RuntimeError):
        there.record_stream(3)


# ---------------------------------------------------------------- generators, storages
def test_generator_is_a_class() -> None:
    made = torch.Generator(device="cuda")
    assert isinstance(torch.Generator, type)
    assert torch.Generator.__name__ == "Generator"
    assert isinstance(made, torch.Generator)
    assert issubclass(type(made), torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert isinstance(torch.cuda.default_generators[0], torch.Generator)


def test_generators() -> None:
    made = torch.Generator(device="cuda")
    assert made.manual_seed(9) is made
    assert made.initial_seed() == 9
    assert torch.Generator().device == HOST
    assert torch.Generator("cpu").manual_seed(1).initial_seed() == 1
    with pytest.raises(RuntimeError):
        torch.Generator(device="nowhere")


def test_storages_are_made() -> None:
    made = torch.UntypedStorage(8, device="cuda")
    assert isinstance(made, torch.UntypedStorage)
    assert made.nbytes() == 8


def test_storages_are_copied() -> None:
    x = torch.ones(2)
    for moved in (x.untyped_storage().cuda(), x.untyped_storage().to(device="cuda")):
        moved.fill_(0)
        assert moved.nbytes() == 8
        assert x.tolist() == [1.0, 1.0]
    assert x.cuda().untyped_storage().cpu().nbytes() == 8


# ------------------------------------------------------------------------------ threads
def _moves_are_its_own(number: int) -> bool:
    for _ in range(200):
        x = torch.full((3,), float(number), device="cuda")
        y = x.cpu()
        x.add_(1)
        if y.tolist() != [number] * 3 or x.cuda() is not x or y.cuda() is y:
            return False
    return True


def test_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(_moves_are_its_own, range(16)))
