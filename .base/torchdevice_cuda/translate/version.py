"""``torch.version.cuda``."""

from __future__ import annotations

from .._compat import cuda_version
from ..drivers import Driver
from .patches import Editor, patch


@patch()
def cuda(editor: Editor, driver: Driver) -> None:
    """Programs and test harnesses read torch.version.cuda to know that torch has CUDA; a CPU build has None there."""
    import torch

    if torch.version.cuda is None:
        editor.set(torch.version, "cuda", cuda_version(torch.__version__))
