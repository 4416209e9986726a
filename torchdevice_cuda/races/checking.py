"""Warn of races, or raise; and count them as the process ends."""

from __future__ import annotations

import atexit
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .findings import Finding, read_finding
from .modes import ERROR, OFF


class StreamRaceError(RuntimeError):
    """Two accesses of the same memory are not ordered; the message names both, and the missing call."""


class StreamRaceWarning(UserWarning):
    """The same, with ``--check-streams warn``."""


for _named in (StreamRaceError, StreamRaceWarning):
    _named.__module__ = "torchdevice_cuda"  # the name that programs use


class Device(Protocol):
    """The functions of the compiled device that are used here."""

    def load_part(self, part: str) -> None:
        """Load a part, after compiling it if needed."""

    def find_lines(self, hidden: list[str]) -> None:
        """Find the program's lines; files with these prefixes are not the program's."""

    def check_streams(self, report: Callable[[Mapping[str, Any], bool], type[Exception] | None]) -> None:
        """Compare all accesses of memory from now on, and call this for each race, with whether it may raise.

        Otherwise the type that it returns is raised later.
        """

    def forget_races(self) -> None:
        """Report pairs of lines again that were reported before."""


class _Checker:
    """The mode of this process, and its findings."""

    def __init__(self) -> None:
        self.mode = OFF
        self.findings: list[Finding] = []
        self._device: Device | None = None

    def start(self, device: Device, hidden: Sequence[str]) -> None:
        if self._device is not None:
            self._device.forget_races()
            return
        self._device = device
        # Captured calls go through the graphs' part, so it is first.
        device.load_part("graphs")
        device.find_lines(list(hidden))
        device.check_streams(self._report)
        atexit.register(self._summarize)

    def _report(self, found: Mapping[str, Any], can_raise: bool) -> type[StreamRaceError] | None:
        if self.mode == OFF:
            return None
        finding = read_finding(found)
        self.findings.append(finding)
        if self.mode == ERROR:
            if can_raise:
                raise StreamRaceError(str(finding))
            return _make_type(str(finding))
        _warn(finding)
        return None

    def _summarize(self) -> None:
        if self.findings:
            races = "1 race" if len(self.findings) == 1 else f"{len(self.findings)} races"
            print(f"torchdevice_cuda: --check-streams found {races}", file=sys.stderr)


_checker = _Checker()


def start(device: Device, mode: str, hidden: Sequence[str]) -> None:
    """Check the order of accesses from now on; ``hidden`` are prefixes of files that are not the program's.

    A later call sets another mode, and begins to report pairs of lines anew.
    """
    _checker.start(device, hidden)
    _checker.mode = mode


def stop() -> None:
    """Report no more findings. The device goes on observing, because it could not resume later."""
    _checker.mode = OFF


def list_findings() -> list[dict[str, Any]]:
    """Return the findings so far, as fields of a report's."""
    level = "error" if _checker.mode == ERROR else "warning"
    return [
        {
            "tool": "check-streams",
            "level": level,
            "text": str(one),
            "site": one.later.line,
            "other": one.earlier.line,
            "lanes": (one.later.stream, one.earlier.stream),
            "points": tuple((side.lane, side.at_ns) for side in (one.later, one.earlier)),
        }
        for one in _checker.findings
    ]


def _warn(finding: Finding) -> None:
    file, number = finding.later.line or ("<torchdevice_cuda>", 1)
    warnings.warn_explicit(str(finding), StreamRaceWarning, file, number)


def _make_type(message: str) -> type[StreamRaceError]:
    """Return a type for an error that Python itself creates, without arguments."""

    class Race(StreamRaceError):
        def __init__(self, *_: object) -> None:
            super().__init__(message)

    Race.__name__, Race.__qualname__, Race.__module__ = "StreamRaceError", "StreamRaceError", "torchdevice_cuda"
    return Race
