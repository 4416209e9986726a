"""The ``mps`` driver: torch.cuda over the Apple GPU that torch.mps reaches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from . import hostfacts, metal
from .base import DeviceFacts, Driver
from .mpsmemory import MpsMemory
from .mpsstreams import MpsStreams
from .visible import visible_count

if TYPE_CHECKING:
    import torch

    from ..settings import Settings

_CUDA_STATE_BYTES = 16  # a CUDA generator's state: seed, then offset
_EMULATED_NAME = "Emulated Apple GPU"
_ALREADY_TRACING = "Tracing Signposts is already enabled"


def emulate(memory: int, build: bool) -> ModuleType:
    """Have a device in host memory answer as the Apple GPU: the same operators, the same refusals, the same module."""
    import torch

    from ..native import build as native_build

    native = native_build.load("mps", build=build)
    if not native.device_count():
        native.install(1, [memory])
    torch._C._has_mps = True
    for function in (torch.backends.mps.is_available, torch.backends.mps.is_built):
        getattr(function, "cache_clear", lambda: None)()
    return native


class MpsDriver(Driver):
    """An Apple GPU in the CUDA GPU's place."""

    name = "mps"
    device_type = "mps"
    redirects_by_default = True
    #: the compiled device, where it is an emulated one
    native: ModuleType | None = None
    #: what becomes of a default generator before the program sees it
    shown: Callable[[torch.Generator], torch.Generator] = staticmethod(lambda generator: generator)

    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(settings, reason)
        self._count = visible_count(1, settings.visible_devices)
        self.streams = MpsStreams(self._count, lambda device: self.facts(device).clock_rate * 1000.0)

    def prepare(self) -> None:
        """Put the emulated device in place where one is asked for."""
        if self.settings.emulate_mps:
            self.native = emulate(self.settings.memory or metal.main_memory_share() or 1 << 33, self.settings.build)

    def enable_compiler(self) -> Callable[[], None]:
        """Inductor compiles for Metal by itself; an emulated device has no Metal, and its graphs become C++.

        What is returned takes that back.
        """
        if self.native is None:
            return lambda: None
        from ..native import inductor

        return inductor.enable(self.native)

    @functools.cached_property
    def memory(self) -> MpsMemory:
        """The device's memory; made at first use, when torch is complete."""
        return MpsMemory(self._count, self.settings.memory)

    def device_count(self) -> int:
        """One, unless the program may not see it."""
        return self._count

    def in_bad_fork(self) -> bool:
        """Whether this process was forked from one that had used the GPU."""
        import torch

        ask = getattr(torch._C, "_mps_is_in_bad_fork", None)
        return super().in_bad_fork() or (ask is not None and ask())

    @functools.lru_cache(maxsize=1)  # noqa: B019 (one driver lives as long as the process)
    def facts(self, index: int) -> DeviceFacts:
        """The GPU as Metal describes it, under CUDA's names: a core is a multiprocessor."""
        gpu = metal.gpu()
        name = _EMULATED_NAME if self.settings.emulate_mps else gpu.name
        major, minor = self.settings.capability
        return DeviceFacts(
            name=self.settings.name or f"{name} (CUDA compatible)",
            major=major,
            minor=minor,
            total_memory=self.memory.total(),
            multi_processor_count=gpu.cores,
            uuid=gpu.uuid,
            clock_rate=hostfacts.clock_khz(),
            L2_cache_size=hostfacts.last_level_cache(),
            pci_bus_id=index,
            is_integrated=int(gpu.unified_memory),
            shared_memory_per_block=gpu.threadgroup_memory,
            shared_memory_per_block_optin=gpu.threadgroup_memory,
            shared_memory_per_multiprocessor=gpu.threadgroup_memory,
        )

    # ------------------------------------------------------------------- profiler
    def trace(self, on: bool) -> None:
        """Have torch emit a signpost for every operation on the GPU, which Instruments records; or stop that.

        Starting twice is no error on CUDA; torch.mps refuses it, also where PYTORCH_MPS_TRACE_SIGNPOSTS has started.
        """
        import torch

        if not on:
            torch.mps.profiler.stop()
            return
        try:
            torch.mps.profiler.start()
        except RuntimeError as error:
            if _ALREADY_TRACING not in str(error):
                raise

    # --------------------------------------------------------------------- random
    def generators(self) -> tuple[torch.Generator, ...]:
        """torch.mps's own generator, so that seeding either seeds both."""
        import torch

        return (self.shown(torch._C._mps_get_default_generator()),) * self._count

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Restore a generator's own state, or start it from the seed and offset of a CUDA state."""
        own = generator.get_state().numel()
        if state.numel() == own:
            generator.set_state(state)
        elif state.numel() in (_CUDA_STATE_BYTES, _CUDA_STATE_BYTES // 2):
            import torch

            words = state.contiguous().view(torch.int64).tolist()
            generator.manual_seed(words[0])
            if len(words) > 1 and words[1]:
                generator.set_offset(words[1])
        else:
            raise RuntimeError("RNG state is wrong size")
