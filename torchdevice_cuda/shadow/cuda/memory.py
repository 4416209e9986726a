"""Memory of the devices: stock's functions over the driver's figures, except those that query NVIDIA's libraries."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchdevice_cuda.drivers import active
from torchdevice_cuda.shadow import stock

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda import MemPool, is_initialized, memory_reserved, use_mem_pool
    from torch.cuda._utils import _get_device_index
    from torch.types import Device


def list_gpu_processes(device: "Device" = None) -> str:
    """Return the user's processes that use a device, with their memory."""
    device = _get_device_index(device, optional=True)
    users = active().users(device)
    if is_initialized():
        users[os.getpid()] = memory_reserved(device)
    lines = [f"process {pid:>10d} uses {used / (1024 * 1024):>12.3f} MB GPU memory" for pid, used in users.items()]
    return "\n".join([f"GPU:{device}", *(lines or ["no processes are running"])])


if "_use_uvm" in globals():

    @contextlib.contextmanager
    def _use_uvm(device: "Device" = None) -> "Iterator[MemPool]":
        """Allocate managed memory while the block runs: on the host, all memory is managed already."""
        pool = MemPool()
        with use_mem_pool(pool, device=device):
            yield pool
