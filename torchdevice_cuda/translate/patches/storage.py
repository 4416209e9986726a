"""Storages on a device."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import storage as module

from ...drivers.errors import cuda_error
from ...drivers.traits import NONE, Trait
from ..core.context import Context
from ..core.disguise import CPU, CUDA, as_program, masked
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata


@patch("torch.storage._StorageBase.to", traits=NONE)
def moves(context: Context) -> None:
    """A storage moves to its translated device; on the host that is a copy, as between CUDA and the CPU."""
    translator = context.translator
    original = module._StorageBase.to

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        target = translator.device(device)
        if translator.names_accelerator(device) and target.type == self.device.type == "cpu":
            return self.clone()
        return original(self, device=target, non_blocking=non_blocking)

    context.editor.set(module._StorageBase, "to", copy_metadata(to, original))


@patch("torch.storage.UntypedStorage.__new__", traits=Trait.NATIVE)
def allocation(context: Context) -> None:
    """torch.UntypedStorage(device="cuda") is compiled out of CPU builds; with the device's allocator it works."""
    driver, native = context.driver, context.driver.native
    if native is None:  # no device is visible to the program
        return
    original: Function = torch.UntypedStorage.__new__
    allocator, kind = native.allocator_address(), driver.device_type

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("device")
        if asked is None or torch.device(asked).type != kind:
            return original(cls, *args, **kwargs)
        index = torch.device(asked).index
        before = driver.exchange_device(driver.current_device() if index is None else index)
        try:
            rest = {key: value for key, value in kwargs.items() if key != "device"}
            return original(cls, *args, **rest, allocator=allocator)
        finally:
            driver.set_device(before)

    context.editor.set(torch.UntypedStorage, "__new__", staticmethod(copy_metadata(__new__, original)))


@patch("torch.storage.UntypedStorage.__new__", traits=NONE)
def construction(context: Context) -> None:
    """torch.UntypedStorage(size, device="cuda") needs its device translated."""
    translator = context.translator
    original = torch.UntypedStorage.__new__

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = translator.device(kwargs["device"])
        return original(cls, *args, **kwargs)

    context.editor.set(torch.UntypedStorage, "__new__", staticmethod(copy_metadata(__new__, original)))


def _install_resizing(context: Context, resize: Callable[[Any, int], None]) -> None:
    """Resize storages on the device with a given function, for programs and for code compiled by torch."""
    original: Function = torch.UntypedStorage.resize_
    device: Callable[[Any], torch.device] = vars(torch._C.StorageBase)["device"].__get__
    kind = context.driver.device_type

    def resize_(self: Any, size: Any, /) -> Any:
        # torch refuses a size that is not an integer before it checks the device.
        if device(self).type != kind or isinstance(size, bool) or not isinstance(size, numbers.Integral):
            return original(self, size)
        resize(self, int(size))
        return self

    def operator(variable: torch.Tensor, new_size: int) -> None:
        resize(variable.untyped_storage(), new_size)

    context.editor.set(torch.UntypedStorage, "resize_", copy_metadata(resize_, original))
    library = torch.library.Library("inductor", "IMPL")
    context.editor.undone("torch.ops.inductor.resize_storage_bytes_", library._destroy)
    library.impl("resize_storage_bytes_", operator, kind.upper())


@patch(
    "torch.storage.UntypedStorage.resize_",
    "torch.ops.inductor.resize_storage_bytes_",
    traits=Trait.SUBSTITUTE,
)
def resizing(context: Context) -> None:
    """Resizing a storage is compiled out of CPU builds for CUDA, and unknown for MPS; FSDP does it in every layer."""
    native = context.driver.native
    if native is not None:
        resize = native.resize_storage
        _install_resizing(context, lambda storage, size: resize(storage._cdata, size))
    elif Trait.PARTIAL in context.traits:
        from ...fallback import storages

        _install_resizing(context, storages.resize)
    # Otherwise storages are in host memory, and torch resizes them itself.


_SHARING = "torch.storage.UntypedStorage"
#: The arguments of ``_new_shared_cuda``: CUDA's name and type of each.
_SENT: tuple[tuple[str, type], ...] = (
    ("device", int),
    ("handle", bytes),
    ("storage_size_bytes", int),
    ("storage_offset_bytes", int),
    ("_ref_counter", bytes),
    ("_ref_counter_offset", int),
    ("event_handle", bytes),
    ("event_sync_required", bool),
)
_COUNTER: tuple[tuple[str, type], ...] = (("_ref_counter", bytes), ("_ref_counter_offset", int))


def _check(args: tuple[Any, ...], expected: tuple[tuple[str, type], ...], what: str) -> None:
    """Raise CUDA's error for invalid arguments."""
    if len(args) != len(expected):
        raise RuntimeError(f"tuple of {len(expected)} items expected")
    fits = [isinstance(value, kind) for value, (_, kind) in zip(args, expected, strict=True)]
    if all(fits):
        if any(isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 for value in args):
            raise ValueError("Overflow when unpacking long long")
        return
    names = [type(value).__name__ for value in args]
    given = ", ".join(name if fit else f"!{name}!" for name, fit in zip(names, fits, strict=True))
    wanted = ", ".join(f"{kind.__name__} {name}" for name, kind in expected)
    raise TypeError(
        f"{what} in CUDA mode received an invalid combination of arguments - got ({given}), but expected ({wanted})"
    )


@patch(
    f"{_SHARING}._share_cuda_",
    f"{_SHARING}._new_shared_cuda",
    f"{_SHARING}._release_ipc_counter_cuda",
    traits=Trait.NATIVE,
    without=Trait.TRANSLATED,
)
def between_processes(context: Context) -> None:
    """CUDA tensors sent to other processes are mapped there; CPU builds lack these functions."""
    native = context.driver.native
    if native is None:
        return
    send, receive, release = native.send_storage, native.receive_storage, native.release_counter

    def _share_cuda_(self: Any) -> tuple[Any, ...]:
        # The receiver's stream waits for this one. This reports to what orders or checks work that the memory is read.
        torch.ops.hostdevice_cuda.to_cpu.default([torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)])
        return send(self._cdata)

    def _new_shared_cuda(*args: Any) -> Any:
        _check(args, _SENT, "_new_shared")
        made = receive(*args)
        if isinstance(made, int):
            raise cuda_error(made)
        return made

    def _release_ipc_counter_cuda(*args: Any) -> None:
        _check(args, _COUNTER, "_release_ipc_counter")
        release(*args)

    owner = torch.UntypedStorage
    context.editor.set(owner, "_share_cuda_", copy_metadata(_share_cuda_, owner._share_cuda_))
    context.editor.set(owner, "_new_shared_cuda", staticmethod(copy_metadata(_new_shared_cuda, owner._new_shared_cuda)))
    context.editor.set(
        owner,
        "_release_ipc_counter_cuda",
        staticmethod(copy_metadata(_release_ipc_counter_cuda, owner._release_ipc_counter_cuda)),
    )


@patch(
    *(f"torch.storage.{kind}.{name}" for kind in ("UntypedStorage", "TypedStorage") for name in ("device", "is_cuda")),
    traits=Trait.DISGUISED,
)
def identity(context: Context) -> None:
    """A storage must report the same device as its tensor."""
    translator = context.translator
    device: Callable[[Any], torch.device] = vars(torch._C.StorageBase)["device"].__get__
    real = context.driver.device_type

    def of_untyped(self: Any) -> torch.device:
        return device(self)

    def of_typed(self: Any) -> torch.device:
        return device(self._untyped_storage)

    for owner, device_of in ((torch.UntypedStorage, of_untyped), (torch.TypedStorage, of_typed)):

        def on_gpu(self: Any, _device_of: Callable[[Any], torch.device] = device_of) -> bool:
            return _device_of(self).type == real

        def on_cuda(self: Any, _device_of: Callable[[Any], torch.device] = device_of) -> bool:
            return _device_of(self).type == "cuda"

        def on_cpu(self: Any, _owner: Any = owner) -> bool:
            memory = self if _owner is torch.UntypedStorage else self._untyped_storage
            return translator.tracks_apparent_devices and translator.apparent_devices.is_cpu_memory(memory)

        context.editor.set(owner, "device", masked(device_of, on_gpu, CUDA, on_cpu, CPU))
        context.editor.set(owner, "is_cuda", masked(on_cuda, on_gpu, True, on_cpu, False))


#: Attributes that query a storage's device and show it to the program.
_SHOWING: tuple[tuple[Any, str], ...] = (
    (module._StorageBase, "__repr__"),
    (module._StorageBase, "get_device"),
    (module.TypedStorage, "__str__"),
    (module.TypedStorage, "_get_legacy_storage_class"),
    (module._LegacyStorageMeta, "__instancecheck__"),
)


@patch(*(f"torch.storage.{owner.__name__}.{name}" for owner, name in _SHOWING), traits=Trait.DISGUISED)
def names(context: Context) -> None:
    """A storage's repr, index, type name and ``isinstance(s, torch.cuda.FloatStorage)`` must be as on CUDA."""
    for owner, name in _SHOWING:
        context.editor.set(owner, name, as_program(vars(owner)[name]))


@patch("torch.storage.UntypedStorage.is_shared", traits=Trait.DISGUISED | Trait.ACCELERATES)
def sharing(context: Context) -> None:
    """CUDA storages always report that they are shared; one that reports the CPU does not."""
    original: Function = torch.UntypedStorage.is_shared
    real, believed_cpu = context.driver.device_type, context.translator.apparent_devices.is_cpu_memory

    def is_shared(self: Any) -> bool:
        on_cpu = self.device.type == real and believed_cpu(self)
        return False if on_cpu else original(self)

    context.editor.set(torch.UntypedStorage, "is_shared", copy_metadata(is_shared, original))
