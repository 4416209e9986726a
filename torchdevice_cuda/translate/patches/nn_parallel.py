"""``torch.nn.parallel``: ``DataParallel`` and the functions it is made of."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import parallel
from torch.nn.parallel import DataParallel, _functions, scatter_gather

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.disguise import as_program
from ..core.registry import patch

_MODULE = "torch.nn.parallel"
_CLASS = f"{_MODULE}.data_parallel.DataParallel"


@patch(f"{_CLASS}.__init__", traits=Trait.TRANSLATED, without=Trait.DISGUISED)
def data_parallel(context: Context) -> None:
    """DataParallel compares its parameters' device with the ``cuda:i`` it made itself; they live where CUDA goes."""
    original = DataParallel.__init__
    translator = context.translator

    def __init__(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        original(self, module, device_ids, output_device, dim)
        if hasattr(self, "src_device_obj"):
            source = translator.device(self.src_device_obj)
            self.src_device_obj = source if source.type == "cpu" else torch.device(source.type, source.index or 0)

    context.editor.set(DataParallel, "__init__", functools.wraps(original)(__init__))


@patch(
    f"{_CLASS}.forward", f"{_MODULE}.data_parallel", f"{_MODULE}.data_parallel.data_parallel", traits=Trait.DISGUISED
)
def data_parallel_disguised(context: Context) -> None:
    """The comparison sees that its parameters are on CUDA."""
    context.editor.set(DataParallel, "forward", as_program(DataParallel.forward))
    for owner in (parallel, sys.modules[f"{_MODULE}.data_parallel"]):
        context.editor.set(owner, "data_parallel", as_program(owner.data_parallel))


class HostBroadcast:
    """Tensors for each of several devices that share the host's memory.

    The first device's are the tensors themselves, as on CUDA where they live on it: what a replica writes into its
    buffers there reaches the module. The others are copies; gradients add up in the originals.
    """

    @staticmethod
    def apply(target_gpus: Sequence[Any], *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return one tensor per device and input, device by device."""
        first = [tensor.view_as(tensor) for tensor in inputs]
        copies = [[tensor.clone() for tensor in inputs] for _ in target_gpus[1:]]
        return tuple(tensor for row in (first, *copies) for tensor in row)


class HostScatter:
    """A tensor's chunks, each a copy as a move to another device is."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return one chunk per device."""
        chunks = tensor.chunk(len(target_gpus), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
        return tuple(chunk.clone() for chunk in chunks)


class HostGather:
    """Tensors of several devices in one."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs, one behind the other along a dimension; scalars become a vector."""
        if dim == 0 and all(tensor.dim() == 0 for tensor in inputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                "and return a vector.",
                stacklevel=2,
            )
            inputs = tuple(tensor.view(1) for tensor in inputs)
        return torch.cat(inputs, dim)


class DeviceScatter(HostScatter):
    """A tensor's chunks on the one GPU."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return one chunk per device."""
        return HostScatter.apply(target_gpus, chunk_sizes, dim, tensor.to("cuda"))


class DeviceGather(HostGather):
    """Tensors of the one GPU in one, there or on the CPU."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs, one behind the other along a dimension; -1 is the CPU."""
        gathered = HostGather.apply(target_device, dim, *inputs)
        if not isinstance(target_device, (int, str, torch.device)):
            target_device = torch.cuda.current_device()  # as torch reads what names no device
        return gathered.to("cpu" if target_device == -1 else target_device)


#: Replacements of torch's functions: if all devices are the host's memory, and if one is separate.
_ON_HOST = {"Broadcast": HostBroadcast, "Scatter": HostScatter, "Gather": HostGather}
_ON_DEVICE = {"Broadcast": HostBroadcast, "Scatter": DeviceScatter, "Gather": DeviceGather}


@patch(f"{_MODULE}._functions.<function>", f"{_MODULE}.scatter_gather.<function>", traits=Trait.TRANSLATED)
def functions(context: Context) -> None:
    """The functions behind scatter, gather and replicate refuse CPU tensors, and look for streams of others' types."""
    replacements = _ON_HOST if Trait.HOST_MEMORY in context.traits else _ON_DEVICE
    for name, replacement in replacements.items():
        for module in (_functions, scatter_gather):
            if name in vars(module):  # each imports what it uses
                context.editor.set(module, name, replacement)


@patch(
    f"{_MODULE}.comm.reduce_add",
    f"{_MODULE}.comm.reduce_add_coalesced",
    traits=Trait.CPU_TENSORS,
)
def reductions(context: Context) -> None:
    """torch.nn.parallel.comm's sums refuse CPU tensors; those of torch.cuda.comm take them."""
    import torch.cuda.comm as ours
    import torch.nn.parallel.comm as stock

    for name in ("reduce_add", "reduce_add_coalesced"):
        context.editor.set(stock, name, getattr(ours, name))
