"""Green contexts: parts of a GPU's multiprocessors. The devices here have none to divide."""

import functools
from typing import TYPE_CHECKING, NoReturn

from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings.graphs import green_context_unavailable

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda.green_contexts import GreenContext


def _ensure_supported() -> NoReturn:
    """Later releases create them through NVIDIA's driver, and look for that first."""
    raise green_context_unavailable()


if "SUPPORTED" in globals():
    # Stock says True where torch was built with them. Programs ask it before they create one, so the truth is False;
    # and stock's error would blame the build.
    SUPPORTED = False
    for _name in ("create", "max_workqueue_concurrency"):
        if hasattr(GreenContext, _name):
            _refuse = functools.wraps(getattr(GreenContext, _name))(lambda *_, **__: _ensure_supported())
            setattr(GreenContext, _name, staticmethod(_refuse))


def _is_locality_software_supported() -> bool:
    """Whether NVIDIA's driver could be asked for the domains of a device's memory: there is none, so it has one."""
    return False
