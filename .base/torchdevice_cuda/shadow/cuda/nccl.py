"""NCCL's collectives over the devices of one process.

They are carried out on the driver's device. Collectives between processes are :mod:`torch.distributed`'s.
"""

import collections
import warnings
from collections.abc import Sequence

import torch.cuda

from torchdevice_cuda.shadow.bindings.comm import on_device
from torchdevice_cuda.shadow.bindings.nccl import distinct

__all__ = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]

SUM = 0  # ncclRedOp_t


def is_available(tensors):
    """Whether the collectives can take these tensors: dense, contiguous, on the device, one to each."""
    tensors = list(tensors)
    usable = all(not tensor.is_sparse and tensor.is_contiguous() and on_device(tensor) for tensor in tensors)
    return usable and distinct(tensors)


def version():
    """The version of NCCL that this release of torch comes with, as ``(major, minor, patch)``."""
    packed = torch._C._nccl_version()
    numbers = (packed >> 32, packed >> 16 & 0xFFFF, packed & 0xFFFF)
    suffix = torch._C._nccl_version_suffix().decode("utf-8")
    return (*numbers, suffix) if suffix else numbers


def unique_id():
    """Bytes by which the ranks of a communicator would find each other."""
    return torch._C._nccl_unique_id()


def init_rank(num_ranks, uid, rank):
    """Open a communicator between processes; refused here, where :mod:`torch.distributed` does that work."""
    return torch._C._nccl_init_rank(num_ranks, uid, rank)


def _check_sequence_type(inputs: torch.Tensor | Sequence[torch.Tensor]) -> None:
    """Refuse a tensor where several are meant."""
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, collections.abc.Container):
        raise TypeError("Inputs should be a collection of tensors")


def all_reduce(inputs, outputs=None, op=SUM, streams=None, comms=None):
    """Combine the inputs into every output; without outputs, into the inputs themselves."""
    _check_sequence_type(inputs)
    outputs = inputs if outputs is None else outputs
    _check_sequence_type(outputs)
    torch._C._nccl_all_reduce(inputs, outputs, op, streams, comms)


def reduce(
    inputs: Sequence[torch.Tensor],
    output: torch.Tensor | Sequence[torch.Tensor] | None = None,
    root: int = 0,
    op: int = SUM,
    streams: Sequence[torch.cuda.Stream] | None = None,
    comms=None,
    *,
    outputs: Sequence[torch.Tensor] | None = None,
) -> None:
    """Combine the inputs into one output; without one, into the root's input.

    A list of outputs, positional or as ``outputs``, is the deprecated form: the root's is used.
    """
    _check_sequence_type(inputs)
    if outputs is not None and output is not None:
        raise ValueError(
            "'output' and 'outputs' can not be both specified. 'outputs' is deprecated in favor of 'output', taking "
            "in a single output tensor. The signature of reduce is: reduce(inputs, output=None, root=0, op=SUM, "
            "streams=None, comms=None)."
        )
    if outputs is not None:
        warnings.warn(
            "`nccl.reduce` with an output tensor list is deprecated. Please specify a single output tensor with "
            "argument 'output' instead.",
            FutureWarning,
            stacklevel=2,
        )
        single = outputs[root]
    elif not isinstance(output, torch.Tensor) and isinstance(output, collections.abc.Sequence):
        warnings.warn(
            "nccl.reduce with an output tensor list is deprecated. Please specify a single output tensor.",
            FutureWarning,
            stacklevel=2,
        )
        single = output[root]
    else:
        single = inputs[root] if output is None else output
    torch._C._nccl_reduce(inputs, single, root, op, streams, comms)


def broadcast(inputs: Sequence[torch.Tensor], root: int = 0, streams=None, comms=None) -> None:
    """Copy the root's tensor into all others."""
    _check_sequence_type(inputs)
    torch._C._nccl_broadcast(inputs, root, streams, comms)


def all_gather(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    streams=None,
    comms=None,
) -> None:
    """Write all inputs, one after the other, into every output."""
    _check_sequence_type(inputs)
    _check_sequence_type(outputs)
    torch._C._nccl_all_gather(inputs, outputs, streams, comms)


def reduce_scatter(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    op: int = SUM,
    streams=None,
    comms=None,
) -> None:
    """Combine the inputs and write one part of the result into each output."""
    _check_sequence_type(inputs)
    _check_sequence_type(outputs)
    torch._C._nccl_reduce_scatter(inputs, outputs, op, streams, comms)
