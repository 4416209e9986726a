"""``torch.optim``: options that are checked against a list of device types."""

from __future__ import annotations

import sys

from torch.optim import optimizer

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_NAME = "_get_capturable_supported_devices"


@patch(f"torch.optim.<module>.{_NAME}", traits=Trait.TRANSLATED)
def capturable(context: Context) -> None:
    """``capturable=True`` is refused for device types without graphs; CUDA tensors have such a type here."""
    original: Function = getattr(optimizer, _NAME)
    real = context.driver.device_type

    def supported(supports_xla: bool = True) -> list[str]:
        return [*original(supports_xla), real]

    for module in [module for key, module in sys.modules.items() if key.startswith("torch.optim.")]:
        if getattr(module, _NAME, None) is original:
            context.editor.set(module, _NAME, copy_metadata(supported, original))
