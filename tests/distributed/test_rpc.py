"""RPC between two processes, where requests for the CPU go to the GPU."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from harness import MPS, VIRTUAL_ACCELERATE, child
from torch.distributed import rpc

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
