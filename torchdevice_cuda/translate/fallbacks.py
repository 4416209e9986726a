"""Operators that the Apple GPU's backend lacks."""

from __future__ import annotations

import importlib

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install


@patch("mps")
def kernels(editor: Editor, driver: Driver) -> None:
    """Every operator without a kernel on the GPU gets one that computes elsewhere and comes back."""
    from ..fallback.capabilities import refusals
    from ..fallback.guards import LIMITED, METHODS, guard
    from ..fallback.kernels import Chain, register

    device = torch.device(driver.device_type, 0)
    chain = Chain(editor.settings.fallback, device, driver.memory.note)
    editor.on_undo(register(chain)._destroy)
    editor.on_undo(refusals.clear)
    limited = [(importlib.import_module(module), names) for module, names in LIMITED.items()]
    for owner, names in (*limited, (torch.Tensor, (*LIMITED["torch"], *METHODS))):
        for name in names:
            original = getattr(owner, name, None)
            if original is not None:
                install(editor, owner, name, disguise(guard(name, original, device, chain.left), original), original)
