"""Types of the compiled module's functions for Python callers: ``csrc/core/bindings`` and those of parts.

A ``device`` is an index; a stream is identified by ``(device, id)``, a private pool by its two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..report.device import Device
from .memory_interface import NativeMemory

if TYPE_CHECKING:
    import torch


#: A call's handler: the function, its positional and keyword arguments, and the error. ``NotImplemented`` keeps the
#: error.
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any] | None, BaseException | None], Any]


class Rescue(Protocol):
    """Set the handler of calls in which a C function, method or type of torch raises; ``None`` removes it.

    ``first``: call the handler before each call too, without an error; for a type, only before calls with one integer.
    Raises TypeError for other functions.
    """

    def __call__(self, function: Any, handler: Handler | None, first: bool = False) -> None:
        """Set, replace or remove a handler."""


class NativeEvent(Protocol):
    """An event on the device's timeline."""

    handle: int
    recorded: bool
    name: bytes  # by which other processes open it; empty if they cannot

    def __init__(self, interprocess: bool = False) -> None:
        """Create an event that is not recorded yet; other processes may open it if ``interprocess``."""

    @staticmethod
    def open(name: bytes) -> NativeEvent | int:
        """Return another process's event, or CUDA's error code."""

    def record(self, device: int, stream: int, external: bool = False) -> None:
        """Complete when all work now in the stream has; if external and captured, at every replay of the graph."""

    def block(self, device: int, stream: int, external: bool = False) -> None:
        """Delay later work of the stream until the event completes; also in a graph, if external."""

    def query(self) -> bool:
        """Return whether it has completed."""

    def synchronize(self) -> None:
        """Wait for it."""

    def elapsed_time(self, end: Any) -> float:
        """Return the milliseconds to another event."""


class NativeGraph(Protocol):
    """Captured calls that can be replayed."""

    capturing: bool

    def begin(self, pool_a: int, pool_b: int, mode: int) -> None:
        """Record the work of the current stream; mode 0 is global, 1 thread_local, 2 relaxed."""

    def end(self) -> None:
        """Stop recording; raise the capture's error, if any, after it has stopped."""

    def replay(self) -> None:
        """Repeat the calls."""

    def reset(self) -> None:
        """Drop the calls and release the pool."""

    def names(self) -> list[str]:
        """Return the operators, in order."""

    def register_generator(self, generator: torch.Generator) -> None:
        """Add a generator whose draws belong to the graph."""

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
    def install(self, device_count: int, memory_limits: list[int], is_accelerator: bool = True) -> bool:
        """Register everything with torch, once per process; one limit in bytes per device."""

    def load_part(self, part: str) -> None:
        """Load a part other than the core, after building it if needed; raise BuildError if it may not be built."""

    def take_over(self, written: set[str]) -> bool:
        """Replace the CUDA kernels of libraries by CPU kernels, if one was loaded since the last call.

        Kernels written in Python stay; ``written`` has their names as ``torch.library`` spells them.
        """

    def keep_narrow(self, family: str, type: str) -> None:
        """Compute a family of half-precision operators with the CPU's own kernels; call before any operator."""

    def device_count(self) -> int:
        """Return the number of installed devices."""

    def in_bad_fork(self) -> bool:
        """Return whether this process was forked from one that had used the device."""

    def mark_used(self) -> None:
        """Mark the device as used: a forked child may not use it afterwards."""

    def mark_context(self, device: int) -> None:
        """Record that a device was used."""

    def has_context(self, device: int) -> bool:
        """Return whether this process has used a device."""

    def publish_at(self, address: int) -> None:
        """Publish the bytes in use of each device, in the unsigned 64-bit cells at an address; 0 stops it."""

    def show_devices(self, count: int) -> None:
        """Make this many of the installed devices visible."""

    def know_written(self, written: set[str]) -> None:
        """Pass the set of kernels written in Python; it is read later."""

    def get_device(self) -> int:
        """Return the thread's current device."""

    def set_device(self, index: int) -> None:
        """Set the thread's current device."""

    # -------------------------------------------------------------- collectives
    def carried_work(
        self,
        parts: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        finish: Callable[[], None] | None,
        group: int,
        arrives: bool,
    ) -> Any:
        """Return work that is done when its parts are and ``finish`` has run; it shows the outputs. Virtual GPU only.

        ``group`` is the result of :meth:`watch_group`, or 0; ``arrives``: it waits for a call of one other rank.
        """

    def alias_tensors(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return CPU tensors over the same memory, for a collective; observers do not see that they are read."""

    def borrow_tensors(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return device tensors over the memory that tensors have now, which do not keep it alive."""

    def is_observed(self) -> bool:
        """Return whether the order of work is checked or changed, so that observers see collectives."""

    def observe_collective(
        self,
        work: Any,
        device: int,
        stream: int,
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        blocks_host: bool,
    ) -> None:
        """Report the accesses of a work that was just made to observers, on a device's numbered stream for them.

        ``blocks_host``: a wait for it makes the host wait.
        """

    def may_run_later(self) -> bool:
        """Return whether work runs later than it is issued, here and now."""

    def defer_collective(
        self,
        device: int,
        stream: int,
        outputs: Sequence[torch.Tensor],
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        begin: Callable[[], None],
        has_come: Callable[[], bool],
        wait: Callable[[], None],
        finish: Callable[[], None],
        blocks_host: bool,
    ) -> Any:
        """Return work that runs later, on a device's numbered stream: ``begin``, then ``finish`` when data has come."""

    def count_pending_collectives(self) -> int:
        """Count the collectives of all ranks that were begun and are not done."""

    def use_quick_allreduce(self, slow: str | None) -> None:
        """Run plain calls of ``c10d::allreduce_`` without Python, and the others through this operator."""

    def count_coalescing(self, change: int) -> None:
        """Add to the number of groups that coalesce calls: while there are any, no call is plain."""

    def time_collectives(self, on: bool) -> None:
        """Set whether new works measure their duration."""

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
        """Compare plain calls of a group with the other ranks', in shared memory; return the key that ends it."""

    def forget_group(self, backend: int) -> None:
        """Stop comparing a group's calls."""

    def send_tensors(self, on: bool) -> None:
        """Set whether ``torch.distributed.rpc`` takes device tensors. Missing if PyTorch has no TensorPipe."""

    # ---------------------------------------------------------- between processes
    def send_storage(self, storage: int) -> tuple[Any, ...]:
        """Return the eight values of ``_share_cuda_``, with which another process maps the storage at an address."""

    def receive_storage(self, *sent: Any) -> torch.UntypedStorage | int:
        """Return the storage that those eight values describe, or CUDA's error code."""

    def release_counter(self, counter: bytes, offset: int) -> None:
        """Release a storage that was sent, without having mapped it."""

    def collect_sent(self) -> bool:
        """Free memory that was sent and is no longer held; return whether there was any."""

    # ------------------------------------------------------------------ streams
    def stream_new(self, device: int, priority: int) -> int:
        """Return the next stream of the pool."""

    def stream_current(self, device: int) -> int:
        """Return the thread's current stream."""

    def stream_set(self, device: int, stream: int) -> int:
        """Set the thread's current stream and return the previous one."""

    def stream_query(self, device: int, stream: int) -> bool:
        """Return whether all its work is done."""

    def stream_synchronize(self, device: int, stream: int) -> None:
        """Wait for its work."""

    def stream_capture_status(self, device: int, stream: int) -> int:
        """Return 0 if nothing is captured on it, 1 if something is, 2 if the capture is invalid."""

    def stream_priority(self, device: int, stream: int) -> int:
        """Return its priority."""

    def stream_handle(self, device: int, stream: int) -> int:
        """Return its handle."""

    def synchronize(self, device: int) -> None:
        """Wait for all streams of a device."""

    def watch_synchronization(self, mode: int) -> None:
        """Make operators that wait for the device warn (1) or fail (2); 0 ends it."""

    def sleep(self, cycles: int, device: int) -> None:
        """Keep the current stream busy."""

    def run_other_work(self, device: int) -> None:
        """Run what was issued to the current stream, before code that is no operator reads or writes the memory."""

    def start_deferral(self, seed: int) -> None:
        """Run work when something waits for it, in an order that the seed chooses; earlier work runs first."""

    def stop_deferral(self) -> None:
        """Run all work, and later work when it is issued."""

    def read_deferral_counts(self) -> dict[str, tuple[int, int, int]]:
        """Return how many calls of each operator were deferred, ran at once, and returned an unexpected layout."""

    # ------------------------------------------------------------------- graphs
    def captures_underway(self) -> bool:
        """Return whether a graph is being captured, on any stream."""

    def begin_foreign_call(self, device: int, memory: list[tuple[int, int]]) -> bool:
        """Begin to record a call of other code over this memory (addresses, sizes); return false without a capture."""

    def end_foreign_call(
        self, device: int, again: Callable[[], object] | None, name: str = "", pointers: Sequence[int] = ()
    ) -> None:
        """End the call; ``again`` repeats it in a replay, ``None`` if it failed.

        A kernel of the program has a name, and pointers among its arguments.
        """

    # -------------------------------------------------------------------- races
    def find_lines(self, hidden: list[str]) -> None:
        """Find the program's lines; files with these prefixes are not the program's."""

    def check_streams(self, report: Callable[[Mapping[str, Any], bool], type[Exception] | None]) -> None:
        """Compare all accesses of memory from now on, and call this for each race, with whether it may raise.

        Otherwise the type that it returns is raised later.
        """

    def forget_races(self) -> None:
        """Report pairs of lines again that were reported before."""

    # ----------------------------------------------------------------- initcheck
    def fill_new_memory(self, on: bool) -> None:
        """Fill memory that is allocated from now on with canaries, or stop that."""

    # -------------------------------------------------------------------- clock
    def start_clock(self, predict: Any, report: Callable[[str], None], launch_ns: int, gap_ns: int) -> None:
        """Keep the GPU's time from now on: ``predict`` describes a call (``Told`` in ``rehearsal/prediction.py``).

        ``report`` is called with the name of a kernel that has no prediction.
        """

    def stop_clock(self) -> None:
        """Keep the host's time again."""

    def add_work(self, name: str, device: int, ns: int, spent_ns: int, takes_multiprocessors: bool = False) -> None:
        """Add work to the device's current stream; the host spent ``spent_ns`` on simulating it.

        If it takes multiprocessors, kernels of other streams take longer meanwhile.
        """

    def read_clock_counts(self) -> tuple[list[int], int]:
        """Return the calls by the id that ``predict`` returned, and the nanoseconds that computing took here."""

    def set_workspaces(self, blas_bytes: int, blas_lt_bytes: int) -> None:
        """Set the sizes of cuBLAS's workspaces that are allocated from now on."""

    def count_workspaces(self) -> int:
        """Return how many workspaces of cuBLAS are allocated."""

    def clear_workspaces(self) -> None:
        """Free them."""

    # ---------------------------------------------------------------- rehearsal
    def start_rehearsal(self, report: Callable[[str, str], None]) -> None:
        """Compute no large tensors; call ``report(kind, name)`` where something depends on their values."""

    def stop_rehearsal(self) -> None:
        """Compute again."""

    def is_large(self, tensor: torch.Tensor) -> bool:
        """Return whether the memory of a device tensor is never touched."""

    def is_uncomputed(self, tensor: torch.Tensor) -> bool:
        """Return whether the values of a device tensor are not known."""

    def set_computed(self, tensor: torch.Tensor, is_computed: bool) -> None:
        """Note whether all values of a small device tensor are known; unknown ones are filled."""

    # ---------------------------------------------------------------- profilers
    def is_profiled(self) -> bool:
        """Return whether the device's work is being profiled."""

    def describe_devices(self, properties: str) -> None:
        """Set the devices for traces: JSON objects, separated by commas."""

    def pause_profiling(self, paused: bool) -> None:
        """Pause or resume profiling of the device in a running profile."""

    #: a span of work on a device: its name, and the pointers among its arguments
    ForeignWork: Callable[..., AbstractContextManager[None]]

    # ------------------------------------------------------------- torch's functions
    rescue: Rescue

    # ------------------------------------------------------------------- random
    def default_generator(self, device: int) -> torch.Generator:
        """Return the device's own generator."""

    def next_seed(self, device: int, count: int = 1) -> int:
        """Return a seed drawn from the device's generator."""

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
        """Fail an assertion of a kernel: print the line to standard error, and lose the device."""

    def fail_context(self, device: int, code: int, words: str) -> None:
        """Fail the device's context: the device is lost, and this raises if launches are synchronous."""

    def lost(self, device: int) -> int:
        """Return CUDA's error code of a lost device; 0 if it is not lost."""

    def set_multiprocessors(self, count: int, threads: int) -> None:
        """Set the number of multiprocessors and threads on each, on which the numbers of large draws depend."""
