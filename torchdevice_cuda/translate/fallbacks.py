"""Operators that the Apple GPU's backend lacks."""

from __future__ import annotations

import torch

from ..drivers import Driver
from .patches import Editor, patch


@patch("mps")
def kernels(editor: Editor, driver: Driver) -> None:
    """Every operator without a kernel on the GPU gets one that computes elsewhere and comes back."""
    from ..fallback.kernels import register

    device = torch.device(driver.device_type, 0)
    library, _ = register(editor.settings.fallback, device, "MPS", driver.memory.note)
    editor.on_undo(library._destroy)
