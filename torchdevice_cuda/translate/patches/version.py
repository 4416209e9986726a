"""``torch.version``."""

from __future__ import annotations

import torch

from ..._compat import cuda_version
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch


@patch("torch.version.cuda", traits=Trait.SUBSTITUTE)
def cuda(context: Context) -> None:
    """Programs and test harnesses read it to check that torch has CUDA; it is None in a CPU build."""
    if torch.version.cuda is None:
        context.editor.set(torch.version, "cuda", cuda_version(torch.__version__))
