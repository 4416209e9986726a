"""``torch.accelerator``: the C functions behind it, which know only accelerators compiled into torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..drivers import Driver
from .patches import Editor, patch


def _functions(driver: Driver) -> dict[str, Callable[..., Any]]:
    """What each C name does, over the driver."""
    import torch

    from ..drivers.handles import GenericStream

    def start() -> Driver:
        torch.cuda.init()
        return driver

    def get_accelerator(check_available: Any = None) -> torch.device | None:
        if check_available and not driver.device_count():
            return None
        return torch.device("cuda")

    def set_device(index: int) -> None:
        if index >= 0:
            start().set_device(index)

    def get_stream(index: int) -> torch.Stream:
        return GenericStream._wrap(start().streams.current(driver.check(index)), index)

    def set_stream(stream: torch.Stream) -> None:
        start().streams.set_current(stream.stream_id, stream.device_index)
        driver.set_device(stream.device_index)

    def capability(index: int) -> dict[str, Any]:
        raise RuntimeError("Backend doesn't support getting device capabilities.")

    return {
        "_accelerator_getAccelerator": lambda: get_accelerator(),
        "_get_accelerator": get_accelerator,
        "_accelerator_getDeviceIndex": lambda: start().current_device(),
        "_accelerator_setDeviceIndex": set_device,
        "_accelerator_exchangeDevice": lambda index: start().exchange_device(index),
        "_accelerator_maybeExchangeDevice": lambda index: driver.exchange_device(index),
        "_accelerator_getStream": get_stream,
        "_accelerator_setStream": set_stream,
        "_accelerator_synchronizeDevice": lambda index: start().streams.synchronize_device(index),
        "_accelerator_getDeviceCapability": capability,
        "_accelerator_isAllocatorInitialized": lambda: driver.initialized(),
        "_accelerator_emptyCache": lambda: driver.memory.empty_cache(),
        "_accelerator_emptyHostCache": lambda: driver.memory.empty_cache(),
        "_accelerator_getDeviceStats": lambda index: driver.memory.stats(index),
        "_accelerator_resetAccumulatedStats": lambda index: driver.memory.reset_accumulated(index),
        "_accelerator_resetPeakStats": lambda index: driver.memory.reset_peak(index),
        "_accelerator_getMemoryInfo": lambda index: driver.memory.info(driver.check(index)),
        "_accelerator_hooks_device_count": lambda: driver.device_count(),
        "_accelerator_hooks_get_current_device": lambda: start().current_device(),
        "_accelerator_hooks_set_current_device": lambda index: start().set_device(index),
        "_accelerator_hooks_exchange_device": lambda index: start().exchange_device(index),
        "_accelerator_hooks_maybe_exchange_device": lambda index: driver.exchange_device(index),
    }


@patch("cpu", "mps")
def bindings(editor: Editor, driver: Driver) -> None:
    """torch.accelerator asks C++ which accelerator there is; without a compiled one it has none to offer."""
    import torch

    for name, function in _functions(driver).items():
        if hasattr(torch._C, name):
            function.__name__ = function.__qualname__ = name
            editor.set(torch._C, name, function)
