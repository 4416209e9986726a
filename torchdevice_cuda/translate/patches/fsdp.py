"""``torch.distributed.fsdp``: which device a mesh of CUDA's is, and who answers for it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, resembling

_SHARDING = "torch.distributed.fsdp._fully_shard._fully_shard"


@patch(f"{_SHARDING}._get_device_from_mesh", traits=Trait.TRANSLATED)
def mesh(context: Context) -> None:
    """``fully_shard`` compares the device of a mesh, ``cuda:0``, with where the parameters are."""

    def change(module: ModuleType) -> None:
        original: Function = module._get_device_from_mesh
        translator = context.translator

        def _get_device_from_mesh(mesh: Any) -> torch.device:
            found = translator.device(original(mesh))
            # Parameters on the CPU have no index, on a GPU they have one.
            return found if found.type == "cpu" else torch.device(found.type, found.index or 0)

        context.editor.set(module, "_get_device_from_mesh", resembling(_get_device_from_mesh, original))

    context.editor.on_undo(context.when_imported(_SHARDING, context.editor.later(change)))


_COMMON = "torch.distributed.fsdp._common_utils"


@patch(f"{_COMMON}._FSDPDeviceHandle.from_device", traits=Trait.TRANSLATED)
def handle(context: Context) -> None:
    """FullyShardedDataParallel asks the module of the parameters' device for streams: ``torch.cuda`` has them."""
    kind = context.driver.device_type

    def change(module: ModuleType) -> None:
        owner: Any = module._FSDPDeviceHandle
        original: Function = owner.from_device

        def from_device(device: torch.device) -> Any:
            return torch.cuda if device.type == kind else original(device)

        context.editor.set(owner, "from_device", staticmethod(from_device))

    context.editor.on_undo(context.when_imported(_COMMON, context.editor.later(change)))
