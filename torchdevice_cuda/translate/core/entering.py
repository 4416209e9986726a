"""Host data that enters the program if requests for no device go to the accelerator."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch

from .policy import CPU

if TYPE_CHECKING:
    from .context import Context

Enter = Callable[[torch.Tensor], torch.Tensor]
#: Whether CPU tensors sent to another process stay on the CPU there: set while they are sent to a worker.
stays_on_cpu: ContextVar[bool] = ContextVar("stays_on_cpu", default=False)


def entering(context: Context) -> Enter:
    """Move a CPU tensor that a program created without naming a device, according to the policy."""
    translator, precision, believe = context.translator, context.precision, context.translator.apparent_devices.add_cpu
    move = torch._C.TensorBase.to

    def enter(tensor: torch.Tensor) -> torch.Tensor:
        target = translator.default_target
        if target is None or tensor.device.type != CPU or not translator.applies_default_target():
            return tensor
        translator.log("host data", target)
        try:
            return believe(move(tensor, target))
        except TypeError as error:
            if not precision.is_refusal(error):
                raise
        return believe(precision.admit(tensor))

    return enter
