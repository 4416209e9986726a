"""The emulated Apple GPU without the Python functions of its library, which a Mac does not have."""

from __future__ import annotations

from typing import Any

#: Set in the environment of child processes whose emulated GPU is to be as on a Mac.
VARIABLE = "TESTS_AS_ON_A_MAC"


def hide_library() -> None:
    """Let the driver have no compiled library, as on a Mac; torch has what its builds for macOS have."""
    from torchdevice_cuda.drivers.mps import driver as module

    emulate = module.emulate

    def emulate_and_complete(memory: int, build: bool) -> Any:
        native = emulate(memory, build)
        _complete_storages(native.allocator_address())
        return native

    module.emulate = emulate_and_complete
    module.MpsDriver.native = property(lambda driver: None)  # type: ignore[assignment]


def _complete_storages(allocator: int) -> None:
    """Allocate storages for ``mps``, which is compiled out of builds for the CPU."""
    import torch

    original = torch.UntypedStorage.__new__
    if original.__module__ == __name__:
        return

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is None or torch.device(kwargs["device"]).type != "mps":
            return original(cls, *args, **kwargs)
        rest = {key: value for key, value in kwargs.items() if key != "device"}
        return original(cls, *args, **rest, allocator=allocator)

    torch.UntypedStorage.__new__ = staticmethod(__new__)  # type: ignore[method-assign]
