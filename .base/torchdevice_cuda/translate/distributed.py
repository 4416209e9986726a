"""``torch.distributed``: requests for a device that go past the tensors."""

from __future__ import annotations

import torch

from ..drivers import Driver
from .patches import Editor, patch


@patch("cpu", "mps")
def barriers(editor: Editor, driver: Driver) -> None:
    """``dist.barrier(device_ids=[0])`` names CUDA's device to C++, which makes a tensor there."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    translator, original = editor.translator, distributed_c10d.BarrierOptions
    device = vars(original)["device"]

    class BarrierOptions(original):
        """torch's, with a device that exists."""

        @property
        def device(self) -> torch.device | None:
            """Where the tensor is made."""
            return device.__get__(self)

        @device.setter
        def device(self, asked: torch.device | None) -> None:
            device.__set__(self, asked if asked is None or asked.type == "cpu" else translator.device(asked))

    editor.set(distributed_c10d, "BarrierOptions", BarrierOptions)
