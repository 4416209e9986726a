"""Ranks that fail, are late or ask for something else: the others get an error, and soon."""

from __future__ import annotations

import datetime
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from harness import CPU, STOCK, VIRTUAL, ChildConfig, child, in_child, run_forked
from torch import nn

from .ranks import free_port, spread

TWO = VIRTUAL.with_settings(devices=2)
_LIMIT = 20.0


def _fail(rank: int, port: int, queue: Any, how: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=4))
    dist.barrier()
    if rank == 1:
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_LIMIT)
        os._exit(0)
    begun = time.monotonic()
    x = torch.ones(1000, device="cuda")
    said = "nothing"
    try:
        if how == "sends nothing":
            dist.recv(x, 1)
        elif how == "is late for a future":
            dist.all_reduce(x.int(), op=dist.ReduceOp.AVG, async_op=True).get_future().wait()
        else:
            for _ in range(3):
                dist.all_reduce(x)
    except RuntimeError as error:
        said = str(error)
    queue.put((said, time.monotonic() - begun))


def fail(how: str) -> tuple[str, float]:
    """Return the error of the other of two ranks, and the seconds until it was raised."""
    context = mp.get_context("spawn")
    queue: Any = context.SimpleQueue()
    port = free_port()
    both = [context.Process(target=_fail, args=(rank, port, queue, how)) for rank in (0, 1)]
    for one in both:
        one.start()
    both[0].join()
    both[1].kill()
    both[1].join()
    told: tuple[str, float] = queue.get()
    return told


@child(TWO)
def test_a_rank_is_killed() -> None:
    said, seconds = fail("is killed")
    assert "Connection closed by peer" in said or "Connection reset by peer" in said
    assert seconds < _LIMIT


@pytest.mark.slow
@child(TWO, CPU)
@pytest.mark.parametrize("how", ["is late", "sends nothing", "is late for a future"])
def test_a_rank_is_not_there(how: str) -> None:
    said, seconds = fail(how)
    assert "Timed out waiting 4000ms" in said
    assert 3 < seconds < _LIMIT


def _disagree(rank: int) -> dict[str, Callable[[Any], Any]]:
    """Calls that Gloo would end the process for, hang in, or get wrong in silence, by what the ranks disagree about."""

    def ones(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.ones(count, device="cuda", dtype=dtype)

    more, type_ = 10 + rank, (torch.float32, torch.int32)[rank]
    mean = dist.ReduceOp.AVG
    return {
        "size": lambda group: dist.all_reduce(ones(more), group=group, async_op=True),
        "size of a mean": lambda group: dist.all_reduce(ones(more), mean, group, async_op=True),
        "type": lambda group: dist.all_reduce(ones(10, type_), group=group, async_op=True),
        "size, first larger": lambda group: dist.broadcast(ones(10 - rank), 0, group, async_op=True),
        "size, first smaller": lambda group: dist.broadcast(ones(more), 0, group, async_op=True),
        "gathered": lambda group: dist.all_gather([ones(more), ones(more)], ones(more), group, async_op=True),
        "call": lambda group: (
            dist.barrier(group, async_op=True) if rank else dist.all_reduce(ones(10), group=group, async_op=True)
        ),
        "received": lambda group: dist.irecv(ones(5), 0, group) if rank else dist.isend(ones(10), 1, group),
        "exchanged": lambda group: dist.all_to_all_single(
            ones(5), ones(5), [2 - rank, 3 + rank], [2, 3], group, async_op=True
        ),
    }


def disagree(rank: int, size: int) -> dict[str, str]:
    found = {}
    for name, call in _disagree(rank).items():
        group = dist.new_group(timeout=datetime.timedelta(seconds=4))
        dist.all_reduce(torch.ones(3, device="cuda"), group=group)
        try:
            call(group)
        except RuntimeError as error:
            found[name] = str(error)
    return found


def disagreeing() -> list[dict[str, str]]:
    return spread(disagree, 2)


@pytest.mark.parametrize(
    "where", [pytest.param(TWO, marks=TWO.marks, id="virtual"), pytest.param(CPU, marks=pytest.mark.slow, id="cpu")]
)
def test_ranks_that_disagree_are_told(where: ChildConfig) -> None:
    """The one that comes later is, before it calls Gloo."""
    one, other = in_child(disagreeing, where)
    said = {**one, **other}
    assert list(_disagree(0)) == [name for name in _disagree(0) if name in said]
    assert all(words.startswith("Detected mismatch between collectives on ranks.") for words in said.values()), said
    assert "of 10 elements of float32" in said["size"]
    assert "of 11 elements of float32" in said["size"]
    assert "Rank 0 is sending 40 bytes to Rank 1, which is receiving 20 bytes." in said["received"]


def _compare(rank: int, port: int, queue: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_DISTRIBUTED_DEBUG="DETAIL")
    dist.set_debug_level_from_env()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20))
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, rank)
    try:
        dist.all_reduce(torch.ones(10 + rank, device="cuda"))
        said = "nothing"
    except RuntimeError as error:
        said = str(error)
    queue.put((x.tolist(), objects, said))


@pytest.mark.slow
@child(TWO)
def test_ranks_that_are_compared() -> None:
    """TORCH_DISTRIBUTED_DEBUG is torch's own way, and works between hosts, too."""
    queue: Any = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_compare, args=(free_port(), queue), nprocs=2)
    for x, objects, said in (queue.get(), queue.get()):
        assert (x, objects) == ([1, 1], [0, 1])
        assert said.startswith("Detected mismatch between collectives on ranks")


def resumed_alone() -> list[float]:
    """Return the output of `programs/resuming.py` in one process that has the whole batch."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(6):
        torch.manual_seed(step)
        x = torch.randn(2, 8, 4).reshape(16, 4)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
@pytest.mark.native
def test_torchrun_restarts_and_resumes(tmp_path: Path) -> None:
    program = Path(__file__).with_name("programs") / "resuming.py"
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1", f"--master-port={free_port()}"]
    done = run_forked(
        "-m", "torchdevice_cuda", "--driver", "virtual", "--devices", "2", *launcher, str(program), str(tmp_path)
    )
    assert done.status == 0, done.err
    losses = [float(word) for word in done.out.split("losses")[1].split()]
    assert losses == pytest.approx(in_child(resumed_alone, STOCK.when("after")), abs=1e-5)
