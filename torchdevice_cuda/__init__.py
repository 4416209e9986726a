"""PyTorch programs written for CUDA run, unmodified, on machines without CUDA.

    python -m torchdevice_cuda script.py

or, from code, before or after ``import torch``:

    import torchdevice_cuda
    torchdevice_cuda.activate()

Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .drivers import Driver
    from .races.checking import StreamRaceError as StreamRaceError
    from .races.checking import StreamRaceWarning as StreamRaceWarning
    from .rehearsal.prediction import UnpredictedKernelWarning as UnpredictedKernelWarning
    from .rehearsal.unknown import UncomputedValueError as UncomputedValueError
    from .rehearsal.unknown import UncomputedValueWarning as UncomputedValueWarning

__all__ = [
    "StreamRaceError",
    "StreamRaceWarning",
    "UncomputedValueError",
    "UncomputedValueWarning",
    "UnpredictedKernelWarning",
    "activate",
    "deactivate",
    "driver",
    "is_active",
]


def activate(**settings: Any) -> None:
    """Make this process believe in CUDA. Settings not given come from the environment (``TORCHDEVICE_*``)."""
    from . import activation

    activation.activate(**settings)


def deactivate() -> None:
    """Put every attribute of torch back as it was."""
    from . import activation

    activation.deactivate()


def is_active() -> bool:
    """Return whether this process is under torchdevice_cuda."""
    from . import activation

    return activation.is_active()


def driver() -> Driver:
    """Return the driver that implements the GPU in this process."""
    from . import activation

    return activation.driver()


#: What ``--check-streams``, ``--clock`` and ``--rehearse`` raise and warn with, and its module, imported when used.
_LAZY = {
    "StreamRaceError": "races.checking",
    "StreamRaceWarning": "races.checking",
    "UncomputedValueError": "rehearsal.unknown",
    "UncomputedValueWarning": "rehearsal.unknown",
    "UnpredictedKernelWarning": "rehearsal.prediction",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of the package

    def __getattr__(name: str) -> Any:
        """Import one of the lazy names."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)


def load_ipython_extension(shell: Any) -> None:
    """Run ``%load_ext torchdevice_cuda``: activate, and add ``%%torchdevice_report``."""
    _notebooks().load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Run ``%unload_ext torchdevice_cuda``: undo that."""
    _notebooks().unload(shell)


def _notebooks() -> Any:
    """Return the module of IPython's extension, imported by name since it is in a higher layer."""
    import importlib

    return importlib.import_module(f"{__name__}.integrations.ipython")
