"""``nn.DataParallel`` and the functions it is made of."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch


@patch("cpu", "mps")
def data_parallel(editor: Editor, driver: Driver) -> None:
    """DataParallel compares its parameters' device with the ``cuda:i`` it made itself; they live where CUDA goes."""
    if driver.device_type == "mps" and editor.settings.identity == "cuda":
        return  # it is told that they live on CUDA
    from torch.nn.parallel import DataParallel

    original = DataParallel.__init__
    translator = editor.translator

    def __init__(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        original(self, module, device_ids, output_device, dim)
        if hasattr(self, "src_device_obj"):
            source = translator.device(self.src_device_obj)
            self.src_device_obj = source if source.type == "cpu" else torch.device(source.type, source.index or 0)

    editor.set(DataParallel, "__init__", functools.wraps(original)(__init__))


class HostBroadcast:
    """Tensors for each of several devices that share the host's memory.

    The first device's are the tensors themselves, as on CUDA where they live on it: what a replica writes into its
    buffers there reaches the module. The others are copies; gradients add up in the originals.
    """

    @staticmethod
    def apply(target_gpus: Sequence[Any], *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One tensor per device and input, device by device."""
        first = [tensor.view_as(tensor) for tensor in inputs]
        copies = [[tensor.clone() for tensor in inputs] for _ in target_gpus[1:]]
        return tuple(tensor for row in (first, *copies) for tensor in row)


class HostScatter:
    """A tensor's chunks, each a copy as a move to another device is."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """One chunk per device."""
        chunks = tensor.chunk(len(target_gpus), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
        return tuple(chunk.clone() for chunk in chunks)


class HostGather:
    """Tensors of several devices in one."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: torch.Tensor) -> torch.Tensor:
        """The inputs, one behind the other along a dimension; scalars become a vector."""
        if dim == 0 and all(tensor.dim() == 0 for tensor in inputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                "and return a vector.",
                stacklevel=2,
            )
            inputs = tuple(tensor.view(1) for tensor in inputs)
        return torch.cat(inputs, dim)


class AppleScatter(HostScatter):
    """A tensor's chunks on the one GPU."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """One chunk per device."""
        return HostScatter.apply(target_gpus, chunk_sizes, dim, tensor.to("cuda"))


class AppleGather(HostGather):
    """Tensors of the one GPU in one, there or on the CPU."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: torch.Tensor) -> torch.Tensor:
        """The inputs, one behind the other along a dimension; -1 is the CPU."""
        gathered = HostGather.apply(target_device, dim, *inputs)
        return gathered.to("cpu" if target_device == -1 else target_device)


@patch("mps")
def functions_on_apple(editor: Editor, driver: Driver) -> None:
    """The functions behind scatter, gather and replicate look for streams of the device type that tensors are of."""
    from torch.nn.parallel import _functions, scatter_gather

    for name, replacement in (("Broadcast", HostBroadcast), ("Scatter", AppleScatter), ("Gather", AppleGather)):
        for module in (_functions, scatter_gather):
            if hasattr(module, name):
                editor.set(module, name, replacement)


@patch("cpu")
def functions(editor: Editor, driver: Driver) -> None:
    """The functions behind scatter, gather and replicate refuse CPU tensors, which CUDA's are here."""
    from torch.nn.parallel import _functions, scatter_gather

    for name, replacement in (("Broadcast", HostBroadcast), ("Scatter", HostScatter), ("Gather", HostGather)):
        for module in (_functions, scatter_gather):
            if hasattr(module, name):
                editor.set(module, name, replacement)


@patch("cpu")
def reductions(editor: Editor, driver: Driver) -> None:
    """torch.nn.parallel.comm's sums refuse CPU tensors; those of torch.cuda.comm take them."""
    import torch.cuda.comm as ours
    import torch.nn.parallel.comm as stock

    for name in ("reduce_add", "reduce_add_coalesced"):
        editor.set(stock, name, getattr(ours, name))
