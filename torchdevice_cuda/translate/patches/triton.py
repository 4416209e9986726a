"""Triton, which compiles for NVIDIA's GPUs: CUDA builds of torch bring it along, and inductor looks for it."""

from __future__ import annotations

from types import ModuleType

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch

_ASKED, _BACKENDS = "torch.utils._triton", "triton.backends"


def _no(**_: bool) -> bool:
    return False


@patch(f"{_ASKED}.has_triton", traits=Trait.SUBSTITUTE)
def detection(context: Context) -> None:
    """Inductor takes a CUDA device beside an importable triton for one that triton compiles for, and asks it.

    Modules bind the function when they are imported, so it stays the same one, with other code. The setting that has
    it say no came with 2.9 only.
    """

    def deny(module: ModuleType) -> None:
        kept = module.has_triton  # a function that keeps its answer
        function = kept.__wrapped__
        before = function.__code__

        def undo() -> None:
            function.__code__ = before
            kept.cache_clear()

        function.__code__ = _no.__code__
        kept.cache_clear()
        context.editor.undone(f"{_ASKED}.has_triton", undo)

    context.editor.on_undo(context.when_imported(_ASKED, context.editor.later(deny)))


@patch(f"{_BACKENDS}.nvidia.driver.CudaDriver.is_active", traits=Trait.SUBSTITUTE)
def drivers(context: Context) -> None:
    """Triton asks ``torch.cuda`` whether to load NVIDIA's driver; told no, it says itself that it has none.

    Its table of drivers is where they are found: triton 3.2, of torch 2.6, loads their modules under no name.
    """

    def deny(module: ModuleType) -> None:
        driver = module.backends["nvidia"].driver
        context.editor.set(
            driver, "is_active", staticmethod(lambda: False), target=f"{_BACKENDS}.nvidia.driver.CudaDriver.is_active"
        )

    context.editor.on_undo(context.when_imported(_BACKENDS, context.editor.later(deny)))
