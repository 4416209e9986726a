"""The ``virtual`` driver: real cuda-typed tensors in host memory, computed by CPU kernels."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING

from ...native.deferral import end_deferral
from ...native.interface import Native, NativeGraph
from ..base import Offer
from ..host import machine
from ..host.cuda_device import describe_gpu, register_cuda_operators
from ..host.driver import HostDriver
from ..installing import install
from ..traits import Trait
from .label import LABEL
from .memory import NativeMemory
from .streams import NativeStreams

if TYPE_CHECKING:
    import torch

    from ...settings import Settings


class VirtualDriver(HostDriver):
    """A GPU in host memory, registered with the dispatcher."""

    name = "virtual"
    device_type = "cuda"
    traits = Trait.SUBSTITUTE | Trait.HOST_MEMORY | Trait.NATIVE
    label = LABEL
    integrated = 0

    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(settings, reason)
        #: whether there are devices at all; devices hidden when torch was imported stay hidden
        self._installs = self._count > 0

    @property
    def native(self) -> Native | None:
        """Return the compiled device, installed in this process; ``None`` if the program sees no device."""
        return self._module if self._installs else None

    @functools.cached_property
    def _module(self) -> Native:
        from ...native import build

        module: Native = build.load("cuda", build=self.settings.build)
        # Hidden devices too: until the first use a program can change which ones it sees.
        memory = [self.memory_of_each or machine.share(self._count)] * self.settings.devices if self._installs else []
        install(module, "virtual GPU", memory)
        module.watch_host(machine.groups())
        if self._installs:
            module.show_devices(self._count)
        return module

    def _show(self, count: int) -> None:
        if self._installs:
            super()._show(count)
            self._module.show_devices(count)

    def prepare(self) -> None:
        """Register the device with torch; set its GPU model, and what this processor is fast at."""
        describe_gpu(self._module, self.settings)
        if self._installs:
            register_cuda_operators()
            self._order_streams()

    def _order_streams(self) -> None:
        """Defer work if an adversarial order was chosen; an activation before this one may have deferred it."""
        if self.settings.streams is not None:
            self._module.start_deferral(self.settings.streams)
        else:
            end_deferral(self._module)

    def describe(self) -> list[tuple[str, str]]:
        """Add the source of the compiled part."""
        from ...native import build

        origin = build.origin("cuda")
        rows = [("native part", f"{origin.path} ({origin.distribution or 'compiled here'})")]
        if origin.otherwise:
            rows.append(("", f"{origin.otherwise}, so it is not used"))
        return [*super().describe(), *rows]

    @functools.cached_property
    def streams(self) -> NativeStreams:
        """Return the device's streams."""
        return NativeStreams(self._module, self._count)

    @functools.cached_property
    def memory(self) -> NativeMemory:
        """Return the device's memory."""
        return NativeMemory(self._module, self._count)

    @property
    def can_capture(self) -> bool:
        """Return true: the device can record its work."""
        return True

    @property
    def pools_graphs(self) -> bool:
        """Return true: the allocator has pools."""
        return True

    def graph(self) -> NativeGraph | None:
        return self._module.Graph()

    def start(self) -> None:
        """Mark the device as used: a forked child may not use it afterwards."""
        if self._count:
            self.memory.start()
        self._module.mark_used()

    def ask(self) -> None:
        """Record the query in torch's C++, too."""
        super().ask()
        if self._installs and not self.in_bad_fork():
            self._module.mark_used()

    def in_bad_fork(self) -> bool:
        return super().in_bad_fork() or ("_module" in self.__dict__ and self._module.in_bad_fork())

    def has_context(self, device: int) -> bool:
        """Return whether a device was used, here or in torch's C++."""
        return self._module.has_context(device)

    def use(self, device: int) -> None:
        """Record work on a device that only Python knows."""
        self._module.mark_context(device)

    def register_host_memory(self, address: int, size: int) -> None:
        """Register memory with torch, too, which queries the device whether memory is pinned."""
        super().register_host_memory(address, size)
        self._module.register_pinned(address, size)

    def unregister_host_memory(self, address: int) -> bool:
        """Unregister memory with torch, too."""
        self._module.unregister_pinned(address)
        return super().unregister_host_memory(address)

    def current_device(self) -> int:
        """Return the calling thread's current device, as stored in torch's C++."""
        return self._module.get_device()

    def set_device(self, index: int) -> None:
        self._module.set_device(self.check(index))

    def generators(self) -> tuple[torch.Generator, ...]:
        """Return generators with CUDA's state: a seed and an offset."""
        return tuple(self._module.default_generator(index) for index in range(self._count))


def offer(settings: Settings, torch_c: ModuleType) -> Offer:
    """Offer the driver if the native device loads, after compiling it if needed."""
    from ...native import build

    try:
        build.load("cuda", build=settings.build)
    except build.BuildError as error:
        return Offer(None, str(error), is_fault=True)
    return Offer(VirtualDriver, "the native device is built")
