"""Storages that get another size, as FSDP gives its at every layer; the reference is torch on the CPU."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, EVERYWHERE, MPS, MPS_FAITHFUL, STOCK, VIRTUAL, child
from torch import nn

DEVICE = "cuda"


def _device() -> str:
    return DEVICE if torch.cuda.is_available() else "cpu"


def _by_storage(x: torch.Tensor, size: int) -> None:
    assert x.untyped_storage().resize_(size) is not None


def _by_typed_storage(x: torch.Tensor, size: int) -> None:
    x._typed_storage()._resize_(size // x.element_size())


def _by_operator(x: torch.Tensor, size: int) -> None:
    torch.ops.inductor.resize_storage_bytes_(x, size)


WAYS: dict[str, Callable[[torch.Tensor, int], None]] = {
    "storage": _by_storage,
    "typed storage": _by_typed_storage,
    "operator": _by_operator,
}


@child(*EVERYWHERE, as_in=STOCK)
@pytest.mark.parametrize("way", list(WAYS))
def test_bytes_that_fit_stay(way: str) -> list[Any]:
    x = torch.arange(9, device=_device(), dtype=torch.float32)
    view, found = x[2:4], []
    for size in (80, 24, 48):
        WAYS[way](x, size)
        storage = x.untyped_storage()
        assert storage.device.type == x.device.type
        found.append([storage.nbytes(), storage.size(), x._typed_storage()._size(), view.tolist()])
    return found


@child(*EVERYWHERE, as_in=STOCK)
@pytest.mark.parametrize("way", list(WAYS))
def test_resizing_to_zero_and_back(way: str) -> list[Any]:
    x = torch.ones(9, device=_device())
    WAYS[way](x, 0)
    emptied = [x.untyped_storage().nbytes(), x.untyped_storage().data_ptr(), list(x.shape)]
    WAYS[way](x, 36)
    x.fill_(3)
    return [emptied, x.untyped_storage().nbytes(), x.tolist(), (x + 1).tolist()]


@child(*EVERYWHERE, as_in=STOCK)
def test_tensors_over_an_emptied_storage() -> list[Any]:
    x = torch.ones(4, device=_device())
    x.untyped_storage().resize_(0)
    other = torch.empty(0, device=_device()).set_(x.untyped_storage())
    x.resize_(6)
    x.fill_(2)
    other.set_(x.untyped_storage())
    if x.is_cuda:
        x.record_stream(torch.cuda.Stream())
    return [x.tolist(), other.tolist(), x.untyped_storage().nbytes()]


def _refused(x: torch.UntypedStorage, size: Any) -> str:
    with pytest.raises((RuntimeError, TypeError)) as caught:
        x.resize_(size)
    return str(caught.value).splitlines()[0]


@child(CPU, VIRTUAL, MPS, as_in=STOCK)
def test_invalid_sizes() -> list[str]:
    storage = torch.ones(4, device=_device()).untyped_storage()
    return [_refused(storage, size) for size in ("1", 1.5, True, None)]


@child(VIRTUAL, MPS)
def test_sizes_that_cannot_be() -> None:
    storage = torch.ones(4, device="cuda").untyped_storage()
    assert _refused(storage, -1) == "Requested storage size (-1) cannot be represented as a size_t"
    assert storage.nbytes() == 16


@child(VIRTUAL, as_in=STOCK)
def test_memory_that_is_another_ones() -> str:
    foreign = torch.from_dlpack(torch.ones(4, device=_device()))
    return _refused(foreign.untyped_storage(), 0)


@child(VIRTUAL)
def test_the_books_follow() -> None:
    gc.collect()  # of the tests before it
    before = torch.cuda.memory_allocated()
    x = torch.ones(1 << 18, device="cuda")
    held = torch.cuda.memory_allocated()
    assert held - before == 1 << 20
    for _ in range(3):
        x.untyped_storage().resize_(0)
        assert torch.cuda.memory_allocated() == before
        x.untyped_storage().resize_(1 << 20)
        assert torch.cuda.memory_allocated() == held


@child(VIRTUAL.with_settings(devices=2))
def test_a_storage_stays_on_its_device() -> None:
    x = torch.ones(4, device="cuda:1")
    with torch.cuda.device(0):
        for size in (0, 64):
            x.untyped_storage().resize_(size)
            assert x.untyped_storage().device == torch.device("cuda:1")
    assert torch.cuda.memory_allocated(1) > 0


@child(VIRTUAL.with_settings(memory=64 << 20), alone=True)
def test_more_than_there_is() -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        x.untyped_storage().resize_(1 << 30)
    assert x.tolist() == [1, 1, 1, 1]


@child(MPS_FAITHFUL)
@pytest.mark.parametrize("sizes", [(80, 24, 48), (0, 36), (1, 0, 8)])
def test_a_gpu_that_is_not_compiled_by_us(sizes: tuple[int, ...]) -> None:
    """A Mac takes this path: the emulated device's own is not used here."""
    from torchdevice_cuda.fallback import storages

    x, reference = torch.arange(9, device="cuda", dtype=torch.float32), torch.arange(9, dtype=torch.float32)
    for size in sizes:
        storage, stock = x.untyped_storage(), reference.untyped_storage()
        kept = min(size, storage.nbytes())
        storages.resize(storage, size)
        torch._C.StorageBase.resize_(stock, size)
        assert storage.nbytes() == size
        assert vars(torch._C.StorageBase)["device"].__get__(storage).type == "mps"
        bytes_of = [torch.empty(0, dtype=torch.uint8, device=d).set_(s) for d, s in (("cuda", storage), ("cpu", stock))]
        assert bytes_of[0][:kept].tolist() == bytes_of[1][:kept].tolist()
    with pytest.raises(RuntimeError, match="cannot be represented as a size_t"):
        storages.resize(x.untyped_storage(), -1)


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(_device())


def _trained(model: nn.Module) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    x, losses = torch.randn(5, 8).to(_device()), []
    for _ in range(3):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@child(VIRTUAL, alone=True)
@pytest.mark.parametrize("version", [1, 2])
def test_fsdp_trains(version: int) -> None:
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import always_wrap_policy

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    dist.init_process_group("gloo", rank=0, world_size=1)
    expected = _trained(_model())
    sharded: nn.Module = _model()
    if version == 1:
        sharded = FullyShardedDataParallel(
            sharded, device_id=torch.device("cuda", 0), auto_wrap_policy=always_wrap_policy
        )
    else:
        for layer in sharded.children():
            fully_shard(layer)
        fully_shard(sharded)
    assert _trained(sharded) == pytest.approx(expected)
    dist.destroy_process_group()


@child(*EVERYWHERE, as_in=STOCK)
@pytest.mark.parametrize("offset", [None, 0, 3, -1])
def test_no_view_reaches_beyond_a_storage(offset: int | None) -> list[Any]:
    x, found = torch.arange(9.0, device=_device())[1:], []
    for size, stride in (((2, 3), (3, 1)), ((9, 9), (9, 1)), ((2,), (-1,))):
        try:
            found.append(x.as_strided(size, stride, offset).tolist())
        except RuntimeError as error:
            found.append(str(error))
    return found
