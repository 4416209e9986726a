"""RPC between two processes: tensors of the GPU, and tensors of the CPU where requests for it go to the GPU."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from harness import MPS, VIRTUAL, VIRTUAL_ACCELERATE, child
from torch.distributed import autograd, rpc

from .ranks import free_port


def add(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return one + other


def _work(rank: int, port: int, queue: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        sum_ = rpc.rpc_sync("worker1", add, args=(torch.ones(2), torch.ones(2, device="cpu")))
        try:
            rpc.rpc_sync("worker1", add, args=(torch.ones(2, device="cuda"), 1))
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        queue.put((sum_.tolist(), said))
    rpc.shutdown()


@pytest.mark.slow
@child(VIRTUAL_ACCELERATE, MPS)
def test_tensors_made_for_the_cpu() -> None:
    queue: Any = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_work, args=(free_port(), queue), nprocs=2)
    found, said = queue.get()
    assert found == [2, 2]
    assert said.startswith("TensorPipe RPC backend only supports CPU tensors by default")


def place(tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    return str(tensor.device), tensor * 2


def _attempts(x: torch.Tensor) -> dict[str, Any]:
    """List the requests of worker 0 to worker 1, by subject."""

    def gradient() -> torch.Tensor:
        with autograd.context() as context:
            given = x.clone().requires_grad_()
            autograd.backward(context, [rpc.rpc_sync("worker1", torch.mul, args=(given, 3)).sum()])
            found: torch.Tensor = autograd.get_gradients(context)[given]
            return found

    large = torch.arange(1 << 18, device="cuda:1")
    return {
        "there and back": lambda: rpc.rpc_sync("worker1", place, args=(x,)),
        "future": lambda: rpc.rpc_async("worker1", add, args=(x, 1)).then(lambda done: done.value() + 1).wait(),
        "remote": lambda: rpc.remote("worker1", add, args=(x, 1)).to_here(),
        "view": lambda: rpc.rpc_sync("worker1", place, args=(torch.arange(6, device="cuda").view(2, 3).t()[1:],)),
        "large": lambda: bool((rpc.rpc_sync("worker1", add, args=(large, 1)) == large + 1).all()),
        "of the CPU": lambda: rpc.rpc_sync("worker1", place, args=(torch.ones(2),)),
        "gradient": gradient,
        "not mapped": lambda: rpc.rpc_sync("worker1", add, args=(torch.ones(2, device="cuda:2"), 1)),
        "comes back unmapped": lambda: rpc.rpc_sync("worker1", _made_there),
        "to itself": lambda: rpc.rpc_sync("worker0", add, args=(x, 1)),
    }


def _made_there() -> torch.Tensor:
    return torch.ones(2, device="cuda:2")


def _shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_shown(one) for one in value]
    return [str(value.device), value.tolist()] if isinstance(value, torch.Tensor) else value


def _map(rank: int, port: int, queue: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    options = rpc.TensorPipeRpcBackendOptions()
    if rank == 0:
        options.set_device_map("worker1", {0: 1, 1: 0})
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        found = {}
        for name, attempt in _attempts(torch.ones(3, device="cuda")).items():
            try:
                found[name] = _shown(attempt())
            except RuntimeError as error:
                found[name] = str(error)
        queue.put(found)
    rpc.shutdown()


@child(VIRTUAL.with_settings(devices=3))
def test_device_maps() -> None:
    with pytest.raises(ValueError, match="`device_map` only supports 1-to-1 mapping"):
        rpc.TensorPipeRpcBackendOptions(device_maps={"worker1": {0: 1, 1: 1}})
    options = rpc.TensorPipeRpcBackendOptions(device_maps={"worker1": {0: 1}})
    with pytest.raises(ValueError, match="`set_device_map` only supports 1-to-1 mapping"):
        options.set_device_map("worker1", {0: 2})
    queue: Any = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_map, args=(free_port(), queue), nprocs=2)
    found = queue.get()
    refused = "TensorPipe RPC backend only supports CPU tensors by default"
    for name in ("not mapped", "to itself"):
        assert refused in found.pop(name)
    assert "tensors residing on device(s) cuda:2 which are not among the expected" in found.pop("comes back unmapped")
    assert found == {
        "there and back": ["cuda:1", ["cuda:0", [2, 2, 2]]],
        "future": ["cuda:0", [3, 3, 3]],
        "remote": ["cuda:0", [2, 2, 2]],
        "view": ["cuda:1", ["cuda:0", [[2, 8], [4, 10]]]],
        "large": True,
        "of the CPU": ["cpu", ["cpu", [2, 2]]],
        "gradient": ["cuda:0", [3, 3, 3]],
    }
