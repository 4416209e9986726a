"""Operators that the accelerator's backend lacks, or refuses for a dtype: they go through ``fallback``."""

from __future__ import annotations

import torch
import torch.distributed

from ...drivers.traits import Trait
from ..core.callers import site
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import install


@patch(
    "torch.ops.aten[<key>]",
    "torch.ops.c10d[<key>]",
    *(
        f"{owner}.<function>"
        for owner in ("torch", "torch.Tensor", "torch.linalg", "torch.nn.functional", "torch._C._nn")
    ),
    traits=Trait.PARTIAL,
)
def kernels(context: Context) -> None:
    """Every operator without a kernel on the GPU gets one that computes elsewhere and comes back."""
    # Imported where they are needed: no other driver pays for the tables.
    from ...fallback import collectives
    from ...fallback.capabilities import refusals
    from ...fallback.guards import Guard, functions
    from ...fallback.kernels import Chain, register

    settings, editor, precision = context.settings, context.editor, context.precision
    kind = context.driver.device_type
    device = torch.device(kind, 0)
    chain = Chain(settings.fallback, device, context.driver.memory.observe, settings.mlx, site=site)
    doubles = precision.choice != "raise"
    guard = Guard(device, chain.left, precision.admit if doubles else None)
    editor.on_undo(chain.routes.close)
    editor.undone(f"torch.ops.aten[{kind.upper()}]", register(chain, guard)._destroy)
    if torch.distributed.is_available():
        editor.undone(f"torch.ops.c10d[{kind.upper()}]", collectives.register("MPS", chain.left)._destroy)
    if settings.refusals == "disk":
        # The emulated device is no Mac, whatever machine it runs on.
        refusals.keep("emulated" if Trait.NATIVE in context.traits else kind)
    editor.on_undo(refusals.clear)
    for owner, name, original in functions(doubles):
        install(context, owner, name, guard.function(name, original), original)
