"""Optimizers: options that are checked against a list of device types."""

from __future__ import annotations

import sys

from ..drivers import Driver
from .patches import Editor, patch


@patch("cpu", "mps")
def capturable(editor: Editor, driver: Driver) -> None:
    """``capturable=True`` is refused for parameters on device types that have no graphs; CUDA's are of ours here."""
    from torch.optim import optimizer

    name = "_get_capturable_supported_devices"
    original = getattr(optimizer, name)

    def supported(supports_xla: bool = True) -> list[str]:
        return [*original(supports_xla), driver.device_type]

    for module in [module for key, module in sys.modules.items() if key.startswith("torch.optim.")]:
        if getattr(module, name, None) is original:
            editor.set(module, name, supported)
