"""The gradient scaler under its old name."""

import torch
from torch.amp.grad_scaler import OptState
from typing_extensions import deprecated

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """:class:`torch.amp.GradScaler` for ``"cuda"``; making one warns that the name is deprecated."""

    @deprecated(
        "`torch.cuda.amp.GradScaler(args...)` is deprecated. "
        "Please use `torch.amp.GradScaler('cuda', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
