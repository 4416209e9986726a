"""``dmon`` and ``pmon``: a line for each GPU, or process, at each reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..nvml.inventory import MIB, Gpu, User
from .fields import Moment, users
from .request import UNKNOWN, Refusal, Request

_Cell = Callable[[Gpu], object]
#: By the letter that selects them: title, unit, value (``None``: unknown here).
_COLUMNS: dict[str, list[tuple[str, str, _Cell]]] = {
    "p": [
        ("pwr", "W", lambda gpu: None),
        ("gtemp", "C", lambda gpu: gpu.temperature),
        ("mtemp", "C", lambda gpu: None),
    ],
    "u": [
        ("sm", "%", lambda gpu: gpu.busy),
        ("mem", "%", lambda gpu: gpu.busy),
        ("enc", "%", lambda gpu: None),
        ("dec", "%", lambda gpu: None),
        ("jpg", "%", lambda gpu: None),
        ("ofa", "%", lambda gpu: None),
    ],
    "c": [
        ("mclk", "MHz", lambda gpu: gpu.device.memory_clock_mhz or None),
        ("pclk", "MHz", lambda gpu: gpu.device.clock_mhz or None),
    ],
    "v": [("pviol", "%", lambda gpu: None), ("tviol", "bool", lambda gpu: None)],
    "m": [
        ("fb", "MB", lambda gpu: gpu.used // MIB),
        ("bar1", "MB", lambda gpu: None),
        ("ccpm", "MB", lambda gpu: None),
    ],
    "e": [
        ("sbecc", "errs", lambda gpu: None),
        ("dbecc", "errs", lambda gpu: None),
        ("pci", "errs", lambda gpu: None),
    ],
    "t": [("rxpci", "MB/s", lambda gpu: None), ("txpci", "MB/s", lambda gpu: None)],
}
_DEFAULT = "puc"
_OF_PROCESS: dict[str, list[tuple[str, str, Callable[[User], object]]]] = {
    "u": [
        ("sm", "%", lambda user: user.busy),
        ("mem", "%", lambda user: user.busy),
        *((name, "%", lambda user: None) for name in ("enc", "dec", "jpg", "ofa")),
    ],
    "m": [("fb", "MB", lambda user: user.held // MIB), ("ccpm", "MB", lambda user: None)],
}


def dmon(request: Request, moment: Moment, head: bool) -> str:
    """Return figures of the GPUs."""
    letters = request.metrics or _DEFAULT
    if any(letter not in _COLUMNS for letter in letters):
        raise _no_metric()
    columns = [column for letter in letters for column in _COLUMNS[letter]]
    rows = [[gpu.device.index, *(_shown(value(gpu)) for _, _, value in columns)] for gpu in moment.gpus]
    heads = [["gpu", "Idx"], *([name, unit] for name, unit, _ in columns)]
    if "csv" in request.format:
        return _separated(request, moment, heads if head else [], rows)
    lines = _heads(request, heads) if head else []
    lines += [_stamp(request, moment) + _cells(row, _first(request)) for row in rows]
    return "".join(f"{line} \n" for line in lines)


def pmon(request: Request, moment: Moment, head: bool) -> str:
    """Return figures of the processes."""
    letters = request.metrics or "u"
    if any(letter not in _OF_PROCESS for letter in letters):
        raise _no_metric()
    columns = [column for letter in _OF_PROCESS if letter in letters for column in _OF_PROCESS[letter]]
    lines = []
    if head:
        for row, (name, process, kind, command) in enumerate(
            (("gpu", "pid", "type", "command"), ("Idx", "#", "C/G", "name"))
        ):
            cells = "".join(f" {column[row]:>6}" for column in columns)
            lines.append(f"#{_stamps(request, row)} {name} {process:>11} {kind:>6}{cells}    {command} ")
    rows = [(gpu, user) for gpu, user in users(moment.gpus)]
    for gpu, user in [*rows, *((gpu, None) for gpu in moment.gpus if not gpu.users)]:
        cells = "".join(f" {_shown(None if user is None else value(user)):>6}" for _, _, value in columns)
        pid, kind, name = ("-", "-", "-") if user is None else (str(user.pid), "C", user.name.rpartition("/")[2][:15])
        lines.append(f"{_stamp(request, moment)}{gpu.device.index:>5} {pid:>10} {kind:>5}{cells}    {name:<15}")
    return "".join(f"{line}\n" for line in lines)


def _no_metric() -> Refusal:
    return Refusal("Failed to find any metric to display\nFailed to process command line \n", UNKNOWN)


def _separated(request: Request, moment: Moment, heads: list[list[str]], rows: list[list[object]]) -> str:
    """Return lines of comma-separated values: names and units, unless they are disabled, then figures."""
    kept = [row for row, word in ((0, "noheader"), (1, "nounit")) if heads and word not in request.format]
    lines = [f"#{_stamps(request, row)}" + ", ".join(column[row] for column in heads) for row in kept]
    lines += [f"{_stamp(request, moment)} " + ", ".join(map(str, row)) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _heads(request: Request, columns: list[list[str]]) -> list[str]:
    return [
        f"#{_stamps(request, row)}" + _cells([column[row] for column in columns], _first(request) - 1) for row in (0, 1)
    ]


def _cells(row: Sequence[object], first: int) -> str:
    return f"{row[0]!s:>{first}}" + "".join(f" {cell!s:>6}" for cell in row[1:])


def _first(request: Request) -> int:
    """Return the width of the first column: it is wider after a time."""
    return 7 if request.stamps else 5


def _shown(value: object) -> str:
    return "-" if value is None else str(value)


#: By the letter of ``-o``: the title, the unit, and the time.
_STAMPS = {"D": ("Date        ", "YYYYMMDD    ", " %Y%m%d    "), "T": ("Time      ", "HH:MM:SS  ", "%H:%M:%S ")}


def _stamps(request: Request, row: int) -> str:
    return "".join(words[row] for letter, words in _STAMPS.items() if letter in request.stamps)


def _stamp(request: Request, moment: Moment) -> str:
    return time.strftime(_stamps(request, 2), time.localtime(moment.at))
