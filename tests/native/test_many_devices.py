"""Programs that spread one model over several virtual GPUs, against the same on one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.cuda.comm
import torch.nn.parallel.comm
from harness import VIRTUAL, child
from torch import nn
from torch.nn import parallel

many = child(VIRTUAL.with_settings(devices=2), VIRTUAL.with_settings(devices=8))
by_both_names = pytest.mark.parametrize("comm", ["torch.cuda.comm", "torch.nn.parallel.comm"])


def _comm(name: str) -> Any:
    return {"torch.cuda.comm": torch.cuda.comm, "torch.nn.parallel.comm": torch.nn.parallel.comm}[name]


def _devices() -> list[int]:
    return list(range(torch.cuda.device_count()))


def _where(tensors: Any) -> list[int]:
    return [x.get_device() for x in tensors]


@many
def test_peers_read_each_other_and_nobody_itself() -> None:
    devices = _devices()
    assert all(torch.cuda.can_device_access_peer(i, j) is (i != j) for i in devices for j in devices)


@many
def test_moves_keep_the_index() -> None:
    x = torch.arange(5.0, device="cuda:0")
    for i in _devices():
        y = x.to(i)
        assert (y.get_device(), y.tolist()) == (i, x.tolist())
        assert (y.data_ptr() == x.data_ptr()) is (i == 0)
        with torch.cuda.device(i):
            assert torch.cuda.current_device() == torch.ones(1, device="cuda").get_device() == i
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + x.to(1)


@many
def test_sparse_tensors_on_a_device_that_is_not_current() -> None:
    for i in _devices():
        at = {"device": f"cuda:{i}"}
        dense = torch.eye(3, **at)
        sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1], [2, 0]], **at), torch.ones(2, **at), (3, 3))
        made = [
            sparse,
            sparse.coalesce(),
            dense.to_sparse(),
            dense.to_sparse_csr(),
            sparse.cuda(0).to(i),
            sparse.cpu().to(i),
        ]
        assert _where(made) == [i] * len(made)
        assert torch.sparse.mm(sparse, dense).cpu().equal(sparse.to_dense().cpu())


@many
@by_both_names
def test_broadcasts(comm: str) -> None:
    devices, x = _devices(), torch.randn(3, 4, device="cuda:0")
    for source in (x, x.cpu()):
        out = _comm(comm).broadcast(source, devices)
        assert _where(out) == devices
        assert all(y.cpu().equal(x.cpu()) for y in out)
    places = [torch.empty(3, 4, device=f"cuda:{i}") for i in devices[1:]]
    _comm(comm).broadcast(x, out=places)
    assert all(y.cpu().equal(x.cpu()) for y in places)
    several = [x, torch.arange(3, device="cuda:0"), x.to_sparse(), x[0]]
    for device, row in zip(devices, _comm(comm).broadcast_coalesced(several, devices, buffer_size=32), strict=True):
        assert _where(row) == [device] * len(several)
        assert all(y.to_dense().cpu().equal(z.to_dense().cpu()) for y, z in zip(row, several, strict=True))


@many
@by_both_names
def test_sums(comm: str) -> None:
    devices = _devices()
    last, total = devices[-1], sum(i + 1 for i in devices)
    out = _comm(comm).reduce_add([torch.full((3,), i + 1.0, device=f"cuda:{i}") for i in devices], destination=last)
    assert (out.get_device(), out.tolist()) == (last, [total] * 3)
    rows = [[torch.full((n,), i + 1.0, device=f"cuda:{i}") for n in (2, 5)] for i in devices]
    sums = _comm(comm).reduce_add_coalesced(rows, destination=0, buffer_size=16)
    assert [y.tolist() for y in sums] == [[total] * 2, [total] * 5]


@many
@by_both_names
def test_scattering_and_gathering(comm: str) -> None:
    devices = _devices()
    x = torch.randn(len(devices) * 3, 2, device="cuda:0")
    for source in (x, x.cpu()):
        out = _comm(comm).scatter(source, devices)
        assert _where(out) == devices
        assert torch.cat([y.cpu() for y in out]).equal(x.cpu())
    sizes = [1] * (len(devices) - 1) + [len(devices) * 2 + 1]
    out = _comm(comm).scatter(x, devices, sizes, 0)
    assert [len(y) for y in out] == sizes
    assert _comm(comm).gather(out, 0, 0).equal(x)
    assert _comm(comm).gather(out, 0, "cpu").equal(x.cpu())


@many
def test_replicas_compute_what_one_computes() -> None:
    torch.manual_seed(0)
    devices = _devices()
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).cuda().eval()
    one = copy.deepcopy(net)
    x, y = torch.randn(len(devices) * 2, 3, 8, 8, device="cuda"), torch.randn(len(devices) * 2, 5, device="cuda")
    replicas = parallel.replicate(net, devices)
    assert _where(replica[0].weight for replica in replicas) == devices
    out = parallel.gather(parallel.parallel_apply(replicas, parallel.scatter(x, devices)), 0)
    torch.testing.assert_close(out, one(x))
    (out - y).square().mean().backward()
    (one(x) - y).square().mean().backward()
    for parameter, reference in zip(net.parameters(), one.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, reference.grad)


@many
def test_data_parallel_trains_as_one() -> None:
    torch.manual_seed(0)
    count = len(_devices())
    one = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
    spread = nn.DataParallel(copy.deepcopy(one))
    models = [(one, torch.optim.Adam(one.parameters())), (spread, torch.optim.Adam(spread.parameters()))]
    for _ in range(20):
        x, y = torch.randn(count * 3 + 1, 6, device="cuda"), torch.randn(count * 3 + 1, 2, device="cuda")
        losses = []
        for model, optimizer in models:
            optimizer.zero_grad()
            losses.append((model(x) - y).square().mean())
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-5)
    for a, b in zip(one.parameters(), spread.module.parameters(), strict=True):
        torch.testing.assert_close(a, b)


class Telling(nn.Module):
    """Says which device each of its replicas ran on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, given: dict[str, torch.Tensor], *, scale: float) -> dict[str, torch.Tensor]:
        x = given["x"]
        assert x.device == self.weight.device
        return {
            "sum": (x * self.weight * scale).sum().view(1),
            "device": torch.full((1,), x.get_device(), device=x.device),
        }


@many
def test_data_parallel_of_structures() -> None:
    devices = _devices()
    spread = nn.DataParallel(Telling().cuda())
    out = spread({"x": torch.ones(len(devices) * 2, 3)}, scale=2.0)
    assert out["device"].tolist() == devices
    assert out["sum"].tolist() == [12.0] * len(devices)
    with pytest.raises(RuntimeError, match="module must have its parameters and buffers on device cuda:0"):
        nn.DataParallel(nn.Linear(2, 2).cuda(devices[-1]))(torch.ones(len(devices), 2))
