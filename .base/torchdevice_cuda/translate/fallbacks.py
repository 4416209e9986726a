"""Operators that the Apple GPU's backend lacks."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install


@patch("mps")
def kernels(editor: Editor, driver: Driver) -> None:
    """Every operator without a kernel on the GPU gets one that computes elsewhere and comes back."""
    from ..fallback import collectives
    from ..fallback.capabilities import refusals
    from ..fallback.guards import Guard, functions
    from ..fallback.kernels import Chain, register

    device = torch.device(driver.device_type, 0)
    chain = Chain(editor.settings.fallback, device, driver.memory.note, editor.settings.mlx)
    doubles = editor.precision.choice != "raise"
    guard = Guard(device, chain.left, editor.precision.settle if doubles else None)
    editor.on_undo(chain.routes.close)
    editor.on_undo(register(chain, guard)._destroy)
    if torch.distributed.is_available():
        editor.on_undo(collectives.register("MPS", chain.left)._destroy)
    if editor.settings.refusals == "disk":
        # The emulated device is no Mac, whatever machine it runs on.
        refusals.keep("emulated" if editor.settings.emulate_mps else driver.device_type)
    editor.on_undo(refusals.clear)
    for owner, name, original in functions(doubles):
        install(editor, owner, name, disguise(guard.function(name, original), original), original)


@patch("mps")
def projected_lstm(editor: Editor, driver: Driver) -> None:
    """The GPU's LSTM kernel refuses projections; over a packed sequence torch makes the LSTM of other operators."""
    original = torch._VF.lstm

    def lstm(*args: Any) -> tuple[torch.Tensor, ...]:
        packed = len(args) > 1 and isinstance(args[1], torch.Tensor)  # the sizes of its batches
        if packed or args[0].device.type != driver.device_type or args[1][0].size(-1) == args[1][1].size(-1):
            return original(*args)
        data, states, *options, batch_first = args
        steps = data.transpose(0, 1) if batch_first else data
        sizes = torch._C._VariableFunctions.full((steps.size(0),), steps.size(1), dtype=torch.int64, device="cpu")
        out, *last = original(steps.flatten(0, 1), sizes, states, *options)
        out = out.unflatten(0, steps.shape[:2])
        return (out.transpose(0, 1) if batch_first else out, *last)

    install(editor, torch._VF, "lstm", disguise(lstm, original), original)
