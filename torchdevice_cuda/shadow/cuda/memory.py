"""Memory of the devices: stock's functions over the driver's figures, but for those that ask NVIDIA's libraries."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchdevice_cuda.shadow import stock

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda import MemPool, is_initialized, memory_reserved, use_mem_pool
    from torch.cuda._utils import _get_device_index
    from torch.types import Device


def list_gpu_processes(device: "Device" = None) -> str:
    """The processes that use a device, with their memory: here, this one."""
    device = _get_device_index(device, optional=True)
    lines = [f"GPU:{device}"]
    if is_initialized():
        used = memory_reserved(device) / (1024 * 1024)
        lines.append(f"process {os.getpid():>10d} uses {used:>12.3f} MB GPU memory")
    else:
        lines.append("no processes are running")
    return "\n".join(lines)


if "_use_uvm" in globals():

    @contextlib.contextmanager
    def _use_uvm(device: "Device" = None) -> "Iterator[MemPool]":
        """Take allocations from managed memory while the block runs: on the host, all memory is that already."""
        pool = MemPool()
        with use_mem_pool(pool, device=device):
            yield pool
