"""What a rehearsal says where the program depends on values that were not computed (``--rehearse``)."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Protocol


class UncomputedValueError(RuntimeError):
    """The program depends on a value that a rehearsal did not compute (``--rehearse=strict``)."""


class UncomputedValueWarning(UserWarning):
    """The same, with ``--rehearse``: the program goes on with a value that stands for it."""


for _named in (UncomputedValueError, UncomputedValueWarning):
    _named.__module__ = "torchdevice_cuda"  # the name that programs use

#: What happened and what the program gets instead, by the kind of event.
_MESSAGES = {
    "value": "the program reads values that this rehearsal did not compute; floating-point numbers and counts read as "
    "1, other values as 0",
    "size": "the size of a result of {name} depends on values that this rehearsal did not compute; it has the "
    "largest possible size",
    "kernel": "this rehearsal does not run the kernel {name}; the memory that it writes is unchanged",
}
_ADVICE = "compute it on a small tensor (up to 64 KiB), or run without --rehearse"


class Device(Protocol):
    """The functions of the compiled device that are used here."""

    def load_part(self, part: str) -> None:
        """Load a part, after compiling it if needed."""

    def start_rehearsal(self, report: Callable[[str, str], None]) -> None:
        """Compute no large tensors; call ``report(kind, name)`` where something depends on their values."""

    def stop_rehearsal(self) -> None:
        """Compute again."""


def start(device: Device, is_strict: bool, hidden: Sequence[str]) -> None:
    """Leave large tensors uncomputed; ``hidden`` are prefixes of files that are not the program's."""
    prefixes = tuple(hidden)
    seen: set[tuple[str, int]] = set()

    def report(kind: str, name: str) -> None:
        file, line = _find_line(prefixes)
        message = _MESSAGES[kind].format(name=name.removeprefix("aten::"))
        if is_strict:
            raise UncomputedValueError(f"{file}:{line}: {message}. For a strict rehearsal, {_ADVICE}")
        if (file, line) not in seen:
            seen.add((file, line))
            warnings.warn_explicit(f"{message} ({file}:{line})", UncomputedValueWarning, file, line)

    device.start_rehearsal(report)
    _reports[:] = [report]
    _stop_compiling()


#: The function that reports, of the rehearsal that runs.
_reports: list[Callable[[str, str], None]] = []


def report_kernel(name: str) -> None:
    """Report a kernel that the rehearsal does not run."""
    for report in _reports:
        report("kernel", name)


def _find_line(hidden: tuple[str, ...]) -> tuple[str, int]:
    """Return the innermost line of the program; a thread of a backward pass has none."""
    frame = sys._getframe(2)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(hidden):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<backward pass>", 1


def _stop_compiling() -> None:
    """Let torch.compile return functions as they are: compiled code would compute."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.config.disable = True
