"""Storages on a device."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise


@patch("cpu", "mps")
def moves(editor: Editor, driver: Driver) -> None:
    """A storage moves to the device it is translated to; on the host that is a copy, as between CUDA and the CPU."""
    import torch.storage as module

    translator = editor.translator
    original = module._StorageBase.to

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        target = translator.device(device)
        if translator.names_cuda(device) and target.type == self.device.type == "cpu":
            return self.clone()
        return original(self, device=target, non_blocking=non_blocking)

    editor.set(module._StorageBase, "to", disguise(to, original))


@patch("virtual", "mps")
def allocation(editor: Editor, driver: Driver) -> None:
    """torch.UntypedStorage(device="cuda") is compiled out of CPU builds; given the device's allocator, it works."""
    if driver.native is None:
        return
    original = torch.UntypedStorage.__new__
    allocator, kind = driver.native.allocator_address(), driver.device_type

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

    editor.set(torch.UntypedStorage, "__new__", staticmethod(disguise(__new__, original)))


@patch("cpu", "mps")
def construction(editor: Editor, driver: Driver) -> None:
    """torch.UntypedStorage(size, device="cuda")."""
    translator = editor.translator
    original = torch.UntypedStorage.__new__

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = translator.device(kwargs["device"])
        return original(cls, *args, **kwargs)

    editor.set(torch.UntypedStorage, "__new__", staticmethod(disguise(__new__, original)))
