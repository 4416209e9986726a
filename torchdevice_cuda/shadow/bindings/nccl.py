"""NCCL's collectives within one process, computed with tensor operations on the driver's device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import torch

from ..._compat import nccl_version
from ...drivers import active
from .comm import Streams, on_device

__all__: list[str] = []

_UNIQUE_ID_BYTES = 128

Tensors = Iterable[torch.Tensor]
#: Opaque: only NCCL itself creates them.
Communicators = Sequence[object]


def _nccl_version() -> int:
    """Return the version of this release of torch, in torch's packed format."""
    major, minor, patch = nccl_version(torch.__version__)
    return major << 32 | minor << 16 | patch


def _nccl_version_suffix() -> bytes:
    """Return an empty suffix, as releases have."""
    return b""


def _nccl_unique_id() -> bytes:
    """Return bytes with which the ranks of one communicator find each other."""
    return os.urandom(_UNIQUE_ID_BYTES)


def _nccl_init_rank(num_ranks: int, unique_id: bytes, rank: int) -> NoReturn:
    """Raise: a communicator between processes needs NCCL itself."""
    if len(unique_id) != _UNIQUE_ID_BYTES:
        raise RuntimeError(f"invalid unqiue_id (expected {_UNIQUE_ID_BYTES} bytes, got {len(unique_id)})")
    raise RuntimeError(
        "torch.cuda.nccl.init_rank() opens a communicator between processes, which the "
        f"{active().name!r} driver of torchdevice_cuda does not have; use torch.distributed.init_process_group()"
    )


# --------------------------------------------------------------------------- checks
def distinct(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether the tensors can be on one device each.

    Tensors without a device index (the ``cpu`` driver) are assigned one per device, as long as there are devices: a
    machine with one device cannot reduce over two, as on CUDA.
    """
    indices = [tensor.device.index for tensor in tensors]
    named = [index for index in indices if index is not None]
    return len(set(named)) == len(named) and len(tensors) <= active().device_count()


def _listed(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    try:
        listed = list(tensors)
    except TypeError:
        raise TypeError("expected a sequence") from None
    for i, tensor in enumerate(listed):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"expected Tensor at {i} (got {type(tensor).__name__})")
    return listed


def _check_one(tensor: torch.Tensor, dtype: torch.dtype) -> None:
    if not on_device(tensor) or tensor.is_sparse:
        raise RuntimeError("input and output elements have to be cuda dense Tensors")
    if tensor.dtype != dtype:
        raise RuntimeError("all inputs and outputs must be of the same Tensor dtype")
    if not tensor.is_contiguous():
        raise RuntimeError("all inputs and outputs must be contiguous")


def _check(
    inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor | None], grows: int = 1, shrinks: int = 1
) -> None:
    """Raise as NCCL does. An output has ``grows / shrinks`` times its input's elements; ``None`` is no output."""
    if not inputs:
        raise RuntimeError("input sequence can't be empty")
    if len(inputs) != len(outputs):
        raise RuntimeError(
            "inputs and outputs sequences have to be of the same length, but got input of length "
            f"{len(inputs)} and output of length {len(outputs)}"
        )
    numel, dtype = inputs[0].numel(), inputs[0].dtype
    for tensor, output in zip(inputs, outputs, strict=True):
        _check_one(tensor, dtype)
        if tensor.numel() != numel:
            raise RuntimeError("all inputs must have the same number of elements")
        if output is None:
            continue
        _check_one(output, dtype)
        if tensor.device != output.device:
            raise RuntimeError("input and output must be on the same device")
        if output.numel() * shrinks != numel * grows:
            raise RuntimeError("output must be of size input_size * size_multiplier")
    if not distinct(inputs):
        raise RuntimeError("inputs must be on unique devices")


def _check_extras(inputs: Sequence[torch.Tensor], streams: Streams | None, comms: Communicators | None) -> None:
    """Check streams, which the host ignores, and communicators, which cannot exist here."""
    if streams is not None and len(streams) != len(inputs):
        raise RuntimeError("number of streams is not equal to number of inputs")
    if comms is not None and len(comms) != len(inputs):
        raise RuntimeError("number of communicators is not equal to number of inputs")


def _root(root: int, inputs: Sequence[torch.Tensor]) -> int:
    if not 0 <= root < len(inputs):
        raise RuntimeError("invalid root")
    return root


# ---------------------------------------------------------------------- collectives
def _average(tensors: torch.Tensor) -> torch.Tensor:
    if tensors.dtype.is_floating_point or tensors.dtype.is_complex:
        return tensors.mean(0)
    return tensors.sum(0).div(len(tensors), rounding_mode="trunc")


# ncclRedOp_t
_OPERATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda tensors: tensors.sum(0),
    lambda tensors: tensors.prod(0),
    lambda tensors: tensors.amax(0),
    lambda tensors: tensors.amin(0),
    _average,
)


def _reduced(inputs: Sequence[torch.Tensor], op: int) -> torch.Tensor:
    """Return the reduction of the inputs, on the first one's device, in their own dtype."""
    if not 0 <= op < len(_OPERATIONS):
        raise RuntimeError(f"NCCL Error 4: invalid argument: there is no reduction {op}")
    first = inputs[0].device
    stacked = torch.stack([tensor.detach().reshape(-1).to(first) for tensor in inputs])
    return _OPERATIONS[op](stacked).to(inputs[0].dtype)


def _fill(output: torch.Tensor, values: torch.Tensor) -> None:
    with torch.no_grad():
        output.copy_(values.reshape(output.shape))


def _nccl_all_reduce(
    inputs: Tensors, outputs: Tensors, op: int, streams: Streams | None, comms: Communicators | None
) -> None:
    """Reduce the inputs into every output."""
    inputs, outputs = _listed(inputs), _listed(outputs)
    _check_extras(inputs, streams, comms)
    _check(inputs, outputs)
    result = _reduced(inputs, op)
    for output in outputs:
        _fill(output, result)


def _nccl_reduce(
    inputs: Tensors, output: torch.Tensor, root: int, op: int, streams: Streams | None, comms: Communicators | None
) -> None:
    """Reduce the inputs into one output on the root's device."""
    inputs = _listed(inputs)
    _root(root, inputs)
    _check_extras(inputs, streams, comms)
    _check(inputs, [output if i == root else None for i in range(len(inputs))])
    _fill(output, _reduced(inputs, op))


def _nccl_broadcast(inputs: Tensors, root: int, streams: Streams | None, comms: Communicators | None) -> None:
    """Copy the root's tensor into all others."""
    inputs = _listed(inputs)
    _root(root, inputs)
    _check_extras(inputs, streams, comms)
    _check(inputs, inputs)
    for i, tensor in enumerate(inputs):
        if i != root:
            _fill(tensor, inputs[root].detach())


def _nccl_all_gather(inputs: Tensors, outputs: Tensors, streams: Streams | None, comms: Communicators | None) -> None:
    """Write all inputs, one after the other, into every output."""
    inputs, outputs = _listed(inputs), _listed(outputs)
    _check_extras(inputs, streams, comms)
    _check(inputs, outputs, grows=len(inputs))
    first = inputs[0].device
    joined = torch.cat([tensor.detach().reshape(-1).to(first) for tensor in inputs])
    for output in outputs:
        _fill(output, joined)


def _nccl_reduce_scatter(
    inputs: Tensors, outputs: Tensors, op: int, streams: Streams | None, comms: Communicators | None
) -> None:
    """Reduce the inputs and write one part of the result into each output."""
    inputs, outputs = _listed(inputs), _listed(outputs)
    _check_extras(inputs, streams, comms)
    _check(inputs, outputs, shrinks=len(inputs))
    for output, part in zip(outputs, _reduced(inputs, op).chunk(len(outputs)), strict=True):
        _fill(output, part)
