"""Properties of the host: its processor, from each system's sources, any of which may be missing; NVIDIA's driver."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

_DEFAULT_CLOCK_KHZ = 1_000_000  # if the system does not report its clock
#: Files that exist if NVIDIA's driver is installed, on Linux and in WSL.
_NVIDIA = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")


def has_nvidia_driver() -> bool:
    """Return whether NVIDIA's driver is installed, so that there may be a CUDA GPU."""
    return any(os.path.exists(path) for path in _NVIDIA)


@functools.cache
def processor_name() -> str:
    """Return the processor's marketing name, else its architecture."""
    if sys.platform.startswith("linux"):
        try:
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
                if line.lower().startswith(("model name", "hardware")):
                    return line.split(":", 1)[1].strip()
        except OSError:
            pass
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        try:
            name = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            name = ""
        if name:
            return name
    return platform.processor() or platform.machine() or "CPU"


@functools.cache
def clock_khz() -> int:
    """Return the processor's clock in kHz, as CUDA's ``clock_rate`` counts."""
    import psutil

    try:
        frequency = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError, RuntimeError):
        frequency = None
    megahertz = max(frequency.current, frequency.max) if frequency else 0
    return int(megahertz * 1000) or _DEFAULT_CLOCK_KHZ


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


@functools.cache
def last_level_cache() -> int:
    """Return the bytes of the largest cache, 0 if unknown."""
    sizes = [0]
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = entry.read_text().strip()
        except OSError:
            continue
        if text.endswith("K") and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * 1024)
    return max(sizes)


def temperature() -> int | None:
    """Return the hottest sensor of the processor in degrees Celsius, if the system reports one."""
    import psutil

    try:
        sensors: dict[str, list[Any]] = getattr(psutil, "sensors_temperatures", dict)()
    except OSError:
        return None
    readings = [reading.current for each in sensors.values() for reading in each]
    return round(max(readings)) if readings else None


def device_uuid(index: int) -> uuid.UUID:
    """Return a UUID that is the same in every process of this machine, and another for each device."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, f"torchdevice-cuda.{platform.node()}.{index}")
