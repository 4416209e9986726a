"""The caller of a request: the program, or torch itself. All inspection of callers' frames is here.

Code of torch sees the real device, and its requests are taken literally. A program's request often passes through torch
(``nn.Linear(3, 3)`` calls ``torch.empty``): modules that request for the program are listed here.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

#: Packages whose code is not the program's.
LIBRARY_PACKAGES = ("torch", "torchdevice_cuda")
#: Modules of torch that pass on the program's requests: exact names, or packages with a dot at the end.
PASSING = (
    "torch.nn.",
    "torch.distributions.",
    "torch.overrides",
    "torch.serialization",
    "torch.utils._device",
    "torch.signal.",
    "torch.functional",
    "torch.quasirandom",
    "torch.func",
    "torch.cuda.",
)
#: Packages that send tensors of the program to other processes, and deliver those that it receives.
CARRYING = ("multiprocessing", "torch.multiprocessing")
#: Modules whose constructors create their own parameters.
_MODULES = "torch.nn.modules."
#: Whose requests a module's code makes: ``True`` the program's, ``False`` torch's own, ``None`` those of its caller:
#: torchdevice_cuda, and code that carries tensors between processes.
Verdict = bool | None


def _listed(module: str, entries: tuple[str, ...]) -> bool:
    return any(module.startswith(entry) if entry.endswith(".") else module == entry for entry in entries)


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


class _Verdicts(dict[str | None, Verdict]):
    """Cached verdicts by module name: factories look one up at each call."""

    def __missing__(self, module: str | None) -> Verdict:
        name = module or ""
        asks_for_another = _within(name, ("torchdevice_cuda", *CARRYING))
        verdict = None if asks_for_another else not _within(name, LIBRARY_PACKAGES) or _listed(name, PASSING)
        self[module] = verdict
        return verdict


verdicts = _Verdicts()


def asked_by_program() -> bool:
    """Return whether the code that called into torchdevice_cuda requests for the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        verdict = verdicts[frame.f_globals.get("__name__")]
        if verdict is not None:
            return verdict
        frame = frame.f_back
    return True


def _program_frame(frame: FrameType) -> tuple[FrameType, bool]:
    """Return the program's innermost frame, or else the outermost frame; and whether it is the program's."""
    while (frame.f_globals.get("__name__") or "").partition(".")[0] in LIBRARY_PACKAGES:
        if frame.f_back is None:
            return frame, False
        frame = frame.f_back
    return frame, True


def program_site() -> tuple[str, int] | None:
    """Return file and line of the program's code that is running; ``None`` if torch works by itself."""
    frame, is_program = _program_frame(sys._getframe(1))
    return (frame.f_code.co_filename, frame.f_lineno) if is_program else None


def site() -> tuple[str, int]:
    """Return the program's call site, or the one where torch itself began."""
    frame, _ = _program_frame(sys._getframe(1))
    return frame.f_code.co_filename, frame.f_lineno


def asks_first(known: list[weakref.ref[Any]]) -> bool:
    """Return whether a request is the first that a module makes in its constructor; ``known`` is the previous module.

    The program requested once, but ``nn.Linear(2, 2, device=...)`` requests its weight and its bias.
    """
    frame: FrameType | None = sys._getframe(1)
    module = None
    while frame is not None and (name := frame.f_globals.get("__name__") or "").partition(".")[0] in LIBRARY_PACKAGES:
        if name.startswith(_MODULES):
            module = frame.f_locals.get("self", module)
        frame = frame.f_back
    if module is None:
        return True
    if known and known[0]() is module:
        return False
    known[:] = [weakref.ref(module)]
    return True


# ------------------------------------------------------------------------------- disguises
class _Insiders(dict[str | None, bool]):
    """A cache by module name of whether the module's code sees a tensor's real device.

    torch and torchdevice_cuda do; torch.cuda is served by torchdevice_cuda and sees what the program sees.
    """

    def __missing__(self, module: str | None) -> bool:
        inside = self[module] = _within(module or "", LIBRARY_PACKAGES) and not _within(module or "", ("torch.cuda",))
        return inside


inside = _Insiders()
