"""A driver in one file: three devices that are the host's memory, with books of their own. Nobody else knows of it.

A driver is made while torch is being imported: nothing of torch is used before somebody asks the driver.
"""

from __future__ import annotations

import ctypes
import functools
import uuid
from types import ModuleType
from typing import Any

import torch

from torchdevice_cuda.drivers.base import DeviceProperties, Driver, Offer
from torchdevice_cuda.drivers.device_properties import apply_settings
from torchdevice_cuda.drivers.host.streams import HostStreams
from torchdevice_cuda.drivers.memory import Memory, OutOfMemoryObserver, PoolId, Recording
from torchdevice_cuda.drivers.streams import Streams
from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.settings import Settings

DEVICES, TOTAL = 3, 1 << 30


class ToyMemory(Memory):
    """Raw memory alone: what is not asked for by name is not counted."""

    source = "a toy's books"

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[int, Any]] = {}
        self._fractions = [1.0] * DEVICES
        self._observers: list[OutOfMemoryObserver] = []

    def _used(self, device: int) -> int:
        return sum(len(buffer) for on, buffer in self._blocks.values() if on == device)

    def stats(self, device: int) -> dict[str, Any]:
        figure = {"current": self._used(device), "peak": self._used(device), "allocated": 0, "freed": 0}
        names = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
        return {name: {pool: dict(figure) for pool in ("all", "small_pool", "large_pool")} for name in names}

    def reset_peak(self, device: int) -> None: ...

    def reset_accumulated(self, device: int) -> None: ...

    def info(self, device: int) -> tuple[int, int]:
        return TOTAL - self._used(device), TOTAL

    def empty_cache(self, pool: PoolId = (0, 0)) -> None: ...

    def allocate(self, size: int, device: int, stream: int) -> int:
        if size > self.info(device)[0] * self._fractions[device]:
            raise self.out_of_memory(size, device)
        buffer = ctypes.create_string_buffer(size)
        self._blocks[ctypes.addressof(buffer)] = (device, buffer)
        return ctypes.addressof(buffer)

    def release(self, address: int) -> None:
        del self._blocks[address]

    def snapshot(self, pool: PoolId | None = None, with_traces: bool = True) -> dict[str, Any]:
        return {"segments": [], "device_traces": [], "allocator_settings": {}, "external_annotations": []}

    def record_history(self, wanted: Recording) -> None: ...

    def fraction(self, device: int) -> float:
        return self._fractions[device]

    def set_fraction(self, fraction: float, device: int) -> None:
        self._fractions[device] = fraction

    def host_stats(self) -> dict[str, Any]:
        return {}

    def reset_host_peak(self) -> None: ...

    def reset_host_accumulated(self) -> None: ...

    def retain_pool(self, device: int, pool: PoolId) -> None: ...

    def release_pool(self, device: int, pool: PoolId) -> None: ...

    def pool_holders(self, device: int, pool: PoolId) -> int:
        return 0

    def enter_pool(self, device: int, pool: PoolId, every_thread: bool = False) -> None: ...

    def leave_pool(self, device: int, pool: PoolId) -> None: ...

    def on_out_of_memory(self, observer: OutOfMemoryObserver) -> None:
        self._observers.append(observer)

    def out_of_memory(self, size: int, device: int) -> Exception:
        return torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")

    def in_use(self, device: int) -> int:
        return self._used(device)


class ToyDriver(Driver):
    """Tensors on the CPU that CUDA's requests are translated to."""

    name = "toy"
    device_type = "cpu"
    traits = Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.REDIRECTS | Trait.HOST_MEMORY | Trait.CPU_TENSORS

    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(settings, reason)
        self._memory, self._streams = ToyMemory(), HostStreams(DEVICES, lambda device: 1e9)

    @property
    def memory(self) -> Memory:
        return self._memory

    @property
    def streams(self) -> Streams:
        return self._streams

    def device_count(self) -> int:
        return DEVICES

    def facts(self, index: int) -> DeviceProperties:
        return apply_settings(
            DeviceProperties(f"Toy {index}", TOTAL, 1, uuid.UUID(int=index), 1_000_000, 0, index), self.settings
        )

    @functools.cached_property
    def _generators(self) -> tuple[torch.Generator, ...]:
        return tuple(torch.Generator() for _ in range(DEVICES))

    def generators(self) -> tuple[torch.Generator, ...]:
        return self._generators

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        generator.set_state(state)


def offer(settings: Settings, torch_c: ModuleType) -> Offer:
    return Offer(ToyDriver, "it is only a toy")
