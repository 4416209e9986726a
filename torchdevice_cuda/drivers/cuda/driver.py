"""The ``cuda`` driver: a real CUDA GPU. torch.cuda stays stock; only the policy acts."""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import TYPE_CHECKING

from ..base import DeviceProperties, Driver, Offer
from ..host.visible import visible_count
from ..memory import Memory
from ..streams import Streams
from ..traits import Trait

if TYPE_CHECKING:
    import torch

    from ...settings import Settings

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_MANY = 64  # more GPUs than any machine has


class CudaDriver(Driver):
    """Real CUDA: stock torch.cuda answers all queries, and the shadow modules are not served."""

    name = "cuda"
    device_type = "cuda"
    unseen_by_reports = (
        "What ran on the GPU, copies, waits and memory are not counted on the cuda driver: the GPU is NVIDIA's, and "
        "torch.profiler tells."
    )
    traits = Trait.REDIRECTS
    redirects_by_default = True

    @property
    def memory(self) -> Memory:
        """Raise: stock torch.cuda has the memory functions."""
        raise RuntimeError("on a real CUDA device torch.cuda itself answers for memory")

    @property
    def streams(self) -> Streams:
        """Raise: stock torch.cuda has the stream functions."""
        raise RuntimeError("on a real CUDA device torch.cuda itself answers for streams")

    def device_count(self) -> int:
        """Return CUDA's device count."""
        import torch

        return torch.cuda.device_count()

    def current_device(self) -> int:
        """Return CUDA's current device."""
        import torch

        return torch.cuda.current_device()

    def set_device(self, index: int) -> None:
        """Set CUDA's current device."""
        import torch

        torch.cuda.set_device(index)

    def in_bad_fork(self) -> bool:
        """Return CUDA's answer."""
        import torch

        return torch.cuda._is_in_bad_fork()

    @functools.lru_cache(maxsize=64)  # noqa: B019 (one driver lives as long as the process)
    def facts(self, index: int) -> DeviceProperties:
        """Return CUDA's own properties."""
        import uuid

        import torch

        found = torch.cuda.get_device_properties(index)
        return DeviceProperties(
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
        """Return CUDA's own generators."""
        import torch

        torch.cuda.init()
        return torch.cuda.default_generators

    def describe(self) -> list[tuple[str, str]]:
        """Describe memory figures as CUDA's."""
        return [("memory figures", "CUDA's caching allocator")]


def offer(settings: Settings, torch_c: ModuleType) -> Offer:
    """Offer the driver if torch is built with CUDA and sees a GPU, or if it was requested with all GPUs hidden."""
    if settings.visible_devices is not None:
        os.environ[_VARIABLE] = settings.visible_devices  # CUDA reads it itself, at its first use
    built = bool(getattr(torch_c, "_has_cuda", False))
    count = getattr(torch_c, "_cuda_getDeviceCount", None)
    devices = count() if built and count is not None else 0
    if devices:
        return Offer(CudaDriver, f"torch sees {devices} CUDA GPU(s)")
    if built and settings.driver == CudaDriver.name and not visible_count(_MANY, settings.visible_devices):
        return Offer(CudaDriver, f"{_VARIABLE} hides every GPU")
    return Offer(None, "no CUDA GPU answers" if built else "this torch is built without CUDA")
