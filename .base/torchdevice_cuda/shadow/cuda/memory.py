"""Memory of the devices: what is in use, what the peak was, what the limits are, who took what."""

import collections
import contextlib
import ctypes
import pickle
import sys
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import _C
from torch._C import (
    _cuda_beginAllocateCurrentThreadToPool,
    _cuda_beginAllocateToPool,
    _cuda_CUDAAllocator,
    _cuda_endAllocateToPool,
    _cuda_releasePool,
    _MemPool,
)
from torch._utils import _dummy_type
from typing_extensions import deprecated

from torchdevice_cuda._compat import torch_release
from torchdevice_cuda.drivers import active

from . import _get_device_index, _get_nvml_device_index, _lazy_init, is_initialized
from ._memory_viz import memory as _memory
from ._memory_viz import segments as _segments

try:
    from torch._utils import _augment_memory_snapshot_stack_traces
except ImportError:  # before torch 2.10 snapshots carried no FX traces
    _augment_memory_snapshot_stack_traces = None

if TYPE_CHECKING:
    from torch.types import Device

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "get_per_process_memory_fraction",
    "set_per_process_memory_fraction",
    "empty_cache",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "reset_accumulated_host_memory_stats",
    "reset_peak_host_memory_stats",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "memory_snapshot",
    "memory_summary",
    "list_gpu_processes",
    "mem_get_info",
    "get_allocator_backend",
    "CUDAPluggableAllocator",
    "change_current_allocator",
    "MemPool",
    "use_mem_pool",
]


def _host_allocator():
    """The address of the allocator of pinned memory."""
    _lazy_init()
    return torch._C._cuda_cudaHostAllocator()


# ------------------------------------------------------------------------ raw memory
def caching_allocator_alloc(size, device: "Device" = None, stream=None):
    """Take ``size`` bytes of device memory for use outside torch; the address, for :func:`caching_allocator_delete`."""
    device = torch.cuda.current_device() if device is None else _get_device_index(device)
    if stream is None:
        stream = torch.cuda.current_stream(device)
    if isinstance(stream, torch.cuda.streams.Stream):
        stream = stream.cuda_stream
    if not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing a pointer to a "
            "existing stream"
        )
    with torch.cuda.device(device):
        return torch._C._cuda_cudaCachingAllocator_raw_alloc(size, stream)


def caching_allocator_delete(mem_ptr):
    """Free what :func:`caching_allocator_alloc` took."""
    torch._C._cuda_cudaCachingAllocator_raw_delete(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Say whether freed memory may be kept for later use; on by default."""
    if is_initialized():
        torch._C._cuda_cudaCachingAllocator_enable(value)


@contextlib.contextmanager
def caching_allocator_disabled():
    """Keep no freed memory while the block runs."""
    before = torch._C._cuda_cudaCachingAllocator_is_enabled()
    try:
        caching_allocator_enable(False)
        yield
    finally:
        caching_allocator_enable(before)


# ---------------------------------------------------------------------------- limits
def set_per_process_memory_fraction(fraction, device: "Device" = None) -> None:
    """Limit this process to a share, 0 to 1, of a device's memory; past it allocations fail."""
    _lazy_init()
    if device is None:
        device = torch.cuda.current_device()
    device = _get_device_index(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    active().memory.set_fraction(fraction, active().check(device))


def get_per_process_memory_fraction(device: "Device" = None) -> float:
    """The share of a device's memory this process may take; 1.0 where no limit was set."""
    _lazy_init()
    if device is None:
        device = torch.cuda.current_device()
    return active().memory.fraction(active().check(_get_device_index(device)))


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the system."""
    if is_initialized():
        active().memory.empty_cache()


def mem_get_info(device: "Device" = None) -> tuple[int, int]:
    """Free and total bytes of a device."""
    if device is None:
        device = torch.cuda.current_device()
    device = _get_device_index(device, optional=True)
    return torch.cuda.cudart().cudaMemGetInfo(device)


# ------------------------------------------------------------------------ statistics
def _flatten(prefix: str, value: Any, into: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else key, inner, into)
    else:
        into.append((prefix, value))
    return into


def _flat(nested: dict[str, Any]) -> dict[str, Any]:
    """A nested dictionary of statistics under dotted names, sorted."""
    return collections.OrderedDict(sorted(_flatten("", nested, [])))


def memory_stats(device: "Device" = None) -> dict[str, Any]:
    """A device's memory statistics under dotted names, such as ``allocated_bytes.all.peak``."""
    return _flat(memory_stats_as_nested_dict(device=device))


def memory_stats_as_nested_dict(device: "Device" = None) -> dict[str, Any]:
    """A device's memory statistics as nested dictionaries; empty before the device is in use."""
    if not is_initialized():
        return {}
    return torch._C._cuda_memoryStats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: "Device" = None) -> None:
    """Start the sums of allocated and freed memory, and the count of failures, from zero."""
    torch._C._cuda_resetAccumulatedMemoryStats(_get_device_index(device, optional=True))


def reset_peak_memory_stats(device: "Device" = None) -> None:
    """Start the peaks from the present figures."""
    torch._C._cuda_resetPeakMemoryStats(_get_device_index(device, optional=True))


def host_memory_stats() -> dict[str, Any]:
    """Statistics of pinned host memory under dotted names."""
    return _flat(host_memory_stats_as_nested_dict())


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Statistics of pinned host memory as nested dictionaries; empty before the device is in use."""
    return torch._C._cuda_hostMemoryStats() if is_initialized() else {}


def reset_accumulated_host_memory_stats() -> None:
    """Start the sums of pinned host memory from zero."""
    return torch._C._cuda_resetAccumulatedHostMemoryStats()


def reset_peak_host_memory_stats() -> None:
    """Start the peaks of pinned host memory from the present figures."""
    return torch._C._cuda_resetPeakHostMemoryStats()


@deprecated(
    "torch.cuda.reset_max_memory_allocated now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak "
    "memory stats.",
    category=FutureWarning,
)
def reset_max_memory_allocated(device: "Device" = None) -> None:
    """Old name of :func:`reset_peak_memory_stats`."""
    return reset_peak_memory_stats(device=device)


@deprecated(
    "torch.cuda.reset_max_memory_cached now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory "
    "stats.",
    category=FutureWarning,
)
def reset_max_memory_cached(device: "Device" = None) -> None:
    """Old name of :func:`reset_peak_memory_stats`."""
    return reset_peak_memory_stats(device=device)


def memory_allocated(device: "Device" = None) -> int:
    """Bytes now held by tensors on a device."""
    return memory_stats(device=device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: "Device" = None) -> int:
    """The most bytes tensors have held on a device since the start or the last reset."""
    return memory_stats(device=device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: "Device" = None) -> int:
    """Bytes now taken from a device, in use or kept for reuse."""
    return memory_stats(device=device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: "Device" = None) -> int:
    """The most bytes taken from a device since the start or the last reset."""
    return memory_stats(device=device).get("reserved_bytes.all.peak", 0)


@deprecated("`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`", category=FutureWarning)
def memory_cached(device: "Device" = None) -> int:
    """Old name of :func:`memory_reserved`."""
    return memory_reserved(device=device)


@deprecated(
    "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`", category=FutureWarning
)
def max_memory_cached(device: "Device" = None) -> int:
    """Old name of :func:`max_memory_reserved`."""
    return max_memory_reserved(device=device)


# --------------------------------------------------------------------------- printing
_WIDTH = 75
_SIZES = ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = (" ", "K", "M")
_POOLED = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "GPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "GPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)
_SINGLE = (("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize GPU segments"))
_COLUMNS = ("current", "peak", "allocated", "freed")


def _scaled(value: int, scale: int, is_size: bool) -> str:
    """A figure in the unit that suits ``scale``: a row's pools are shown in the unit of their sum."""
    units, limit, base, width = (_SIZES, 768 * 1024, 1024, 6) if is_size else (_COUNTS, 750 * 1000, 1000, 7)
    unit = 0
    while scale >= limit and unit + 1 < len(units):
        value, scale, unit = value // base, scale // base, unit + 1
    return f"{value:{width}d} {units[unit]} "


def memory_summary(device: "Device" = None, abbreviated: bool = False) -> str:
    """The memory statistics as a table; without the pools if ``abbreviated``."""
    device = _get_device_index(device, optional=True)
    stats = memory_stats(device=device)
    pools = [("all", None)] + ([] if abbreviated else [("large_pool", "large"), ("small_pool", "small")])
    rule, double = "-" * _WIDTH, "=" * _WIDTH
    lines = [
        double,
        f"{'':18}PyTorch CUDA memory summary, device ID {device:<17d} ",
        rule,
        f"  {'':9} CUDA OOMs: {stats.get('num_ooms', 0):<12d} | {'':6} "
        f"cudaMalloc retries: {stats.get('num_alloc_retries', 0):<8d}  ",
        double,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for key, title, is_size in _POOLED:
        lines.append(rule)
        scales = [stats.get(f"{key}.all.{column}", 0) for column in _COLUMNS]
        for pool, name in pools:
            label = title if name is None else f"      from {name} pool"
            values = [stats.get(f"{key}.{pool}.{column}", 0) for column in _COLUMNS]
            cells = " | ".join(_scaled(value, scale, is_size) for value, scale in zip(values, scales, strict=True))
            lines.append(f" {label:<21} | {cells} ")
    for key, title in _SINGLE:
        values = [stats.get(f"{key}.{column}", 0) for column in _COLUMNS]
        cells = " | ".join(_scaled(value, value, False) for value in values)
        lines += [rule, f" {title:<21} | {cells} "]
    lines.append(double)
    return "|" + "|\n|".join(lines) + "|\n"


def list_gpu_processes(device: "Device" = None) -> str:
    """The processes that use a device, with their memory: here, this one."""
    import os

    device = _get_device_index(device, optional=True)
    lines = [f"GPU:{device}"]
    if is_initialized():
        used = memory_reserved(device) / (1024 * 1024)
        lines.append(f"process {os.getpid():>10d} uses {used:>12.3f} MB GPU memory")
    else:
        lines.append("no processes are running")
    return "\n".join(lines)


# -------------------------------------------------------------------------- snapshots
def memory_snapshot(mempool_id=None, include_traces=True):
    """The memory of all devices as a list of segments and the blocks in them."""
    pool = (0, 0) if mempool_id is None else tuple(mempool_id[:2])
    return torch._C._cuda_memorySnapshot((*pool, include_traces))["segments"]


def _record_memory_history_legacy(
    enabled: bool,
    record_context=True,
    trace_alloc_max_entries=1,
    trace_alloc_record_context=False,
    device: "Device" = None,
    record_context_cpp=False,
    clear_history=False,
    compile_context=False,
    global_record_annotations=False,
    skip_actions=None,
):
    """The call of old: on or off."""
    _C._cuda_record_memory_history_legacy(
        enabled,
        record_context,
        trace_alloc_max_entries,
        trace_alloc_record_context,
        record_context_cpp,
        clear_history,
        compile_context,
        global_record_annotations,
        skip_actions or [],
    )


def _record_memory_history(enabled: Literal["state", "all"] | None = "all", *args, **kwargs) -> None:
    """Keep a history of allocations (``"all"``), their present state (``"state"``), or nothing (``None``)."""
    if isinstance(enabled, bool):
        return _record_memory_history_legacy(enabled, *args, **kwargs)
    return _record_memory_history_impl(enabled, *args, **kwargs)


def _record_memory_history_impl(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: "Device" = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
):
    """The call of now."""
    _C._cuda_record_memory_history(
        enabled,
        context,
        stacks,
        max_entries,
        clear_history,
        compile_context,
        global_record_annotations,
        skip_actions or [],
    )


_record_memory_history.__signature__ = signature(_record_memory_history_impl)


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """Where a live allocation was made, if that was recorded."""
    return torch._C._cuda_allocationTraceback(data_ptr)


def _snapshot(device: "Device" = None, augment_with_fx_traces=False):
    """Segments, blocks and the recorded history of all devices, as the memory viewers read them."""
    found = _C._cuda_memorySnapshot(None)
    if augment_with_fx_traces and _augment_memory_snapshot_stack_traces is not None:
        found = _augment_memory_snapshot_stack_traces(found)
    return found


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Write :func:`_snapshot` to a file."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _set_memory_metadata(metadata: str):
    """Set a text that is recorded with allocations from now on."""
    torch._C._cuda_setMemoryMetadata(metadata)


def _get_memory_metadata() -> str:
    """The text recorded with allocations."""
    return torch._C._cuda_getMemoryMetadata()


def _save_segment_usage(filename="output.svg", snapshot=None):
    """Draw the segments of a snapshot."""
    with open(filename, "w") as file:
        file.write(_segments(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename="output.svg", snapshot=None):
    """Draw the memory of a snapshot."""
    with open(filename, "w") as file:
        file.write(_memory(_snapshot() if snapshot is None else snapshot))


# -------------------------------------------------------------------------- allocators
@deprecated(
    "torch.cuda._set_allocator_settings is deprecated. Use torch._C._accelerator_setAllocatorSettings instead.",
    category=FutureWarning,
)
def _set_allocator_settings(env: str):
    """Change the allocator's settings, as ``PYTORCH_ALLOC_CONF`` spells them."""
    return torch._C._accelerator_setAllocatorSettings(env)


def get_allocator_backend() -> str:
    """The kind of allocator: ``native``."""
    return torch._C._cuda_getAllocatorBackend()


class _CUDAAllocator:
    """An allocator."""

    def __init__(self, allocator: torch._C._cuda_CUDAAllocator):
        self._allocator = allocator

    def allocator(self):
        """The C object."""
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    """An allocator from a shared library.

    Args:
        path_to_so_file: the library.
        alloc_fn_name: its function ``void* (ssize_t size, int device, cudaStream_t stream)``.
        free_fn_name: its function ``void (void* ptr, size_t size, cudaStream_t stream)``.
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str):
        library = ctypes.CDLL(path_to_so_file)
        addresses = []
        for role, name in (("alloc_fn", alloc_fn_name), ("free_fn", free_fn_name)):
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            if address is None:
                raise AssertionError(f"{role} '{name}' is None")
            addresses.append(address)
        self._allocator = torch._C._cuda_customAllocator(*addresses)


def change_current_allocator(allocator: _CUDAAllocator) -> None:
    """Use another allocator; only before the device has been used."""
    torch._C._cuda_changeCurrentAllocator(allocator.allocator())


def _get_current_allocator() -> _CUDAAllocator:
    """The allocator in use."""
    return _CUDAAllocator(torch._C._cuda_getAllocator())


class MemPool(_MemPool):
    """A pool of memory that allocations can be sent to.

    Args:
        allocator: where the pool takes its memory from; the current allocator if ``None``.
        use_on_oom: whether the pool may serve others when memory runs out.
        no_split: whether its segments stay whole.
    """

    def __init__(
        self,
        allocator: _cuda_CUDAAllocator | None = None,
        use_on_oom: bool = False,
        no_split: bool = False,
    ):
        super().__init__(allocator, True, use_on_oom, no_split)

    @property
    def id(self) -> tuple[int, int]:
        """The pool's id, two integers."""
        return super().id

    def use_count(self) -> int:
        """How many hold the pool."""
        return super().use_count()

    def snapshot(self, include_traces=True):
        """The pool's segments."""
        return torch.cuda.memory_snapshot(self.id, include_traces=include_traces)


if torch_release(torch.__version__) < (2, 8):

    class MemPoolContext:
        """Makes a pool the active one for as long as this object lives; the one before is active again after it."""

        _active: list[MemPool] = []

        def __init__(self, pool: _MemPool):
            self._pool = pool
            MemPoolContext._active.append(pool)

        def __del__(self):
            if self._pool in MemPoolContext._active:
                MemPoolContext._active.remove(self._pool)

        @staticmethod
        def active_pool() -> _MemPool | None:
            """The pool that is active, if there is one."""
            return MemPoolContext._active[-1] if MemPoolContext._active else None

    __all__.append("MemPoolContext")


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: "Device" = None):
    """Send the calling thread's allocations on a device to a pool while the block runs."""
    index = torch.cuda.current_device() if device is None else _get_device_index(device)
    _cuda_beginAllocateCurrentThreadToPool(index, pool.id)
    try:
        yield
    finally:
        _cuda_endAllocateToPool(index, pool.id)
        _cuda_releasePool(index, pool.id)


@contextlib.contextmanager
def _use_uvm(device: "Device" = None):
    """Take allocations from managed memory while the block runs: on the host, all memory is that already."""
    pool = MemPool()
    with use_mem_pool(pool, device=device):
        yield pool
