"""The properties of a device, and those that settings make it report."""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING

from .. import monitoring
from ..settings import gpus

if TYPE_CHECKING:
    from ..settings import Settings


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """Device properties, with CUDA's names."""

    name: str
    total_memory: int
    multi_processor_count: int
    uuid: uuid.UUID
    clock_rate: int  # kHz
    L2_cache_size: int
    pci_bus_id: int
    major: int = 0
    minor: int = 0
    is_integrated: int = 1
    is_multi_gpu_board: int = 0
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int = 2048
    memory_bus_width: int = 64
    memory_clock_rate: int = 0  # kHz; 0 if the host does not report it
    pci_device_id: int = 0
    pci_domain_id: int = 0
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 49152
    shared_memory_per_multiprocessor: int = 65536
    warp_size: int = 32

    def to_monitoring_device(self, physical: int) -> monitoring.Device:
        """Return the properties that are published to other processes."""
        return monitoring.Device(
            index=physical,
            uuid=f"GPU-{self.uuid}",
            name=self.name,
            memory=self.total_memory,
            capability=(self.major, self.minor),
            multiprocessors=self.multi_processor_count,
            clock_mhz=self.clock_rate // 1000,
            memory_clock_mhz=self.memory_clock_rate // 1000,
            bus=self.pci_bus_id,
            bus_bits=self.memory_bus_width,
        )

    @property
    def gcnArchName(self) -> str:  # noqa: N802 (CUDA's own spelling; CUDA answers with the device's name)
        """Return the architecture name; as on CUDA builds, the device's name."""
        return self.name


def apply_settings(real: DeviceProperties, settings: Settings) -> DeviceProperties:
    """Replace the properties that the GPU profile and single settings choose; the settings win."""
    gpu = settings.profile
    if gpu is not None:
        shared = gpu.architecture
        real = dataclasses.replace(
            real,
            name=gpu.name,
            multi_processor_count=gpu.multiprocessors,
            clock_rate=gpu.clock_mhz * 1000,
            L2_cache_size=gpu.l2_kib * gpus.KIB,
            is_integrated=int(gpu.integrated),
            max_threads_per_multi_processor=shared.threads,
            memory_bus_width=gpu.bus_bits,
            memory_clock_rate=gpu.memory_clock_mhz * 1000,
            shared_memory_per_block_optin=shared.shared_kib_of_block * gpus.KIB,
            shared_memory_per_multiprocessor=shared.shared_kib * gpus.KIB,
        )
    major, minor = settings.claimed_capability
    return dataclasses.replace(real, name=settings.name or real.name, major=major, minor=minor)
