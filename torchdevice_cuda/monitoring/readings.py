"""Read the GPUs and the load that the user's running processes publish."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from .. import leftovers, trust
from .publishing import CLOCK_CELL, PAGE, SUFFIX, VERSION, find_folder

#: Seconds between two looks at a process: what it did between them is its load. NVML's period is 1/6 s to 1 s.
_PERIOD = 1 / 6
_STALE = 10.0
_SECOND_NS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Device:
    """A GPU as a process believes in it."""

    index: int  # among those of the machine, hidden ones too
    uuid: str
    name: str
    memory: int  # bytes
    capability: tuple[int, int]
    multiprocessors: int
    clock_mhz: int
    memory_clock_mhz: int
    bus: int
    bus_bits: int = 64


@dataclasses.dataclass(frozen=True)
class Process:
    """A running process that has used a GPU, and what it holds of each, by uuid."""

    pid: int
    started: str
    driver: str
    command: str
    devices: tuple[Device, ...]
    held: dict[str, int]
    #: percent of the last second of the GPU's clock in which each computed, by uuid; empty if the clock is the host's
    busy: dict[str, int] = dataclasses.field(default_factory=dict)

    def find_load(self, uuid: str, measured: dict[int, int]) -> int:
        """Return the percentage of time in which it computes on a device, by its clock or by its measured load."""
        return self.busy.get(uuid, measured.get(self.pid, 0))


def processes() -> list[Process]:
    """All of them, by number. Files of processes that are gone are taken away."""
    folder = find_folder()
    found = []
    with contextlib.suppress(trust.Untrusted), trust.open_folder(folder, folder, private=True) as directory:
        for name in os.listdir(directory):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, struct.error):
                process = _read(folder / name, directory) if name.endswith(SUFFIX) else None
                if process is not None:
                    found.append(process)
    return sorted(found, key=lambda process: process.pid)


def _read(path: Path, directory: int) -> Process | None:
    with open(trust.open_file(directory, path), "rb") as file:
        data = file.read()
    about = json.loads(data[PAGE:])
    if about["version"] != VERSION:
        return None
    pid = int(about["pid"])
    if leftovers.identity(pid) != about["started"]:
        leftovers.unlink_abandoned(path)  # it stays if it is locked: that of another container
        return None
    devices = tuple(Device(**{**each, "capability": tuple(each["capability"])}) for each in about["devices"])
    cells = list(struct.unpack(f"{len(devices)}Q", data[: 8 * len(devices)]))
    since = about["resident_since"]
    if since is not None and cells:
        cells[0] = max(0, _resident(pid) - since)
    held = {device.uuid: size for device, size in zip(devices, cells, strict=True)}
    busy = read_busy(data, _steady_ns())
    percents = {device.uuid: percent for device, percent in zip(devices, busy, strict=False)}
    return Process(pid, about["started"], about["driver"], about["command"], devices, held, percents)


def _steady_ns() -> int:
    """Return the time of C++'s steady clock, which is the system's."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW if sys.platform == "darwin" else time.CLOCK_MONOTONIC)


def read_busy(page: bytes, now: int) -> list[int]:
    """Return what percent of the last second of its clock each device was busy; none without a GPU's clock.

    The published second ends with the last work; the time since then, on the GPU's clock, was idle.
    """
    is_on, offset, stands_since, *devices = struct.unpack_from(f"{PAGE // 8 - CLOCK_CELL}q", page, 8 * CLOCK_CELL)
    if not is_on:
        return []
    now = (stands_since or now) + offset
    found = []
    for end, busy, measured in zip(devices[::3], devices[1::3], devices[2::3], strict=False):
        idle = max(0, now - end)
        dropped = max(0, measured + idle - _SECOND_NS)
        share = busy * max(0, measured - dropped) / measured if measured > 0 else 0.0
        found.append(min(100, round(100 * share / max(1, measured + idle - dropped))))
    return found


def _resident(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error as error:
        raise OSError(str(error)) from error


class Load:
    """The load of processes: their processor time between two readings.

    A device computes while a kernel of it runs, on however many cores: 100 is one core or more all the time. Processes
    with a GPU's clock are left out, since they publish theirs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[tuple[int, str], tuple[float, float]] = {}
        self._last: dict[tuple[int, str], int] = {}

    def percents(self, processes: Iterable[Process]) -> dict[int, int]:
        """By process number. The first look at a process waits for a second one, a sixth of a second."""
        wanted = [each for each in processes if not each.busy]
        with self._lock:
            new = [each for each in wanted if not self._is_known(each)]
            for each in new:
                self._look(each)
        if new:
            time.sleep(_PERIOD)
        with self._lock:
            percents = {each.pid: self._percent(each) for each in wanted}
            known = {(each.pid, each.started) for each in wanted}
            for gone in [key for key, look in self._looks.items() if key not in known and _is_stale(look[0])]:
                del self._looks[gone]
                self._last.pop(gone, None)
            return percents

    def _is_known(self, process: Process) -> bool:
        look = self._looks.get((process.pid, process.started))
        return look is not None and not _is_stale(look[0])

    def _look(self, process: Process) -> None:
        self._looks[process.pid, process.started] = (time.monotonic(), _seconds(process.pid))

    def _percent(self, process: Process) -> int:
        key = (process.pid, process.started)
        now, (before, spent) = time.monotonic(), self._looks[key]
        if now - before < _PERIOD * 0.9:
            return self._last.get(key, 0)
        percent = min(100, max(0, round(100 * (_seconds(process.pid) - spent) / (now - before))))
        self._look(process)
        self._last[key] = percent
        return percent


def _is_stale(moment: float) -> bool:
    return time.monotonic() - moment > _STALE


def _seconds(pid: int) -> float:
    """Processor time of a process so far."""
    if pid == os.getpid():
        return time.process_time()
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


#: The looks of this process.
load = Load()
