"""``torch.distributed.fsdp`` and ``checkpoint``: the device that replaces CUDA, and its module."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_SHARDING = "torch.distributed.fsdp._fully_shard._fully_shard"


@patch(f"{_SHARDING}._get_device_from_mesh", traits=Trait.TRANSLATED)
def mesh(context: Context) -> None:
    """``fully_shard`` compares a mesh's device, ``cuda:0``, with the parameters' device."""

    def change(module: ModuleType) -> None:
        original: Function = module._get_device_from_mesh
        translator = context.translator

        def _get_device_from_mesh(mesh: Any) -> torch.device:
            found = translator.device(original(mesh))
            # A parameter's device has no index on the CPU, and one on a GPU.
            return found if found.type == "cpu" else torch.device(found.type, found.index or 0)

        context.editor.set(module, "_get_device_from_mesh", copy_metadata(_get_device_from_mesh, original))

    context.editor.on_undo(context.when_imported(_SHARDING, context.editor.later(change)))


_MESHES = "torch.distributed.device_mesh"


@patch(f"{_MESHES}._get_device_handle", traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def module_of(context: Context) -> None:
    """``fully_shard`` uses the module of the parameters' device for streams: ``torch.cuda`` has them."""
    kind = context.driver.device_type

    def change(module: ModuleType) -> None:
        original: Function = module._get_device_handle

        def _get_device_handle(device_type: str = "cuda") -> Any:
            return original("cuda" if device_type == kind else device_type)

        context.editor.set(module, "_get_device_handle", copy_metadata(_get_device_handle, original))

    context.editor.on_undo(context.when_imported(_MESHES, context.editor.later(change)))


_COMMON = "torch.distributed.fsdp._common_utils"


@patch(f"{_COMMON}._FSDPDeviceHandle.from_device", traits=Trait.TRANSLATED)
def handle(context: Context) -> None:
    """FullyShardedDataParallel uses the module of the parameters' device for streams: ``torch.cuda`` has them."""
    kind = context.driver.device_type

    def change(module: ModuleType) -> None:
        owner: Any = module._FSDPDeviceHandle
        original: Function = owner.from_device

        def from_device(device: torch.device) -> Any:
            return torch.cuda if device.type == kind else original(device)

        context.editor.set(owner, "from_device", staticmethod(from_device))

    context.editor.on_undo(context.when_imported(_COMMON, context.editor.later(change)))


_COLLECTIVES = "torch.distributed.fsdp._fully_shard._fsdp_collectives"
#: Its operators, and the functions that are their kernels on every device but MPS.
_KERNELS = {
    "all_gather_copy_in": "all_gather_copy_in_cuda",
    "split_with_sizes_copy": "split_with_sizes_copy",
    "chunk_cat": "chunk_cat",
}


@patch("torch.ops.fsdp[<key>]", traits=Trait.PARTIAL)
def operators(context: Context) -> None:
    """``fully_shard`` packs with its own operators, whose Python kernels are registered for every device but MPS."""
    key = context.driver.device_type.upper()
    has = torch._C._dispatch_has_kernel_for_dispatch_key

    def change(module: ModuleType) -> None:
        library = torch.library.Library("fsdp", "IMPL")
        for name, function in _KERNELS.items():
            if hasattr(module, function) and not has(f"fsdp::{name}", key):
                library.impl(name, getattr(module, function), key)
        context.editor.undone(f"torch.ops.fsdp[{key}]", library._destroy)

    context.editor.on_undo(context.when_imported(_COLLECTIVES, context.editor.later(change)))


_FILES = "torch.distributed.checkpoint.filesystem"


@patch(
    f"{_FILES}._get_available_device_type",
    f"{_FILES}._get_device_module",
    traits=Trait.TRANSLATED,
    without=Trait.HOST_MEMORY,
)
def saved(context: Context) -> None:
    """Checkpoints copy the accelerator's tensors to the CPU, and look for CUDA tensors."""
    kind = context.driver.device_type

    def change(module: ModuleType) -> None:
        asked: Function = module._get_available_device_type
        found: Function = module._get_device_module

        def _get_available_device_type() -> Any:
            return kind

        def _get_device_module(device_type: str) -> Any:
            return found("cuda" if device_type == kind else device_type)

        context.editor.set(module, "_get_available_device_type", copy_metadata(_get_available_device_type, asked))
        context.editor.set(module, "_get_device_module", copy_metadata(_get_device_module, found))

    context.editor.on_undo(context.when_imported(_FILES, context.editor.later(change)))
