"""TorchScript's compiler."""

from __future__ import annotations

import torch

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch


@patch("torch._C._jit_override_can_fuse_on_gpu", traits=Trait.SUBSTITUTE)
def fusion(context: Context) -> None:
    """A CUDA build writes kernels for what it can fuse on a GPU, and has NVIDIA's compiler compile them."""
    before = torch._C._jit_can_fuse_on_gpu()
    torch._C._jit_override_can_fuse_on_gpu(False)
    context.editor.undone(
        "torch._C._jit_override_can_fuse_on_gpu", lambda: torch._C._jit_override_can_fuse_on_gpu(before)
    )
