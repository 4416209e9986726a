"""Operators that the Apple GPU's backend lacks."""

from __future__ import annotations

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install


@patch("mps")
def kernels(editor: Editor, driver: Driver) -> None:
    """Every operator without a kernel on the GPU gets one that computes elsewhere and comes back."""
    from ..fallback.capabilities import refusals
    from ..fallback.guards import Guard, functions
    from ..fallback.kernels import Chain, register

    device = torch.device(driver.device_type, 0)
    chain = Chain(editor.settings.fallback, device, driver.memory.note, editor.settings.mlx)
    doubles = editor.precision.choice != "raise"
    guard = Guard(device, chain.left, editor.precision.settle if doubles else None)
    editor.on_undo(chain.routes.close)
    editor.on_undo(register(chain, guard)._destroy)
    if editor.settings.refusals == "disk":
        # The emulated device is no Mac, whatever machine it runs on.
        refusals.keep("emulated" if editor.settings.emulate_mps else driver.device_type)
    editor.on_undo(refusals.clear)
    for owner, name, original in functions(doubles):
        install(editor, owner, name, disguise(guard.function(name, original), original), original)
