"""The ``cpu`` driver: torch.cuda works, tensors are on the CPU and report the CPU."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING

from ..base import Offer
from ..host.driver import HostDriver
from ..host.memory import ProcessMemory
from ..host.streams import HostStreams
from ..recording.driver import RecordingDriver
from ..traits import Trait

if TYPE_CHECKING:
    import torch

    from ...settings import Settings

_CUDA_STATE_BYTES = 16  # a CUDA generator's state: seed, then offset


class CpuDriver(RecordingDriver, HostDriver):
    """The processor as the GPU."""

    name = "cpu"
    device_type = "cpu"
    unseen_by_reports = (
        "What ran on the GPU, copies, waits and memory are not counted on the cpu driver: its tensors are the CPU's, "
        "and nothing tells them from the program's own. --driver virtual counts."
    )
    traits = Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.REDIRECTS | Trait.HOST_MEMORY | Trait.CPU_TENSORS

    @functools.cached_property
    def streams(self) -> HostStreams:
        """Return streams on the host's clock."""
        return HostStreams(self._count, lambda device: self.facts(device).clock_rate * 1000.0)

    @functools.cached_property
    def memory(self) -> ProcessMemory:
        """Return the memory, created on first use: a program that never queries it does not import psutil."""
        return ProcessMemory(self._count, self.memory_of_each)

    def start(self) -> None:
        """Start counting "allocated" memory."""
        self.memory.start()

    @property
    def resident_since(self) -> int | None:
        """Return the baseline, so that other processes see the same figure as the process itself."""
        return self.memory.baseline

    @functools.cached_property
    def _generators(self) -> tuple[torch.Generator, ...]:
        import torch

        made = tuple(torch.Generator() for _ in range(self._count))
        for generator in made:
            generator.manual_seed(torch.default_generator.initial_seed())
        return made

    def generators(self) -> tuple[torch.Generator, ...]:
        """Return separate CPU generators: seeding CUDA does not change the CPU's sequence, as on CUDA."""
        return self._generators

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Restore a CPU generator's state, or start one from the seed and offset of a CUDA state."""
        if state.numel() == generator.get_state().numel():
            generator.set_state(state)
        elif state.numel() in (_CUDA_STATE_BYTES, _CUDA_STATE_BYTES // 2):
            import torch

            words = state.contiguous().view(torch.int64).tolist()
            seed, offset = words[0], (words[1] if len(words) > 1 else 0)
            generator.manual_seed((seed + 0x9E3779B97F4A7C15 * offset) % (1 << 64) if offset else seed)
        else:
            raise RuntimeError("RNG state is wrong size")

    def state_offset(self, generator: torch.Generator) -> int:
        """Raise: a CPU generator has no offset."""
        raise RuntimeError(
            "the 'cpu' driver of torchdevice_cuda draws from a CPU generator, which has a state but no offset; "
            "use --driver virtual"
        )

    def set_state_offset(self, generator: torch.Generator, offset: int) -> None:
        """Set the offset: a CPU generator starts a new sequence from its seed and the offset."""
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        import torch

        seed = generator.initial_seed()
        words = [seed - (1 << 64) if seed >= 1 << 63 else seed, offset]
        self.set_generator_state(generator, torch.tensor(words, dtype=torch.int64).view(torch.uint8))


def offer(settings: Settings, torch_c: ModuleType) -> Offer:
    """Offer the driver as the last resort."""
    return Offer(CpuDriver, "the CPU is always there")
