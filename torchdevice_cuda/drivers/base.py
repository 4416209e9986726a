"""The driver protocol: the interface through which the shadow modules and the translation core use the device.

A driver implements devices, the current device, streams and events, memory, random generators and forks, and declares
its traits. It does not know modules, patches or the program. Parts that are the same on every host (the current device
of a thread, forks) are implemented here; a driver overrides the rest.
"""

from __future__ import annotations

import abc
import dataclasses
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import monitoring
from . import allocation
from .device_properties import DeviceProperties as DeviceProperties
from .errors import bad_fork, invalid_ordinal
from .memory import Memory
from .streams import Streams
from .traits import Trait

if TYPE_CHECKING:
    import torch

    from ..native.interface import Native, NativeGraph, Rescue
    from ..settings import Settings
    from .loans import Loan


def _marking_children(driver: Driver) -> Callable[[], None]:
    """Return the fork handler that marks a child's device as uninitialized; it holds the driver weakly."""
    reference = weakref.ref(driver)

    def mark() -> None:
        living = reference()
        if living is not None:
            living.needs_init = True

    return mark


@dataclasses.dataclass(frozen=True)
class Offer:
    """A driver's offer on this machine: how to create it, ``None`` if it cannot work, and the reason.

    Some machines have no GPU of a kind; ``is_fault`` means that the driver should work here and does not, which users
    should know.
    """

    make: Callable[[Settings, str], Driver] | None
    reason: str
    is_fault: bool = False


class Driver(abc.ABC):
    """The implementation of the GPU. Its module has a function ``offer(settings, torch_c) -> Offer``."""

    name: str
    #: torch's device type of a "cuda" tensor ("cpu", "mps", "cuda")
    device_type: str
    #: properties of its devices, which select patches
    traits: Trait
    #: whether requests that do not name CUDA are redirected to the accelerator by default
    redirects_by_default: bool = False
    #: why a report has no figures of the devices' work; empty if the compiled device counts it
    unseen_by_reports: str = ""
    #: why ``auto`` did not choose the drivers that it prefers
    passed_over: tuple[str, ...] = ()

    def __init__(self, settings: Settings, reason: str) -> None:
        self.settings = settings
        self.reason = reason
        self._thread = threading.local()
        #: host memory that the program registered with CUDA: address -> bytes
        self.registered_host_memory: dict[int, int] = {}
        self._initialized_by: int | None = None
        self._asked_by: int | None = None
        #: the properties and memory that are published to other processes
        self.publication: monitoring.Publication | None = None
        #: whether the device must be initialized before use: at first, and in a forked child. Hot paths read this flag
        #: instead of comparing process ids.
        self.needs_init = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_marking_children(self))

    # -------------------------------------------------------------------- parts
    @property
    @abc.abstractmethod
    def memory(self) -> Memory:
        """Return the memory of its devices."""

    @property
    @abc.abstractmethod
    def streams(self) -> Streams:
        """Return the streams of its devices."""

    @property
    def can_capture(self) -> bool:
        """Return whether graphs can be captured: whether all work goes through code of torchdevice_cuda."""
        return False

    @property
    def pools_graphs(self) -> bool:
        """Return whether graphs use torchdevice_cuda's memory pools, which can be inspected and freed."""
        return False

    def graph(self) -> NativeGraph | None:
        """Return an empty graph, if graphs are supported."""
        return None

    def loan(self) -> Loan:
        """Return a loan of the devices' memory to one call of host code, where that memory is not the host's."""
        raise NotImplementedError(f"the {self.name!r} driver of torchdevice_cuda lends no memory")

    @property
    def host_gpu(self) -> Native:
        """Return the device in host memory, not seen by the program, whose tensors compiled CUDA C++ takes."""
        raise NotImplementedError(f"the {self.name!r} driver of torchdevice_cuda has no device in host memory")

    @property
    def native(self) -> Native | None:
        """Return the compiled device behind it, for drivers with the trait ``NATIVE``."""
        return None

    @property
    def rescue(self) -> Rescue | None:
        """Return the function that installs handlers of failed torch calls; ``None`` without compiled code."""
        return None if self.native is None else self.native.rescue

    # ------------------------------------------------------------------ devices
    @abc.abstractmethod
    def facts(self, index: int) -> DeviceProperties:
        """Return the properties of device ``index``, which is valid."""

    @abc.abstractmethod
    def device_count(self) -> int:
        """Return the number of devices that the program sees."""

    def physical(self, index: int) -> int:
        """Return the index of a device on the machine: ``CUDA_VISIBLE_DEVICES`` may hide some."""
        return index

    def physical_count(self) -> int:
        """Return the number of the machine's devices, hidden ones included."""
        return self.device_count()

    def physical_uuids(self) -> list[str]:
        """Return the UUIDs of the machine's devices, as NVML reports them."""
        return [self.told(index).uuid for index in range(self.device_count())]

    def told(self, index: int) -> monitoring.Device:
        """Return the properties of a device that are published to other processes."""
        return self.facts(index).to_monitoring_device(self.physical(index))

    @property
    def resident_since(self) -> int | None:
        """Return the process's memory before the first use, if device memory is its resident memory."""
        return None

    def emulates_bf16(self) -> bool:
        """Return whether bfloat16 tensors compute on this device although its capability does not promise it."""
        return True

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Return whether a device reads another's memory directly: all devices of a host do, except their own."""
        return device != peer

    def check(self, index: int) -> int:
        """Return the index if there is such a device; otherwise raise CUDA's error."""
        if not 0 <= index < self.device_count():
            raise invalid_ordinal()
        return index

    def current_device(self) -> int:
        """Return the calling thread's current device."""
        return getattr(self._thread, "device", 0)

    def set_device(self, index: int) -> None:
        """Make ``index`` the calling thread's current device."""
        self._thread.device = self.check(index)

    def exchange_device(self, index: int) -> int:
        """Set the current device and return the one before; a negative index changes nothing and returns -1."""
        if index < 0:
            return -1
        previous = self.current_device()
        if index != previous:  # keeping the device does not use it
            self.set_device(index)
        return previous

    def prepare(self) -> None:  # noqa: B027 (most drivers need nothing)
        """Do the work that needs all of torch: called once when torch is complete, before the patches."""

    # ------------------------------------------------------------- initialization
    def initialize(self) -> None:
        """Initialize the device for this process; raise CUDA's error in a child forked after the parent did so."""
        if self.in_bad_fork():
            raise bad_fork()
        allocation.from_environment()  # invalid settings raise here, as on CUDA
        self._initialized_by = os.getpid()
        self.needs_init = False
        self.start()
        self.publish()

    def start(self) -> None:  # noqa: B027 (most drivers need nothing)
        """Initialize the driver's own parts."""

    def publish(self) -> None:
        """Publish this process's memory to the user's other processes, for ``nvidia-smi``."""
        devices = [dataclasses.asdict(self.told(index)) for index in range(self.device_count())]
        self.publication = monitoring.publish(self.name, devices, self.resident_since)
        if self.publication is None or self.resident_since is not None:
            return
        if self.native is None:
            self.memory.tell = self.publication.hold
        else:
            self.native.publish_at(self.publication.address)
            for index in range(len(devices)):
                self.publication.hold(index, self.memory.in_use(index))

    def withdraw(self) -> None:
        """Stop publishing memory use."""
        if self.publication is not None:
            if self.native is not None:
                self.native.publish_at(0)
            self.publication.withdraw()
            self.publication = None

    def initialized(self) -> bool:
        """Return whether this process has initialized the device."""
        return self._initialized_by == os.getpid()

    def ask(self) -> None:
        """Record that the runtime was queried for its devices, which initializes it: no fork may use it afterwards."""
        if self._asked_by is None:
            self._asked_by = os.getpid()

    def in_bad_fork(self) -> bool:
        """Return whether this process was forked from one that had used the device, or queried the runtime for it."""
        return any(who is not None and who != os.getpid() for who in (self._initialized_by, self._asked_by))

    def has_context(self, device: int) -> bool:
        """Return whether this process has used a device; queries do not count."""
        return self.initialized()

    def use(self, device: int) -> None:  # noqa: B027 (most drivers keep no account of it)
        """Record work on a device, which creates a context there."""

    # --------------------------------------------------------------------- random
    @abc.abstractmethod
    def generators(self) -> tuple[torch.Generator, ...]:
        """Return the default random generator of each device."""

    def show_generators_as(self, shown: Callable[[torch.Generator], torch.Generator]) -> Callable[[], None]:
        """Pass the default generators through a function before the program sees them; the result ends that."""
        return lambda: None

    def state_offset(self, generator: torch.Generator) -> int:
        """Return a generator's offset, in CUDA's units."""
        return generator.get_offset()

    def set_state_offset(self, generator: torch.Generator, offset: int) -> None:
        """Set a generator's offset."""
        generator.set_offset(offset)

    def generator_state(self, generator: torch.Generator) -> torch.Tensor:
        """Return a generator's state, in CUDA's format if possible."""
        return generator.get_state()

    def seed(self, generator: torch.Generator, seed: int | None) -> None:
        """Seed a default generator, with a random seed for ``None``."""
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)

    def set_generator_state(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Restore a generator from ``generator_state()`` of this driver or from a state saved on a CUDA device."""
        generator.set_state(state)

    # ----------------------------------------------------------------- host memory
    def register_host_memory(self, address: int, size: int) -> None:
        """Count the program's own host memory as pinned."""
        self.registered_host_memory[address] = size

    def unregister_host_memory(self, address: int) -> bool:
        """Stop counting memory as pinned; return whether it was."""
        return self.registered_host_memory.pop(address, None) is not None

    # -------------------------------------------------------------------- profiler
    def trace(self, on: bool) -> None:  # noqa: B027 (most drivers have no profiler attached)
        """Let an external profiler start or stop collecting: ``cudaProfilerStart`` and ``cudaProfilerStop``."""

    # -------------------------------------------------------------------- monitors
    def users(self, device: int) -> dict[int, int]:
        """Return the user's processes that hold memory of a device, with the bytes of each."""
        uuid = self.told(device).uuid
        return {each.pid: each.held[uuid] for each in monitoring.processes() if each.held.get(uuid)}

    def _load(self, device: int) -> int:
        """Return the percentage of time in which the device's processes computed, up to that of one device or core."""
        uuid = self.told(device).uuid
        users = [process for process in monitoring.processes() if process.held.get(uuid)]
        measured = monitoring.load.percents(users)
        return min(100, sum(process.find_load(uuid, measured) for process in users))

    def utilization(self, device: int) -> int:
        """Return the percentage of the last sample period in which the device computed."""
        return self._no_sensor("utilization")

    def memory_utilization(self, device: int) -> int:
        """Return the percentage of the last sample period in which the device's memory was read or written."""
        return self._no_sensor("memory_usage")

    def temperature(self, device: int) -> int:
        """Return the temperature in degrees Celsius."""
        return self._no_sensor("temperature")

    def power_draw(self, device: int) -> int:
        """Return the power draw in milliwatts."""
        return self._no_sensor("power_draw")

    def clock_rate(self, device: int) -> int:
        """Return the clock rate in MHz."""
        return self.facts(device).clock_rate // 1000

    def _no_sensor(self, what: str) -> int:
        raise RuntimeError(
            f"torch.cuda.{what}() reads the GPU's sensors through NVML, and the {self.name!r} driver of "
            "torchdevice_cuda has no such sensor; catch RuntimeError"
        )

    # ----------------------------------------------------------------------- info
    def describe(self) -> list[tuple[str, str]]:
        """Return rows for ``--info`` beyond the devices themselves."""
        return [("memory figures", self.memory.source)]
