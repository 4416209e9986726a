"""Triton, which compiles for NVIDIA's GPUs: CUDA builds of torch bring it along, and inductor looks for it."""

from __future__ import annotations

from types import ModuleType

from ..._compat import present
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch

_CONFIG, _DETECTION = "torch._inductor.config", "triton_disable_device_detection"
_DRIVER = "triton.backends.nvidia.driver"


@patch(f"{_CONFIG}.{_DETECTION}", traits=Trait.SUBSTITUTE)
def detection(context: Context) -> None:
    """Inductor takes a CUDA device beside an importable triton for one that triton compiles for, and asks it."""

    def disable(config: ModuleType) -> None:
        for name in present(config, [_DETECTION]):
            context.editor.configure(config, name, True)

    context.editor.on_undo(context.when_imported(_CONFIG, context.editor.later(disable)))


@patch(f"{_DRIVER}.CudaDriver.is_active", traits=Trait.SUBSTITUTE)
def drivers(context: Context) -> None:
    """Triton asks ``torch.cuda`` whether to load NVIDIA's driver; told no, it says itself that it has none."""

    def deny(module: ModuleType) -> None:
        context.editor.set(module.CudaDriver, "is_active", staticmethod(lambda: False))

    context.editor.on_undo(context.when_imported(_DRIVER, context.editor.later(deny)))
