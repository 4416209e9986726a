"""The ``mps`` driver: torch.cuda over the Apple GPU, which it uses through torch.mps."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from ..._compat import named
from ..base import DeviceProperties, Offer
from ..device_properties import apply_settings
from ..host import facts as hostfacts
from ..host.visible import visible_count
from ..installing import install
from ..recording.driver import RecordingDriver
from ..traits import Trait
from . import generator_states, macos, metal
from .memory import Books, MpsMemory
from .streams import MpsStreams

if TYPE_CHECKING:
    import torch

    from ...native.interface import Native, Rescue
    from ...settings import Settings
    from ..loans import Loan

_log = logging.getLogger("torchdevice_cuda")
_TRAITS = Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.REDIRECTS | Trait.PARTIAL | Trait.UNSHARED | Trait.RACING_COPIES
_EMULATED_NAME = "Emulated Apple GPU"
_ALREADY_TRACING = "Tracing Signposts is already enabled"


def emulate(memory: int, build: bool) -> Native:
    """Emulate the Apple GPU with a device in host memory: the same operators, refusals and module."""
    from ...native import build as native_build
    from ...native import half
    from . import emulated_streams, storages

    native: Native = native_build.load("mps", build=build)
    half.settle(native, native_build.origin("mps").notes)
    install(native, "emulated Apple GPU", [memory])
    emulated_streams.complete()
    storages.complete()
    import torch

    # offer() calls it for a real GPU. It initializes Metal: from now on every forked child is a bad one.
    torch._C._mps_is_available()
    return native


def _compiled_calls(build: bool) -> tuple[Rescue | None, str]:
    """Load the library that handles failed torch calls, or return the reason why not: then Python wraps the calls.

    It takes a second to build if nothing else is built; messages about it go to the log.
    """
    from ...native import build as native_build

    try:
        rescue: Rescue = native_build.load("calls", build=build, say=_log.info).rescue
    except native_build.BuildError as error:
        return None, str(error)
    return rescue, ""


class MpsDriver(RecordingDriver):
    """An Apple GPU in place of the CUDA GPU."""

    name = "mps"
    device_type = "mps"
    unseen_by_reports = (
        "What ran on the GPU, copies, waits and memory are not counted on the mps driver: its kernels are PyTorch's "
        "own. What left the GPU is counted."
    )
    redirects_by_default = True

    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(settings, reason)
        self._count = visible_count(1, settings.visible_devices)
        self._native: Native | None = None
        self._books: Books | None = None
        self._rescue: Rescue | None = None
        self._why_none = "torch is not complete"
        self._shown: Callable[[torch.Generator], torch.Generator] | None = None
        self.traits = _TRAITS
        if settings.identity == "cuda":
            self.traits |= Trait.DISGUISED
        if settings.emulate_mps:
            self.traits |= Trait.NATIVE

    @property
    def native(self) -> Native | None:
        """Return the compiled device, if the Apple GPU is emulated."""
        return self._native

    @property
    def rescue(self) -> Rescue | None:
        """Return the function of a separate library, as a real Apple GPU has no compiled device."""
        return self._rescue

    def prepare(self) -> None:
        """Install the emulated device if requested; get torch's own statistics functions before they are patched."""
        self._books = Books.of_torch()
        self._rescue, self._why_none = _compiled_calls(self.settings.build)
        if self.settings.emulate_mps:
            self._native = emulate(self.settings.memory or metal.main_memory_share() or 1 << 33, self.settings.build)

    @functools.cached_property
    def streams(self) -> MpsStreams:
        """Return CUDA's streams over the GPU's only queue."""
        return MpsStreams(self._count, lambda device: self.facts(device).clock_rate * 1000.0)

    @functools.cached_property
    def memory(self) -> MpsMemory:
        """Return the device's memory, created on first use, when torch is complete."""
        return MpsMemory(self._count, self.settings.memory, self._books)

    def loan(self) -> Loan:
        """Return a loan of the GPU's memory, in place if torch's allocator makes shared buffers."""
        from ..loans import Loan
        from .storages import find_alias

        return Loan(find_alias, self.streams.drain)

    def device_count(self) -> int:
        """Return one, or zero if the program may not see it."""
        return self._count

    def in_bad_fork(self) -> bool:
        """Return whether this process was forked from one that had used the GPU."""
        ask = named("torch._C._mps_is_in_bad_fork")
        return super().in_bad_fork() or (ask is not None and bool(ask()))

    def utilization(self, device: int) -> int:
        """Return the GPU driver's figure for all programs together; the emulated GPU is the host."""
        found = self._load(device) if self.settings.emulate_mps else metal.utilization()
        return super().utilization(device) if found is None else found

    def memory_utilization(self, device: int) -> int:
        """Return the utilization: nothing computes without memory, and there is no other figure."""
        return self.utilization(device)

    @functools.lru_cache(maxsize=1)  # noqa: B019 (one driver lives as long as the process)
    def facts(self, index: int) -> DeviceProperties:
        """Return Metal's properties of the GPU with CUDA's names: a core is a multiprocessor."""
        gpu = metal.gpu()
        name = _EMULATED_NAME if self.settings.emulate_mps else gpu.name
        real = DeviceProperties(
            name=f"{name} (CUDA compatible)",
            total_memory=self.memory.total(),
            multi_processor_count=gpu.cores,
            uuid=gpu.uuid,
            clock_rate=hostfacts.clock_khz(),
            L2_cache_size=metal.l2_cache(),
            pci_bus_id=index,
            is_integrated=int(gpu.unified_memory),
            shared_memory_per_block=gpu.threadgroup_memory,
            shared_memory_per_block_optin=gpu.threadgroup_memory,
            shared_memory_per_multiprocessor=gpu.threadgroup_memory,
        )
        # A GPU model does not change the memory here: the GPU cannot have more than it has.
        return apply_settings(real, self.settings)

    def describe(self) -> list[tuple[str, str]]:
        """Add how refusals are handled: without a compiled library each call costs 0.1 us more."""
        watched = "by compiled code" if self._rescue is not None else f"by Python: {self._why_none}"
        return [*super().describe(), ("refusals are met", watched)]

    # ------------------------------------------------------------------- profiler
    def trace(self, on: bool) -> None:
        """Make torch emit a signpost for every operation on the GPU, which Instruments records; or stop that.

        Starting twice is no error on CUDA; torch.mps refuses it, also after PYTORCH_MPS_TRACE_SIGNPOSTS has started it.
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
        """Return torch.mps's own generator, so that seeding either seeds both."""
        import torch

        generator = torch._C._mps_get_default_generator()
        return (generator if self._shown is None else self._shown(generator),) * self._count

    def show_generators_as(self, shown: Callable[[torch.Generator], torch.Generator]) -> Callable[[], None]:
        """Replace the default generator that the program sees."""

        def end() -> None:
            self._shown = None

        self._shown = shown
        return end

    def state_offset(self, generator: torch.Generator) -> int:
        """Return a generator's offset in CUDA's units, which differ from torch's."""
        return generator_states.offset(generator)

    def set_state_offset(self, generator: torch.Generator, offset: int) -> None:
        """Set a generator's offset."""
        generator_states.set_offset(generator, offset)

    def generator_state(self, generator: torch.Generator) -> torch.Tensor:
        """Return the state in CUDA's format, which has all that torch's has: a checkpoint can be loaded on either."""
        return generator_states.state(generator)

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Restore a state in either format."""
        generator_states.set_state(generator, state)


def offer(settings: Settings, torch_c: ModuleType) -> Offer:
    """Offer the driver if torch sees an Apple GPU, or if one is emulated."""
    if settings.emulate_mps:
        from ...native import build

        try:
            build.load("mps", build=settings.build)
        except build.BuildError as error:
            return Offer(None, str(error), is_fault=True)
        return Offer(MpsDriver, "TORCHDEVICE_EMULATE_MPS=1: a device in host memory answers as the Apple GPU")
    torch_version = getattr(sys.modules.get("torch.version"), "__version__", None)
    if macos.is_intel_mac():
        return Offer(None, macos.describe_intel(torch_version), is_fault=True)
    built, available = bool(getattr(torch_c, "_has_mps", False)), getattr(torch_c, "_mps_is_available", None)
    too_old = macos.describe_too_old(torch_version) if built and torch_version is not None else None
    if too_old is not None:  # do not ask torch: Metal's first use may end the process
        return Offer(None, too_old, is_fault=True)
    if built and available is not None and available():
        return Offer(MpsDriver, "torch sees an Apple GPU")
    if not macos.is_apple_silicon():
        return Offer(None, "no Apple GPU answers" if built else "this torch is built without MPS")
    why = (
        "torch.backends.mps.is_available() is False, as in a virtual machine or a session without a GPU"
        if built
        else "this torch is built without MPS: pip install --force-reinstall torch"
    )
    return Offer(None, f"this Mac's GPU is not used, {why}", is_fault=True)
