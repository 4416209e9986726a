"""Whose request it is: the program's, or torch's own.

Code of torch sees the real device and means what it says. A program's request often passes through torch on its way
(``nn.Linear(3, 3)`` calls ``torch.empty``): modules that ask on behalf of the program are listed here.
"""

from __future__ import annotations

import sys
from types import FrameType

#: Packages whose code is not the program's.
OURS = ("torch", "torchdevice_cuda")
#: Modules of torch that hand on what the program asked for: exact names, or packages with a dot at the end.
PASSING = (
    "torch.nn.",
    "torch.distributions.",
    "torch.overrides",
    "torch.serialization",
    "torch.utils._device",
    "torch.signal.",
    "torch.functional",
    "torch.func",
    "torch.cuda.",
    # A batch that is put together in the program's own process; in a worker nothing is redirected.
    "torch.utils.data._utils.collate",
)
_known: dict[str, bool] = {}


def passes_on(module: str) -> bool:
    """Whether a request made by code of this module is the program's: made by it, or on its behalf."""
    known = _known.get(module)
    if known is None:
        inside = module.partition(".")[0] in OURS
        known = _known[module] = not inside or any(
            module.startswith(entry) if entry.endswith(".") else module == entry for entry in PASSING
        )
    return known


def is_ours(module: str) -> bool:
    """Whether a module is torchdevice_cuda's, or torch's own shadow of it."""
    return module.startswith("torchdevice_cuda")


def asked_by_program() -> bool:
    """Whether the code that called into torchdevice_cuda asks for the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if not is_ours(module):
            return passes_on(module)
        frame = frame.f_back
    return True


def site() -> tuple[str, int]:
    """File and line of the program's own code that is being executed."""
    frame: FrameType | None = sys._getframe(1)
    last = ("<unknown>", 0)
    while frame is not None:
        last = (frame.f_code.co_filename, frame.f_lineno)
        if (frame.f_globals.get("__name__") or "").partition(".")[0] not in OURS:
            return last
        frame = frame.f_back
    return last
