"""Copies and sums over the devices of one process.

Broadcast, scatter and gather are :mod:`torch.nn.parallel.comm`'s own, over the driver's ``torch._C`` functions. The
sums are defined here: stock's read a tensor's device index, which a tensor of the ``cpu`` driver does not have.
"""

from collections.abc import Iterable, Sequence

import torch
from torch._utils import (
    _flatten_dense_tensors,
    _get_device_index,
    _reorder_tensors_as,
    _take_tensors,
    _unflatten_dense_tensors,
)

from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings.comm import index_of, on_device

stock.execute(globals())


def _by_x(size: Iterable[int]) -> str:
    return "x".join(map(str, size))


def reduce_add(inputs: Sequence[torch.Tensor], destination: torch.types.Device = None) -> torch.Tensor:
    """Sum tensors of equal shape, one per device, onto one of their devices (by default the current one).

    A single input is returned unchanged.
    """
    index = _get_device_index(destination, optional=True)
    expected = inputs[0].size()
    root = None
    for i, tensor in enumerate(inputs):
        if not on_device(tensor):
            raise AssertionError(f"reduce_add expects all inputs to be on GPUs, but input {i} is on CPU")
        if index_of(tensor, otherwise=index) == index:
            root = i if root is None else root
        if tensor.size() != expected:
            raise ValueError(f"input {i} has invalid size: got {_by_x(tensor.size())}, but expected {_by_x(expected)}")
    if root is None:
        raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
    if len(inputs) == 1:
        return inputs[0]
    others = [tensor.to(inputs[root].device) for i, tensor in enumerate(inputs) if i != root]
    result = inputs[root] + others[0]
    for tensor in others[1:]:
        result.add_(tensor)
    return result


def reduce_add_coalesced(
    inputs: Sequence[Sequence[torch.Tensor]], destination: torch.types.Device = None, buffer_size: int = 10485760
) -> tuple[torch.Tensor, ...]:
    """Sum several tensors over devices: ``inputs[d][i]`` is tensor ``i`` of device ``d``. Returns the sums as a tuple.

    Dense tensors are summed in flat groups of up to ``buffer_size`` bytes.
    """
    dense: list[list[torch.Tensor]] = [[] for _ in inputs]
    sums: list[torch.Tensor] = []
    order: list[torch.Tensor] = []
    for group in zip(*inputs, strict=True):
        if all(tensor.is_sparse for tensor in group):
            sums.append(reduce_add(group, destination))
            order.append(group[0])
        else:
            for column, tensor in zip(dense, group, strict=True):
                column.append(tensor.to_dense() if tensor.is_sparse else tensor)
            order.append(dense[0][-1])
    for chunks in zip(*(_take_tensors(column, buffer_size) for column in dense), strict=True):
        total = reduce_add([_flatten_dense_tensors(chunk) for chunk in chunks], destination)
        # .data gives each sum its own version counter, though they share the flat tensor's memory.
        sums.extend(tensor.data for tensor in _unflatten_dense_tensors(total, chunks[0]))
    return tuple(_reorder_tensors_as(sums, order))
