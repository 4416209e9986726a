"""What the drivers whose GPU is the host's own processor have in common: how many devices, and what each is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...settings import visible_devices_now
from ..base import DeviceFacts, Driver, claimed
from . import facts as hostfacts
from .visible import visible_count

if TYPE_CHECKING:
    from ...settings import Settings


class HostDriver(Driver):
    """The processor, presented as a GPU: one multiprocessor per core."""

    #: what is said of the processor's name
    label = "CUDA compatible"
    #: whether its memory is the host's, as an integrated GPU's is
    integrated = 1

    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(settings, reason)
        self._count = visible_count(settings.devices, settings.visible_devices)
        self._visible = visible_devices_now()

    def device_count(self) -> int:
        """The configured number of devices, less those the program may not see.

        As on CUDA that is settled by the first use: many a program sets the variable after it has imported torch.
        """
        if self.needs_init and (visible := visible_devices_now()) != self._visible:
            self._visible = visible
            self._show(visible_count(self.settings.devices, visible))
        return self._count

    def _show(self, count: int) -> None:
        """Have the program see so many devices from now on; none was used yet."""
        self._count = count
        for part in ("streams", "memory"):
            self.__dict__.pop(part, None)  # made for another number

    @functools.lru_cache(maxsize=64)  # noqa: B019 (one driver lives as long as the process)
    def facts(self, index: int) -> DeviceFacts:
        """The processor's facts under CUDA's names, with the memory the driver gives it."""
        real = DeviceFacts(
            name=f"{hostfacts.processor_name()} ({self.label})",
            total_memory=self.memory.info(index)[1],
            multi_processor_count=hostfacts.cores(),
            uuid=hostfacts.device_uuid(index),
            clock_rate=hostfacts.clock_khz(),
            L2_cache_size=hostfacts.last_level_cache(),
            pci_bus_id=index,
            is_integrated=self.integrated,
        )
        return claimed(real, self.settings)

    @property
    def memory_of_each(self) -> int | None:
        """The memory that each device is to have: as chosen, or as the GPU has that it is to be taken for."""
        profile = self.settings.profile
        return self.settings.memory or (None if profile is None else profile.memory)
