"""``torch.nn.parallel``: ``DataParallel`` and the functions that it uses."""

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
    """DataParallel compares its parameters' device with its own ``cuda:i``, but they are on CUDA's target."""
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
    """The comparison in DataParallel must see the apparent device, CUDA."""
    context.editor.set(DataParallel, "forward", as_program(DataParallel.forward))
    for owner in (parallel, sys.modules[f"{_MODULE}.data_parallel"]):
        context.editor.set(owner, "data_parallel", as_program(owner.data_parallel))


class HostBroadcast:
    """Copies of tensors for several devices that share the host's memory.

    The first device gets the tensors themselves, as on CUDA if they are on it: what a replica writes into its buffers
    there reaches the module. The others get copies; gradients add up in the originals.
    """

    @staticmethod
    def apply(target_gpus: Sequence[Any], *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return one tensor per device and input, device by device."""
        first = [tensor.view_as(tensor) for tensor in inputs]
        copies = [[tensor.clone() for tensor in inputs] for _ in target_gpus[1:]]
        return tuple(tensor for row in (first, *copies) for tensor in row)


class HostScatter:
    """The chunks of a tensor, each a copy, as in a move to another device."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return one chunk per device."""
        chunks = tensor.chunk(len(target_gpus), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
        return tuple(chunk.clone() for chunk in chunks)


class HostGather:
    """The concatenation of tensors from several devices."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs concatenated along a dimension; scalars become a vector."""
        if dim == 0 and all(tensor.dim() == 0 for tensor in inputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                "and return a vector.",
                stacklevel=2,
            )
            inputs = tuple(tensor.view(1) for tensor in inputs)
        return torch.cat(inputs, dim)


class DeviceScatter(HostScatter):
    """The chunks of a tensor on the only GPU."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return one chunk per device."""
        return HostScatter.apply(target_gpus, chunk_sizes, dim, tensor.to("cuda"))


class DeviceGather(HostGather):
    """The concatenation of tensors on the only GPU, there or on the CPU."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs concatenated along a dimension; device -1 is the CPU."""
        gathered = HostGather.apply(target_device, dim, *inputs)
        if not isinstance(target_device, (int, str, torch.device)):
            target_device = torch.cuda.current_device()  # as torch does without a device
        return gathered.to("cpu" if target_device == -1 else target_device)


#: Replacements of torch's functions: if all devices are in host memory, and if one has separate memory.
_ON_HOST = {"Broadcast": HostBroadcast, "Scatter": HostScatter, "Gather": HostGather}
_ON_DEVICE = {"Broadcast": HostBroadcast, "Scatter": DeviceScatter, "Gather": DeviceGather}


@patch(f"{_MODULE}._functions.<function>", f"{_MODULE}.scatter_gather.<function>", traits=Trait.TRANSLATED)
def functions(context: Context) -> None:
    """The functions behind scatter, gather and replicate refuse CPU tensors, and look for other devices' streams."""
    replacements = _ON_HOST if Trait.HOST_MEMORY in context.traits else _ON_DEVICE
    for name, replacement in replacements.items():
        for module in (_functions, scatter_gather):
            if name in vars(module):  # each module imports the functions that it uses
                context.editor.set(module, name, replacement)


@patch(
    f"{_MODULE}.comm.reduce_add",
    f"{_MODULE}.comm.reduce_add_coalesced",
    traits=Trait.CPU_TENSORS,
)
def reductions(context: Context) -> None:
    """torch.nn.parallel.comm's sums refuse CPU tensors; those of torch.cuda.comm accept them."""
    import torch.cuda.comm as ours
    import torch.nn.parallel.comm as stock

    for name in ("reduce_add", "reduce_add_coalesced"):
        context.editor.set(stock, name, getattr(ours, name))
