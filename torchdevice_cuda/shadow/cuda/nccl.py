"""NCCL's collectives over the devices of one process: stock's functions, computed on the driver's device.

Collectives between processes are in :mod:`torch.distributed`.
"""

from collections.abc import Iterable

import torch

from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings.comm import on_device
from torchdevice_cuda.shadow.bindings.nccl import distinct

stock.execute(globals())


def is_available(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether the collectives accept these tensors: dense, contiguous, on the device, one on each."""
    tensors = list(tensors)
    usable = all(not tensor.is_sparse and tensor.is_contiguous() and on_device(tensor) for tensor in tensors)
    return usable and distinct(tensors)
