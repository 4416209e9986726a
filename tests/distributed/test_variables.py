"""The variables that PyTorch reads for NCCL: what cannot be read is refused, and what means something acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import CPU, VIRTUAL, child

from .one_rank import begin, on_cuda

_BAD = {
    "TORCH_NCCL_BLOCKING_WAIT": "perhaps",
    "TORCH_NCCL_NAN_CHECK": "2",
    "TORCH_NCCL_ENABLE_TIMING": "",
    "TORCH_NCCL_DESYNC_DEBUG": "on",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "always",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "99999999999",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "many",
    "NCCL_BLOCKING_WAIT": "perhaps",
}


@child(VIRTUAL)
@pytest.mark.filterwarnings("ignore:Environment variable NCCL_BLOCKING_WAIT is deprecated")
def test_variables_that_cannot_be_read() -> None:
    for name, value in _BAD.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(RuntimeError, match=f"^Invalid value for environment variable: {name}$"):
                begin()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", " 3 times")
        patch.setenv("NCCL_BLOCKING_WAIT", "Yes")
        with pytest.warns(UserWarning, match="NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead"):
            begin()
    dist.destroy_process_group()


@child(VIRTUAL, CPU)
def test_numbers_are_looked_at() -> None:
    """As a kernel of the GPU does: it asserts, so that the error is CUDA's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_NCCL_NAN_CHECK", "1")
        group = begin()
    good, bad = on_cuda(4), on_cuda(4) * float("nan")
    calls: list[Callable[[torch.Tensor], object]] = [
        dist.all_reduce,
        lambda x: dist.all_reduce(x, op=dist.ReduceOp.AVG),
        lambda x: dist.broadcast(x, 0),
        lambda x: dist.all_gather_into_tensor(on_cuda(4), x),
        lambda x: dist.reduce_scatter_tensor(on_cuda(4), x),
        lambda x: dist.all_to_all_single(on_cuda(4), x),
    ]
    for call in calls:
        call(good)
        with pytest.raises(RuntimeError, match="^CUDA error: device-side assert triggered"):
            call(bad)
    dist.all_reduce(on_cuda(4, dtype=torch.int32))
    group._get_backend(torch.device("cuda"))._set_enable_nan_check(False)
    dist.all_reduce(bad)
    dist.destroy_process_group()


@child(VIRTUAL)
def test_work_says_how_long_it_took() -> None:
    begin()
    work: Any = dist.all_reduce(on_cuda(4), async_op=True)
    work.wait()
    with pytest.raises(RuntimeError, match="getDuration only works if timing was enabled"):
        work._get_duration()
    dist.destroy_process_group()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_NCCL_ENABLE_TIMING", "1")
        begin()
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        work = dist.all_reduce(on_cuda(4), op=op, async_op=True)
        work.wait()
        assert 0 < work._get_duration() < 10_000
    dist.destroy_process_group()
