"""Properties of the Apple GPU from Metal through pyobjc, from IOKit's registry, torch and the system, in this order.

Every source may be missing (pyobjc is not installed, the command does not exist, a name is new): then the next is used.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import subprocess
import uuid
from typing import Any

from ..._compat import named
from ..host import facts as hostfacts

_IOREG = ["/usr/sbin/ioreg", "-rc", "AGXAccelerator", "-d", "1", "-w", "0"]  # one property per line, however long
_L2 = ["/usr/sbin/sysctl", "-n", "hw.perflevel0.l2cachesize"]
_CORES = re.compile(r'"gpu-core-count"\s*=\s*(\d+)')
_BUSY = re.compile(r'"Device Utilization %"\s*=\s*(\d+)')
_THREADGROUP_MEMORY = 32768  # bytes of a threadgroup on every Apple GPU so far
#: Bytes of main memory up to which Metal recommends two thirds of it; beyond, three quarters.
_SMALL_MEMORY = 32 << 30


@dataclasses.dataclass(frozen=True)
class GpuFacts:
    """Properties of the GPU; ``None`` if no source has them."""

    name: str
    cores: int
    working_set: int | None
    threadgroup_memory: int
    unified_memory: bool
    registry_id: int | None

    @property
    def uuid(self) -> uuid.UUID:
        """Return a UUID that is the same in every process of this machine."""
        if self.registry_id is None:
            return hostfacts.device_uuid(0)
        return uuid.uuid5(uuid.NAMESPACE_OID, f"metal.{self.registry_id:x}")


def _metal_device() -> Any | None:
    """Return Metal's device object, if pyobjc is installed and there is a GPU."""
    try:
        return importlib.import_module("Metal").MTLCreateSystemDefaultDevice()
    # OSError: installed for another system or architecture. RuntimeError: pyobjc's, for a framework of another macOS.
    except (ImportError, AttributeError, OSError, RuntimeError):
        return None


def _ask(device: Any, name: str) -> Any | None:
    """Return a property of Metal's device; ``None`` if this Metal lacks it."""
    method = getattr(device, name, None)
    return method() if callable(method) else None


def _said_by(command: list[str]) -> str:
    """Return the output of a system command, empty if it fails or does not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _registry_cores() -> int | None:
    """Return the number of GPU cores, which only IOKit's registry knows."""
    found = _CORES.search(_said_by(_IOREG))
    return int(found[1]) if found else None


def utilization() -> int | None:
    """Return the percentage of time in which the GPU computed, for all programs; ``None`` without a figure."""
    found = _BUSY.search(_said_by(_IOREG))
    return min(100, int(found[1])) if found else None


def l2_cache() -> int:
    """Return the bytes of the fast cores' L2 cache, or else those of the largest cache."""
    said = _said_by(_L2).strip()
    return int(said) if said.isdigit() else hostfacts.last_level_cache()


def _torch_says(name: str) -> Any | None:
    """Call a function of torch's MPS backend; ``None`` if this torch lacks it, finds no GPU, or Metal fails."""
    import torch

    ask = named(f"torch._C.{name}")
    try:
        usable = torch._C._has_mps and torch._C._mps_is_available()
        return ask() if usable and ask is not None else None
    except RuntimeError:
        return None


def main_memory_share() -> int | None:
    """Return the part of main memory that Metal would recommend, if psutil is installed."""
    try:
        import psutil
    except ImportError:
        return None
    total: int = psutil.virtual_memory().total
    return total * 2 // 3 if total <= _SMALL_MEMORY else total * 3 // 4


@functools.cache
def gpu() -> GpuFacts:
    """Return the GPU's properties, each from the best source."""
    device = _metal_device()
    unified = _ask(device, "hasUnifiedMemory")
    return GpuFacts(
        name=str(_ask(device, "name") or _torch_says("_mps_get_name") or hostfacts.processor_name()),
        cores=_registry_cores() or _torch_says("_mps_get_core_count") or hostfacts.cores(),
        working_set=(
            _ask(device, "recommendedMaxWorkingSetSize")
            or _torch_says("_mps_recommendedMaxMemory")
            or main_memory_share()
        ),
        threadgroup_memory=_ask(device, "maxThreadgroupMemoryLength") or _THREADGROUP_MEMORY,
        unified_memory=True if unified is None else bool(unified),
        registry_id=_ask(device, "registryID"),
    )
