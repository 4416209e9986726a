"""``torch.accelerator``: the C functions behind it, which know only accelerators compiled into torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ..._compat import named, present
from ...drivers import Driver
from ...drivers.handles import GenericStream
from ...drivers.traits import Trait
from ..core import callers
from ..core.context import Context
from ..core.registry import patch
from ..core.retry import rescued
from ..core.wrapping import copy_metadata


def _functions(driver: Driver) -> dict[str, Callable[..., Any]]:
    """Return the implementation of each C name over the driver.

    ``torch.compile`` calls some of them while it traces, and traces every frame that names the global ``torch``: so the
    parts of torch that they need are bound here.
    """
    init: Callable[[], None] = torch.cuda.init
    accelerator = torch.device("cuda")

    def start() -> Driver:
        init()
        return driver

    def get_accelerator(check_available: Any = None) -> torch.device | None:
        if check_available and not driver.device_count():
            return None
        return accelerator

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
        "_accelerator_emptyHostCache": lambda: driver.memory.empty_host_cache(),
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


@patch("torch._C._accelerator_<function>", "torch._C._get_accelerator", traits=Trait.TRANSLATED)
def bindings(context: Context) -> None:
    """torch.accelerator queries C++ for the accelerator; without a compiled one there is none."""
    functions = _functions(context.driver)
    for name in present(torch._C, functions):
        function = functions[name]
        function.__name__ = function.__qualname__ = name
        context.editor.set(torch._C, name, function)


@patch("torch._C._accelerator_setAllocatorSettings", traits=Trait.SUBSTITUTE)
def settings(context: Context) -> None:
    """torch parses the settings of all accelerators and skips those of CUDA; no allocator gets either.

    It refuses unknown settings with an error that names its sources; that error is torch's.
    """
    original: Callable[[str], None] | None = named("torch._C._accelerator_setAllocatorSettings")
    if original is None:
        return
    parse, driver = original, context.driver

    def set_settings(text: str) -> None:
        try:
            chosen = driver.memory.read(text)
        except (RuntimeError, TypeError):
            try:
                parse(text)
            except RuntimeError as theirs:
                # A CUDA build looks for a GPU first, to compare its allocator with the requested one.
                if "CUDA error" not in str(theirs):
                    raise
            raise
        parse(text)
        driver.memory.apply(chosen)

    context.editor.set(torch._C, "_accelerator_setAllocatorSettings", copy_metadata(set_settings, original))


@patch("torch.device", traits=Trait.DISGUISED)
def by_number(context: Context) -> None:
    """``torch.device(0)`` is the accelerator's first device, which the program sees as CUDA's."""
    device, inside, frame = torch.device, callers.inside, sys._getframe

    def handler(made: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, error: Any) -> Any:
        if error is not None or kwargs or args[0] < 0 or inside[frame(1).f_globals.get("__name__")]:
            return NotImplemented
        return device("cuda", args[0])

    rescued(context, torch, "device", device, lambda rescue: (handler, True))


_DYNAMO = "torch._C._dynamo.utils"


@patch(f"{_DYNAMO}.<function>", "torch._dynamo.<module>.get_current_stream", traits=Trait.TRANSLATED)
def compiled_code(context: Context) -> None:
    """Compiled code queries C++ for the current stream; a CUDA build would query NVIDIA's driver."""
    owner = sys.modules[_DYNAMO]
    if not present(owner, ["get_current_stream"]):  # older releases call torch.accelerator
        return
    get_stream: Callable[[int], torch.Stream] = _functions(context.driver)["_accelerator_getStream"]
    index = context.driver.current_device

    def get_current_stream(device: torch.device) -> torch.Stream:
        found: torch.Stream = get_stream(index() if device.index is None else device.index)
        return found

    for module in [owner, *(sys.modules[name] for name in _HOLDERS if name in sys.modules)]:
        context.editor.set(module, "get_current_stream", get_current_stream)


#: Modules that import the function from C++.
_HOLDERS = ("torch._dynamo.utils", "torch._dynamo.guards")
