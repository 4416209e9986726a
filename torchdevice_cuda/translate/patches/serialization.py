"""``torch.save`` and ``torch.load``: checkpoints written on CUDA, and for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._utils
from torch import serialization
from torch.jit import _serialization

from ...drivers.traits import NONE, Trait
from ...fallback.refusals import NARROW
from ..core.context import Context
from ..core.disguise import CPU, CUDA
from ..core.registry import patch
from ..core.requests import TOGGLE, cpu_is_meant
from ..core.wrapping import Function, copy_metadata

#: Before torch's own entries, which begin at 10; and before its entry for CUDA. All differ, because torch sorts the
#: entries.
_TAGGING, _LOADED, _BEFORE_CUDA = 8, 9, 19
_REGISTRY = "torch.serialization._package_registry"

Tag = Callable[[Any], str | None]
Restore = Callable[[Any, str], Any]


def _register(
    context: Context, priority: int, *, tag: Tag = lambda _: None, restore: Restore = lambda _, __: None
) -> None:
    """Register an entry that tags storages when they are saved, and restores them by their tags."""
    before = list(serialization._package_registry)
    serialization.register_package(priority, tag, restore)
    (entry,) = (row for row in serialization._package_registry if row not in before)
    context.editor.undone(_REGISTRY, lambda: serialization._package_registry.remove(entry))


def _untyped(storage: Any) -> torch.UntypedStorage:
    """Return the untyped storage of a storage of either kind."""
    found: torch.UntypedStorage = getattr(storage, "_untyped_storage", storage)
    return found


def believed(context: Context, storage: Any, on_cuda: bool) -> Any:
    """Record whether a storage was read for CUDA or for the CPU, and return it."""
    apparent_devices = context.translator.apparent_devices
    if context.translator.default_target is not None:
        (apparent_devices.add_cuda_memory if on_cuda else apparent_devices.known_cpu.note)(_untyped(storage))
    return storage


@patch(_REGISTRY, traits=Trait.TRANSLATED)
def restoring(context: Context) -> None:
    """A storage tagged ``cuda`` is restored on the target of CUDA requests; torch raises for an invalid index."""
    translator = context.translator

    def restore(storage: Any, location: str) -> Any:
        if location == "cuda" or location.startswith("cuda:"):
            serialization._validate_device(location, "cuda")
            target = translator.device("cuda")
            return storage if target.type == "cpu" else believed(context, storage.to(device=target), on_cuda=True)
        return None

    _register(context, _BEFORE_CUDA, restore=restore)


@patch(_REGISTRY, traits=Trait.ACCELERATES)
def loaded_storages(context: Context) -> None:
    """Storages that ``torch.load`` restores on the CPU follow the policy, so that they match other tensors."""
    translator = context.translator

    def restore(storage: Any, location: str) -> Any:
        target = None if translator.override.on or cpu_is_meant.get() else translator.default_target
        if location != "cpu" or target is None:
            return None
        return believed(context, storage.to(device=target), on_cuda=False)

    _register(context, _LOADED, restore=restore)


@patch(_REGISTRY, traits=Trait.DISGUISED)
def tagging(context: Context) -> None:
    """A storage saved from the GPU is tagged as CUDA's, so that the file loads on a machine with CUDA.

    One that reports the CPU to the program is tagged as the CPU's.
    """
    real, translator = context.driver.device_type, context.translator

    def tag(storage: Any) -> str | None:
        if storage.device.type != real:
            return None
        on_cpu = translator.tracks_apparent_devices and translator.apparent_devices.is_cpu_memory(_untyped(storage))
        return str(CPU if on_cpu else CUDA)

    _register(context, _TAGGING, tag=tag)


def _staying(restore: Restore) -> Restore:
    """Return a function that restores a storage and leaves it on the CPU."""

    def stay(storage: Any, location: str) -> Any:
        before = cpu_is_meant.set(True)
        try:
            return restore(storage, location)
        finally:
            cpu_is_meant.reset(before)

    return stay


def _names_another_device(map_location: Any) -> bool:
    """Return whether it is a device other than CUDA. Other text may be a tag with a registered function."""
    if not isinstance(map_location, (str, torch.device)) or str(map_location).startswith("cuda"):
        return False
    try:
        torch.device(map_location)
    except RuntimeError:
        return map_location == TOGGLE
    return True


@patch("torch.serialization._get_restore_location", traits=NONE)
def locations(context: Context) -> None:
    """``map_location`` is a request like any other, and storages loaded for the CPU follow the policy.

    They must: torch creates a tensor around a storage with ``torch.empty(device=...)``, whose device is redirected.
    """
    translator = context.translator
    original: Function = serialization._get_restore_location

    def _get_restore_location(map_location: Any) -> Any:
        named_cuda: bool | None = None
        if _names_another_device(map_location):
            if map_location == TOGGLE:  # returns the CPU, whether it turns the override on or off
                return _staying(original(translator.device(map_location)))
            named_cuda = translator.names_accelerator(map_location)
            map_location = translator.device(map_location)
        restore_location = original(map_location)

        def restore(storage: Any, location: str) -> Any:
            restored = restore_location(storage, location)
            if restored.device.type != "cpu":
                return restored if named_cuda is None else believed(context, restored, on_cuda=named_cuda)
            target = translator.device("cpu")
            return restored if target.type == "cpu" else believed(context, restored.to(device=target), on_cuda=False)

        return restore

    context.editor.set(serialization, "_get_restore_location", copy_metadata(_get_restore_location, original))


@patch("torch._utils._rebuild_tensor", traits=Trait.PARTIAL)
def float64(context: Context) -> None:
    """A checkpoint's float64 tensors are read on the CPU: only the tensor, not the storage, knows the dtype."""
    precision, real = context.precision, context.driver.device_type
    if precision.choice == "raise":
        return
    original: Callable[..., torch.Tensor] = torch._utils._rebuild_tensor

    def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> torch.Tensor:
        on_gpu = storage._untyped_storage.device.type == real
        if storage.dtype not in NARROW or not on_gpu:
            return original(storage, storage_offset, size, stride)
        on_cpu = torch.TypedStorage(wrap_storage=storage._untyped_storage.cpu(), dtype=storage.dtype, _internal=True)
        return precision.admit(original(on_cpu, storage_offset, size, stride))

    context.editor.set(torch._utils, "_rebuild_tensor", copy_metadata(_rebuild_tensor, original))


@patch("torch.jit._serialization.validate_map_location", traits=NONE)
def scripted(context: Context) -> None:
    """``torch.jit.load(map_location="cuda")`` passes the device to C++, after a check."""
    translator = context.translator
    original: Function = _serialization.validate_map_location

    def validate_map_location(map_location: Any = None) -> Any:
        checked = original(translator.device(map_location) if map_location == TOGGLE else map_location)
        return checked if checked is None else translator.device(checked)

    context.editor.set(_serialization, "validate_map_location", copy_metadata(validate_map_location, original))
