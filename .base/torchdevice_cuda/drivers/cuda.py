"""The ``cuda`` driver: a real CUDA GPU answers. torch.cuda stays stock; only the policy acts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from .base import DeviceFacts, Driver

if TYPE_CHECKING:
    import torch


class CudaDriver(Driver):
    """Real CUDA: every question goes to stock torch.cuda, and the shadow tree is not served at all."""

    name = "cuda"
    device_type = "cuda"
    redirects_by_default = True

    def device_count(self) -> int:
        """What CUDA counts."""
        import torch

        return torch.cuda.device_count()

    def current_device(self) -> int:
        """What CUDA says."""
        import torch

        return torch.cuda.current_device()

    def set_device(self, index: int) -> None:
        """Done by CUDA."""
        import torch

        torch.cuda.set_device(index)

    def in_bad_fork(self) -> bool:
        """What CUDA says."""
        import torch

        return torch.cuda._is_in_bad_fork()

    @functools.lru_cache(maxsize=64)  # noqa: B019 (one driver lives as long as the process)
    def facts(self, index: int) -> DeviceFacts:
        """CUDA's own properties."""
        import uuid

        import torch

        found = torch.cuda.get_device_properties(index)
        return DeviceFacts(
            name=found.name,
            major=found.major,
            minor=found.minor,
            total_memory=found.total_memory,
            multi_processor_count=found.multi_processor_count,
            uuid=uuid.UUID(str(found.uuid)),
            clock_rate=getattr(found, "clock_rate", 0),
            L2_cache_size=found.L2_cache_size,
            pci_bus_id=getattr(found, "pci_bus_id", 0),
            is_integrated=found.is_integrated,
        )

    def generators(self) -> tuple[torch.Generator, ...]:
        """CUDA's own generators."""
        import torch

        torch.cuda.init()
        return torch.cuda.default_generators

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Done by the generator."""
        generator.set_state(state)

    def describe(self) -> list[tuple[str, str]]:
        """Memory figures are CUDA's."""
        return [("memory figures", "CUDA's caching allocator")]
