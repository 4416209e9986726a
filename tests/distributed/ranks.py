"""A function in several processes at once, each a rank of one group."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torchdevice_cuda

#: Long enough for a machine that has much to do, short enough to fail in a test.
TIMEOUT = datetime.timedelta(seconds=60)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _begin(rank: int, size: int, port: int, backend: str, function: Callable[..., Any], args: Any, queue: Any) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank)
    )
    torch.set_num_threads(1)
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(backend, timeout=TIMEOUT)
    queue.put((rank, function(rank, size, *args)))
    dist.destroy_process_group()


def spread(function: Callable[..., Any], size: int, *args: Any, backend: str = "nccl") -> list[Any]:
    """Run ``function(rank, size, *args)`` in ``size`` processes and return the results in the order of ranks.

    On the virtual GPU, which nobody has used yet, they are forks: a spawned one spends most of its time on importing
    torch. The other drivers' are spawned, as torchrun's are.
    """
    method = "fork" if torchdevice_cuda.driver().name == "virtual" else "spawn"
    queue = mp.get_context(method).SimpleQueue()
    given = (size, free_port(), backend, function, args, queue)
    mp.start_processes(_begin, args=given, nprocs=size, start_method=method)
    return [value for _, value in sorted(queue.get() for _ in range(size))]
