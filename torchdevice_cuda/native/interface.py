"""Types of the compiled module's functions for Python callers: ``csrc/core/bindings`` and those of parts.

A ``device`` is an index; streams are named by ``(device, id)``; a private pool by its two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..report.collecting import Device
from .memory_interface import NativeMemory

if TYPE_CHECKING:
    import torch


#: A call's handler: the function, its arguments, by name too, and the error. ``NotImplemented`` keeps the error.
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any] | None, BaseException | None], Any]


class Rescue(Protocol):
    """Has a handler look at calls in which a C function of torch, a method of one or a type raised; ``None`` ends it.

    ``first``: before each call too, without an error; of a type, before those with one number. Raises TypeError for
    what is no such function.
    """

    def __call__(self, function: Any, handler: Handler | None, first: bool = False) -> None:
        """Begin, go on in another way, or end."""


class NativeEvent(Protocol):
    """An event on the device's timeline."""

    handle: int
    recorded: bool
    name: bytes  #: by which other processes open it; empty if they cannot

    def __init__(self, interprocess: bool = False) -> None:
        """Create one that is not recorded yet; other processes may be allowed to open it."""

    @staticmethod
    def open(name: bytes) -> NativeEvent | int:
        """Return another process's event, or CUDA's code for why it cannot be had."""

    def record(self, device: int, stream: int, external: bool = False) -> None:
        """Complete when all work now in the stream has; if external and captured, whenever the graph is replayed."""

    def block(self, device: int, stream: int, external: bool = False) -> None:
        """Hold later work of the stream until the event completes; the same of a graph."""

    def query(self) -> bool:
        """Return whether it has completed."""

    def synchronize(self) -> None:
        """Wait for it."""

    def elapsed_time(self, end: Any) -> float:
        """Return the milliseconds to another event."""


class NativeGraph(Protocol):
    """Calls that were captured, to be replayed."""

    capturing: bool

    def begin(self, pool_a: int, pool_b: int, mode: int) -> None:
        """Record what the current stream is given; 0 global, 1 thread_local, 2 relaxed."""

    def end(self) -> None:
        """Stop recording; raises what went wrong, and has stopped then, too."""

    def replay(self) -> None:
        """Make the calls again."""

    def reset(self) -> None:
        """Forget them, and let go of the pool."""

    def names(self) -> list[str]:
        """Return the operators, in order."""

    def register_generator(self, generator: torch.Generator) -> None:
        """Count a generator's draws as the graph's."""

    def holds_current_stream(self) -> bool:
        """Return whether the capture began on the thread's current stream."""

    def takes_current_stream(self) -> bool:
        """Return whether the thread's current stream takes part in the capture."""


class Native(NativeMemory, Device, Protocol):
    """The compiled module."""

    __file__: str | None
    device_type: str
    Event: type[NativeEvent]
    Graph: Callable[[], NativeGraph]

    # ------------------------------------------------------------------ devices
    def install(self, device_count: int, memory_limits: list[int]) -> bool:
        """Register everything with torch, once per process; one limit in bytes per device."""

    def load_part(self, part: str) -> None:
        """Load a part other than the core, and build it before if it has to be; BuildError if it may not be."""

    def take_over(self, written: set[str]) -> bool:
        """Put the CPU's kernels before those of CUDA's that libraries brought, if one was loaded since the last call.

        All but those that Python wrote, in the words of ``torch.library``.
        """

    def keep_narrow(self, family: str, type: str) -> None:
        """Leave a family of operators of half precision to the CPU's own kernels; before any operator is called."""

    def device_count(self) -> int:
        """Return the number of installed devices."""

    def in_bad_fork(self) -> bool:
        """Return whether this process was forked from one that had used the device."""

    def mark_used(self) -> None:
        """Mark the device as used: a forked child may not use it afterwards."""

    def mark_context(self, device: int) -> None:
        """Note that something was done on a device."""

    def has_context(self, device: int) -> bool:
        """Return whether this process has done something on a device."""

    def publish_at(self, address: int) -> None:
        """Tell how much of each device is held, in the unsigned 64-bit cells there; 0: tell nobody."""

    def show_devices(self, count: int) -> None:
        """Let so many of the installed devices be seen."""

    def know_written(self, written: set[str]) -> None:
        """Pass the set of kernels written in Python; it is read later."""

    def get_device(self) -> int:
        """Return the thread's current device."""

    def set_device(self, index: int) -> None:
        """Set it."""

    # -------------------------------------------------------------- collectives
    def carried_work(
        self,
        parts: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        finish: Callable[[], None] | None,
        group: int,
        arrives: bool,
    ) -> Any:
        """Work that is done when its parts are and ``finish`` has run; it shows the outputs. Virtual GPU only.

        ``group`` is what :meth:`watch_group` returned, or 0; ``arrives``: it waits for a call of one other rank.
        """

    def count_pending_collectives(self) -> int:
        """Count the collectives of all ranks that were begun and are not done."""

    def use_quick_allreduce(self, slow: str | None) -> None:
        """Have ``c10d::allreduce_`` done without Python where it is plain, and by this operator where it is not."""

    def count_coalescing(self, change: int) -> None:
        """Count one group more, or fewer, that coalesces calls: then none of them is plain."""

    def time_collectives(self, on: bool) -> None:
        """Return whether works that are made from now on say how long they took."""

    def watch_group(
        self,
        backend: Any,
        memory: Any,
        address: int,
        rank: int,
        size: int,
        head: int,
        stride: int,
        ring: int,
        text: int,
        text_words: int,
    ) -> int:
        """Have plain calls of a group compared with the other ranks', in shared memory; what it is forgotten by."""

    def forget_group(self, backend: int) -> None:
        """End that."""

    def send_tensors(self, on: bool) -> None:
        """Return whether ``torch.distributed.rpc`` takes the device's tensors. Missing if PyTorch has no TensorPipe."""

    # ---------------------------------------------------------- between processes
    def send_storage(self, storage: int) -> tuple[Any, ...]:
        """Return the eight values of ``_share_cuda_``, by which another process maps the storage at an address."""

    def receive_storage(self, *sent: Any) -> torch.UntypedStorage | int:
        """Return the storage that those eight values tell of, or CUDA's code for why it cannot be had."""

    def release_counter(self, counter: bytes, offset: int) -> None:
        """Let go of a storage that was sent, without having mapped it."""

    def collect_sent(self) -> bool:
        """Give back memory that was sent and that nobody holds any more; whether there was some."""

    # ------------------------------------------------------------------ streams
    def stream_new(self, device: int, priority: int) -> int:
        """Return the next stream of the pool."""

    def stream_current(self, device: int) -> int:
        """Return the thread's current stream."""

    def stream_set(self, device: int, stream: int) -> int:
        """Set it; the one before."""

    def stream_query(self, device: int, stream: int) -> bool:
        """Return whether all its work is done."""

    def stream_synchronize(self, device: int, stream: int) -> None:
        """Wait for its work."""

    def stream_capture_status(self, device: int, stream: int) -> int:
        """0: nothing is captured on it; 1: something is; 2: that has failed."""

    def stream_priority(self, device: int, stream: int) -> int:
        """Return its priority."""

    def stream_handle(self, device: int, stream: int) -> int:
        """Return its handle."""

    def synchronize(self, device: int) -> None:
        """Wait for all streams of a device."""

    def watch_synchronization(self, mode: int) -> None:
        """Warn (1) of operators that wait for the device, or have them fail (2); 0 ends it."""

    def sleep(self, cycles: int, device: int) -> None:
        """Keep the current stream busy."""

    # ------------------------------------------------------------------- graphs
    def captures_underway(self) -> bool:
        """Return whether a graph is being captured, on whatever stream."""

    def begin_foreign_call(self, device: int, memory: list[tuple[int, int]]) -> bool:
        """Begin to record a call of somebody else's code over this memory, addresses and sizes; false: no capture."""

    def end_foreign_call(self, device: int, again: Callable[[], object] | None) -> None:
        """End the call; ``again`` repeats it in a replay, ``None`` if it failed."""

    # ---------------------------------------------------------------- profilers
    def is_profiled(self) -> bool:
        """Return whether what the device does is being written down."""

    def describe_devices(self, properties: str) -> None:
        """Return the devices for traces: JSON objects, separated by commas."""

    def pause_profiling(self, paused: bool) -> None:
        """Stop writing down what the device does, or go on, in a profile that runs."""

    ForeignWork: Callable[[str, int], AbstractContextManager[None]]  #: a stretch of work of a device's, by its name

    # ------------------------------------------------------------- torch's functions
    rescue: Rescue

    # ------------------------------------------------------------------- random
    def default_generator(self, device: int) -> torch.Generator:
        """Return the device's own generator."""

    def next_seed(self, device: int, count: int = 1) -> int:
        """Return a seed drawn from it."""

    def set_capability(self, major: int, minor: int, cudnn: int) -> None:
        """Set the reported compute capability and cuDNN's version, on which the fused attention kernels depend."""

    def takes_attention(
        self,
        kernel: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        dropout: float,
        causal: bool,
        gqa: bool,
        debug: bool,
    ) -> bool:
        """Return whether a fused kernel (an ``SDPBackend`` number) takes these tensors; ``debug`` warns why not."""

    def fail_assertion(self, device: int, place: str, condition: str, cause: str = "") -> None:
        """A kernel's assertion has failed: the line is written to standard error, and the device is lost."""

    def fail_context(self, device: int, code: int, words: str) -> None:
        """A kernel has ended the device's context: the device is lost, and this raises where launches wait."""

    def lost(self, device: int) -> int:
        """Return CUDA's code of why the device is lost; 0 if it is not."""

    def set_multiprocessors(self, count: int, threads: int) -> None:
        """Set the number of multiprocessors and threads on each, on which the numbers of large draws depend."""
