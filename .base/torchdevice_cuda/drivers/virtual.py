"""The ``virtual`` driver: real cuda-typed tensors in host memory, computed by the CPU's kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from .host import HostDriver
from .nativememory import NativeMemory
from .nativestreams import NativeStreams

if TYPE_CHECKING:
    import torch

_SHARE_OF_HOST = 0.9  # of main memory, for all virtual GPUs together, unless the user gives each a size


class VirtualDriver(HostDriver):
    """A GPU in host memory, down to the dispatcher."""

    name = "virtual"
    device_type = "cuda"
    label = "virtual GPU, CUDA compatible"
    integrated = 0

    @functools.cached_property
    def native(self) -> ModuleType:
        """The compiled device, installed in this process."""
        from ..native import build

        module = build.load("cuda", build=self.settings.build)
        if not module.device_count():
            module.install(self._count, [self._limit()] * self._count)
        return module

    def _limit(self) -> int:
        import psutil

        if self.settings.memory is not None:
            return self.settings.memory
        return int(psutil.virtual_memory().total * _SHARE_OF_HOST) // max(1, self._count)

    def prepare(self) -> None:
        """Register the device with torch."""
        if self._count:
            self.native.device_count()

    def enable_compiler(self) -> Callable[[], None]:
        """Have ``torch.compile`` compile graphs of this device; what is returned takes that back."""
        from ..native import inductor

        return inductor.enable(self.native)

    @functools.cached_property
    def streams(self) -> NativeStreams:
        """The device's streams."""
        return NativeStreams(self.native, self._count)

    @functools.cached_property
    def memory(self) -> NativeMemory:
        """The device's memory."""
        return NativeMemory(self.native, self._count)

    def initialize(self) -> None:
        """Bring the device up: from here on a forked child may not use it."""
        super().initialize()
        self.native.mark_used()

    def in_bad_fork(self) -> bool:
        """Whether this process was forked from one that had used the device."""
        return super().in_bad_fork() or ("native" in self.__dict__ and self.native.in_bad_fork())

    def current_device(self) -> int:
        """The calling thread's current device, as torch's C++ keeps it."""
        return self.native.get_device()

    def set_device(self, index: int) -> None:
        """Make ``index`` the calling thread's current device."""
        self.native.set_device(self.check(index))

    def generators(self) -> tuple[torch.Generator, ...]:
        """Generators with CUDA's state: a seed and an offset."""
        return tuple(self.native.default_generator(index) for index in range(self._count))

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Restore a generator."""
        generator.set_state(state)
