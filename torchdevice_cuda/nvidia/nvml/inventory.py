"""The GPUs of the machine for monitors: those that running processes publish, and those that a program would see.

Nothing here imports torch: a monitor must answer at once.
"""

from __future__ import annotations

import dataclasses
import functools
from importlib import metadata

from ... import _compat, monitoring
from ...drivers.host import facts as hostfacts
from ...drivers.host import machine
from ...drivers.host.driver import LABEL, chosen_memory, host_facts
from ...drivers.virtual.label import LABEL as VIRTUAL_LABEL
from ...settings import Settings

MIB = 1 << 20
#: The first driver for a CUDA version in NVIDIA's release notes, newest first; reported if none is installed.
_DRIVERS = (((13, 0), "580.65.06"), ((12, 8), "570.86.10"), ((12, 6), "560.28.03"), ((12, 4), "550.54.14"))
_OLDEST_DRIVER = "525.60.13"


@dataclasses.dataclass(frozen=True)
class User:
    """A process that holds memory of a GPU."""

    pid: int
    name: str
    held: int  # bytes
    busy: int  # percent


@dataclasses.dataclass(frozen=True)
class Gpu:
    """The current state of a GPU."""

    device: monitoring.Device
    users: tuple[User, ...]
    temperature: int | None  # degrees Celsius

    @property
    def used(self) -> int:
        """Return the bytes in use. Each process has a whole virtual GPU: together they may use more than it has."""
        return min(self.device.memory, sum(user.held for user in self.users))

    @property
    def free(self) -> int:
        """Return the free bytes."""
        return self.device.memory - self.used

    @property
    def busy(self) -> int:
        """Return the percentage of time in which a process computed on it."""
        return min(100, sum(user.busy for user in self.users))

    @property
    def bus_id(self) -> str:
        """Return its bus id, as NVML writes it."""
        return f"00000000:{self.device.bus:02X}:00.0"


def now(settings: Settings, with_load: bool = True) -> list[Gpu]:
    """List every GPU. Measuring the load of a new process takes a sixth of a second."""
    running = monitoring.processes()
    load = monitoring.load.percents(running) if with_load else {}
    temperature = hostfacts.temperature()
    found: dict[int, monitoring.Device] = {}
    for process in running:
        for device in process.devices:
            found.setdefault(device.index, device)
    for index in range(settings.devices):
        found.setdefault(index, _expected(index, settings))
    return [
        Gpu(
            device,
            tuple(
                User(
                    process.pid,
                    process.command,
                    process.held[device.uuid],
                    process.find_load(device.uuid, load),
                )
                for process in running
                if process.held.get(device.uuid)
            ),
            temperature,
        )
        for _, device in sorted(found.items())
    ]


def _expected(index: int, settings: Settings) -> monitoring.Device:
    """Return the device that a program started now would see."""
    memory = chosen_memory(settings) or machine.share(settings.devices)
    label = LABEL if settings.driver in ("cpu", "mps") else VIRTUAL_LABEL
    return host_facts(index, memory, settings, label).to_monitoring_device(index)


@functools.cache
def cuda_version() -> str:
    """Return the CUDA version of the installed torch."""
    try:
        return _compat.cuda_version(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return _compat.cuda_version(".".join(map(str, _compat.NEWEST_KNOWN)))


def driver_version() -> str:
    """Return a driver version for that CUDA version."""
    major, minor = (int(part) for part in cuda_version().split(".")[:2])
    return next((name for cuda, name in _DRIVERS if (major, minor) >= cuda), _OLDEST_DRIVER)
