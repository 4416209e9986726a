"""``nn.DataParallel``."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch


@patch("cpu", "mps")
def data_parallel(editor: Editor, driver: Driver) -> None:
    """DataParallel compares its parameters' device with the ``cuda:i`` it made itself; they live where CUDA goes."""
    from torch.nn.parallel import DataParallel

    original = DataParallel.__init__
    translator = editor.translator

    def __init__(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        original(self, module, device_ids, output_device, dim)
        if hasattr(self, "src_device_obj"):
            self.src_device_obj = translator.device(self.src_device_obj)

    __init__.__doc__ = original.__doc__
    __init__.__wrapped__ = original
    editor.set(torch.nn.parallel.DataParallel, "__init__", __init__)
