"""``torch.distributed``: requests for a device that go past the tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, resembling


@patch("torch.distributed.distributed_c10d.BarrierOptions", traits=Trait.TRANSLATED)
def barriers(context: Context) -> None:
    """``dist.barrier(device_ids=[0])`` names CUDA's device to C++, which makes a tensor there."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    translator = context.translator
    original: Any = distributed_c10d.BarrierOptions
    device = vars(original)["device"]

    class BarrierOptions(original):  # type: ignore[misc]
        """torch's, with a device that exists."""

        @property
        def device(self) -> Any:
            """Where the tensor is made."""
            return device.__get__(self)

        @device.setter
        def device(self, asked: torch.device | None) -> None:
            device.__set__(self, asked if asked is None or asked.type == "cpu" else translator.device(asked))

    context.editor.set(distributed_c10d, "BarrierOptions", BarrierOptions)


_GROUPS = "torch.distributed.distributed_c10d"


@patch(f"{_GROUPS}.BackendConfig.__init__", traits=Trait.SUBSTITUTE)
def unnamed(context: Context) -> None:
    """``init_process_group()`` takes NCCL where there is CUDA; Gloo serves its tensors, whatever they are here."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.distributed_c10d import Backend, BackendConfig

    original: Function = BackendConfig.__init__

    def __init__(self: Any, backend: Any) -> None:
        original(self, Backend.GLOO if backend == Backend.UNDEFINED else backend)

    context.editor.set(BackendConfig, "__init__", resembling(__init__, original))


@patch(f"{_GROUPS}._NCCL_AVAILABLE", traits=Trait.SUBSTITUTE)
def nccl(context: Context) -> None:
    """A CUDA build has NCCL with no GPU behind it, and a group of it ends the process: answer as a build without."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    context.editor.set(distributed_c10d, "_NCCL_AVAILABLE", False)
