"""Collectives run on a stream of their own: a wait for the work orders them before the current stream's next work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harness import ChildConfig, child

CHECKED = ChildConfig("virtual checked", {"driver": "virtual", "check_streams": "error"})


@contextmanager
def group() -> Iterator[None]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
        torch.cuda.synchronize()
    finally:
        dist.destroy_process_group()


@child(CHECKED)
@pytest.mark.parametrize("waits", ["work", "future", "device", "nothing"])
def test_the_result_of_a_collective(waits: str) -> None:
    import torch
    import torch.distributed as dist

    from torchdevice_cuda import StreamRaceError

    with group():
        x = torch.ones(64, device="cuda")
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        if waits == "work":
            work.wait()
        elif waits == "future":
            work.get_future().wait()
        elif waits == "device":
            torch.cuda.synchronize()
        else:
            with pytest.raises(StreamRaceError, match=r"a collective on the stream of collectives"):
                x.mul_(2)
            return
        x.mul_(2)
        dist.all_reduce(x)
        assert x.sum().item() == 128


@child(CHECKED)
def test_a_collective_before_its_tensor_is_written() -> None:
    import torch
    import torch.distributed as dist

    from torchdevice_cuda import StreamRaceError

    with group():
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.ones(64, device="cuda")
        with pytest.raises(StreamRaceError, match="writes float32"):
            dist.all_reduce(x)


@child(CHECKED)
@pytest.mark.parametrize("waits", [True, False])
def test_the_input_of_a_collective(waits: bool) -> None:
    import torch
    import torch.distributed as dist

    from torchdevice_cuda import StreamRaceError

    with group():
        x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
        work = dist.all_gather_into_tensor(out, x, async_op=True)
        assert work is not None
        x.sum()  # both read it
        if not waits:
            with pytest.raises(StreamRaceError, match=r"may still be reading it \(a collective on the stream of coll"):
                x.zero_()
            return
        work.wait()
        x.zero_()


@child(CHECKED)
def test_the_root_of_a_broadcast_reads_its_tensor() -> None:
    import torch
    import torch.distributed as dist

    from torchdevice_cuda import StreamRaceError

    with group():
        x = torch.ones(64, device="cuda")
        work = dist.broadcast(x, 0, async_op=True)
        assert work is not None
        assert x.sum().item() == 64
        with pytest.raises(StreamRaceError, match="may still be reading it"):
            x.zero_()


@child(CHECKED)
def test_collectives_of_two_groups() -> None:
    import torch
    import torch.distributed as dist

    from torchdevice_cuda import StreamRaceError

    with group():
        x, other = torch.ones(64, device="cuda"), dist.new_group([0])
        dist.all_reduce(x, async_op=True)
        dist.all_reduce(x, async_op=True)
        with pytest.raises(StreamRaceError, match="writes float32"):
            dist.all_reduce(x, group=other, async_op=True)


@child(CHECKED)
def test_a_barrier_makes_the_host_wait() -> None:
    import torch
    import torch.distributed as dist

    with group():
        host = torch.zeros(64).pin_memory()
        host.copy_(torch.ones(64, device="cuda"), non_blocking=True)
        dist.barrier()
        assert host.sum() == 64
