"""The base of drivers whose GPU is the host's processor: the number of devices and their properties."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...settings import gpus, visible_devices_now
from ..base import DeviceProperties, Driver
from ..device_properties import apply_settings
from . import facts as hostfacts
from .visible import visible_count, visible_devices

if TYPE_CHECKING:
    from ...settings import Settings


#: The suffix of the processor's name.
LABEL = "CUDA compatible"


def host_facts(
    physical: int, memory: int, settings: Settings, label: str = LABEL, integrated: int = 1
) -> DeviceProperties:
    """Return the processor's properties with CUDA's names, before any device exists and without torch.

    Shared memory is host memory, too: a kernel can have as much as the claimed capability promises.
    """
    promised = gpus.ARCHITECTURES.get(settings.claimed_capability)
    real = DeviceProperties(
        name=f"{hostfacts.processor_name()} ({label})",
        total_memory=memory,
        multi_processor_count=hostfacts.cores(),
        uuid=hostfacts.device_uuid(physical),
        clock_rate=hostfacts.clock_khz(),
        L2_cache_size=hostfacts.last_level_cache(),
        pci_bus_id=physical,
        is_integrated=integrated,
        shared_memory_per_block_optin=(promised.shared_kib_of_block if promised else 48) * gpus.KIB,
    )
    return apply_settings(real, settings)


def chosen_memory(settings: Settings) -> int | None:
    """Return the memory that the user chose for each device, if any."""
    return settings.memory or (None if settings.profile is None else settings.profile.memory)


class HostDriver(Driver):
    """The processor, presented as a GPU: one multiprocessor per core."""

    #: suffix of the processor's name
    label = LABEL
    #: whether its memory is the host's, like that of an integrated GPU
    integrated = 1

    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(settings, reason)
        self._visible = settings.visible_devices
        self._variable = visible_devices_now()  # the setting may have another source
        self._count = visible_count(settings.devices, self._visible)

    def device_count(self) -> int:
        """Return the configured number of devices, without those that the program may not see.

        As on CUDA the first use settles it: many programs set the variable after they have imported torch.
        """
        if self.needs_init and (variable := visible_devices_now()) != self._variable:
            self._visible = self._variable = variable
            self._show(visible_count(self.settings.devices, variable))
        return self._count

    def physical_count(self) -> int:
        """Return the configured number."""
        return self.settings.devices

    def physical_uuids(self) -> list[str]:
        return [f"GPU-{hostfacts.device_uuid(index)}" for index in range(self.settings.devices)]

    def physical(self, index: int) -> int:
        """Return the device that has this number."""
        return visible_devices(self.settings.devices, self._visible)[index]

    def _show(self, count: int) -> None:
        """Show the program this many devices from now on; none was used yet."""
        self._count = count
        HostDriver.facts.cache_clear()  # the number may now belong to another device
        for part in ("streams", "memory"):
            self.__dict__.pop(part, None)  # created for another number of devices

    @functools.lru_cache(maxsize=64)  # noqa: B019 (one driver lives as long as the process)
    def facts(self, index: int) -> DeviceProperties:
        """Return the processor's properties with CUDA's names, and the driver's memory size."""
        return host_facts(self.physical(index), self.memory.info(index)[1], self.settings, self.label, self.integrated)

    # -------------------------------------------------------------------- monitors
    def utilization(self, device: int) -> int:
        """Return the utilization of the host, which computes."""
        return self._load(device)

    def memory_utilization(self, device: int) -> int:
        """Return the utilization: a host computes nothing without its memory."""
        return self.utilization(device)

    def temperature(self, device: int) -> int:
        """Return the hottest processor sensor, if the system reports one."""
        found = hostfacts.temperature()
        return super().temperature(device) if found is None else found

    @property
    def memory_of_each(self) -> int | None:
        """Return the memory of each device: the chosen size, or that of the chosen GPU model."""
        return chosen_memory(self.settings)
