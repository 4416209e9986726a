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
    "torch.quasirandom",
    "torch.func",
    "torch.cuda.",
)
#: Packages that carry what the program sends to another process, and hand over what it receives.
CARRYING = ("multiprocessing", "torch.multiprocessing")
#: What a module's code does with requests: ``True`` makes or hands on the program's, ``False`` makes torch's own,
#: ``None`` asks for whoever called it: our code, and what carries tensors between processes.
Verdict = bool | None


def _listed(module: str, entries: tuple[str, ...]) -> bool:
    return any(module.startswith(entry) if entry.endswith(".") else module == entry for entry in entries)


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


class _Verdicts(dict):
    """The verdict on a module, remembered by the module's name: factories ask each time they are called."""

    def __missing__(self, module: str | None) -> Verdict:
        name = module or ""
        asks_for_another = _within(name, ("torchdevice_cuda", *CARRYING))
        verdict = None if asks_for_another else not _within(name, OURS) or _listed(name, PASSING)
        self[module] = verdict
        return verdict


verdicts = _Verdicts()


def asked_by_program() -> bool:
    """Whether the code that called into torchdevice_cuda asks for the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        verdict = verdicts[frame.f_globals.get("__name__")]
        if verdict is not None:
            return verdict
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
