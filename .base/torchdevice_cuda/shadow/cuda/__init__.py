"""CUDA as the program sees it, answered by the driver that stands in for the GPU.

Initialisation is lazy: importing and asking whether a device is there costs nothing; the first call that needs the
device brings it up.
"""

import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NewType, Optional

import torch
import torch._C
from torch._utils import _dummy_type, _LazySeedTracker, classproperty
from torch.types import Device

from torchdevice_cuda.drivers import active
from torchdevice_cuda.drivers.errors import bad_fork
from torchdevice_cuda.shadow.nvidia import DEVICE_REQUIREMENT
from torchdevice_cuda.shadow.nvidia import RELEASES as PYTORCH_RELEASES_CODE_CC

from . import gds
from ._utils import _get_device_index
from .graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from .green_contexts import GreenContext
from .streams import Event, ExternalStream, Stream

_cudart = torch._C._cudart
_initialized = False
_tls = threading.local()
_initialization_lock = threading.Lock()
_queued_calls: list[tuple[Callable[[], None], list[str]]] = []
_is_in_bad_fork = torch._C._cuda_isInBadFork
_lazy_seed_tracker = _LazySeedTracker()

_POOL_HANDLE = NewType("_POOL_HANDLE", tuple[int, int])
_CudaDeviceProperties = torch._C._CudaDeviceProperties
_get_device_properties = torch._C._get_device_properties
_exchange_device = torch._C._cuda_exchangeDevice
_maybe_exchange_device = torch._C._cuda_maybeExchangeDevice

has_half: bool = True
has_magma: bool = torch._C._has_magma

default_generators: tuple[torch._C.Generator] = ()

AcceleratorError = getattr(torch._C, "AcceleratorError", RuntimeError)
OutOfMemoryError = torch._C.OutOfMemoryError


# ---------------------------------------------------------------------- availability
def _is_compiled() -> bool:
    """Whether torch has the CUDA functions: it does, the driver's."""
    return hasattr(torch._C, "_cuda_getDeviceCount")


def _nvml_based_avail() -> bool:
    """Whether the user asked to look for devices through NVML, which does not bring them up; nothing here does."""
    import os

    return os.getenv("PYTORCH_NVML_BASED_CUDA_CHECK") == "1"


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def device_count() -> int:
    """How many devices there are."""
    return active().device_count()


def is_bf16_supported(including_emulation: bool = True):
    """Whether the current device computes in bfloat16: natively from capability 8.0, else as the host does."""
    if not is_available():
        return False
    if get_device_properties(current_device()).major >= 8:
        return True
    return including_emulation and active().emulates_bf16()


def is_tf32_supported() -> bool:
    """Whether the current device has TF32: from capability 8.0."""
    return is_bf16_supported(including_emulation=False)


# -------------------------------------------------------------------- initialisation
def is_initialized():
    """Whether this process has brought the device up."""
    return _initialized and not _is_in_bad_fork()


def _lazy_call(callable, **kwargs):
    """Call a function now if the device is up, else when it is; seeds replace earlier seeds."""
    with _initialization_lock:
        if is_initialized():
            callable()
        elif kwargs.get("seed_all", False):
            _lazy_seed_tracker.queue_seed_all(callable, traceback.format_stack())
        elif kwargs.get("seed", False):
            _lazy_seed_tracker.queue_seed(callable, traceback.format_stack())
        else:
            _queued_calls.append((callable, traceback.format_stack()))


def _check_capability():
    """Whether the device can run the code: the host runs its own."""


def _check_cubins():
    """Whether there is code for the device: the host brings its own."""


class DeferredCudaCallError(Exception):
    """A call made before initialisation failed when the device was brought up."""


def init():
    """Bring the device up, as the first call that needs it does; does nothing if it is up."""
    _lazy_init()


def _lazy_init():
    """Bring the device up if it is not, and make the calls that waited for it."""
    global _initialized, default_generators
    if is_initialized() or hasattr(_tls, "is_initializing"):
        return
    with _initialization_lock:
        if is_initialized():
            return
        if _is_in_bad_fork():
            raise bad_fork()
        torch._C._cuda_init()
        default_generators = active().generators()
        # The waiting calls may come back here on this thread; the lock keeps every other thread out meanwhile.
        _tls.is_initializing = True
        _queued_calls.extend(call for call in _lazy_seed_tracker.get_calls() if call)
        try:
            for call, made_at in _queued_calls:
                try:
                    call()
                except Exception as error:
                    raise DeferredCudaCallError(
                        f"CUDA call failed lazily at initialization with error: {error}\n\n"
                        f"CUDA call was originally invoked at:\n\n{''.join(made_at)}"
                    ) from error
        finally:
            del _tls.is_initializing
        _initialized = True


def cudart():
    """The CUDA runtime's functions, as a module. Initialises the device."""
    _lazy_init()
    return _cudart


class cudaStatus:
    """Two of the runtime's codes."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """An error of the CUDA runtime, by its code."""

    def __init__(self, code: int) -> None:
        text = _cudart.cudaGetErrorString(_cudart.cudaError(code))
        super().__init__(f"{text} ({code})")


def check_error(res: int) -> None:
    """Raise :class:`CudaError` unless a runtime call succeeded."""
    if res != _cudart.cudaError.success:
        raise CudaError(res)


# ---------------------------------------------------------------------------- devices
class _DeviceGuard:
    """Makes a device current in a block; for compiled code."""

    def __init__(self, index: int):
        self.idx = index
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = torch.cuda._exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        self.idx = torch.cuda._maybe_exchange_device(self.prev_idx)
        return False


class device:
    """Makes a device current in a block.

    Args:
        device: the device; ``None`` and negative indices change nothing.
    """

    def __init__(self, device: Any):
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = torch.cuda._exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        self.idx = torch.cuda._maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Makes the device of a tensor or storage current in a block; changes nothing for one on the CPU."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def current_device() -> int:
    """The index of the calling thread's current device."""
    _lazy_init()
    return torch._C._cuda_getDevice()


def set_device(device: Device) -> None:
    """Make a device the calling thread's current one; negative indices change nothing."""
    device = _get_device_index(device)
    if device >= 0:
        _lazy_init()
        torch._C._cuda_setDevice(device)


def get_device_name(device: Device = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The compute capability of a device, major and minor."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_device_properties(device: Device = None) -> _CudaDeviceProperties:
    """The properties of a device."""
    _lazy_init()
    device = _get_device_index(device, optional=True)
    if device < 0 or device >= device_count():
        raise AssertionError("Invalid device id")
    return _get_device_properties(device)


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device reads another's memory directly."""
    _lazy_init()
    device = _get_device_index(device, optional=True)
    peer_device = _get_device_index(peer_device)
    if device < 0 or device >= device_count():
        raise AssertionError("Invalid device id")
    if peer_device < 0 or peer_device >= device_count():
        raise AssertionError("Invalid peer device id")
    return torch._C._cuda_canDeviceAccessPeer(device, peer_device)


def get_arch_list() -> list[str]:
    """The architectures there is code for: those of the devices."""
    return (torch._C._cuda_getArchFlags() or "").split()


def get_gencode_flags() -> str:
    """The same as flags of NVIDIA's compiler."""
    pairs = (architecture.split("_") for architecture in get_arch_list())
    return " ".join(f"-gencode compute=compute_{number},code={kind}_{number}" for kind, number in pairs)


def synchronize(device: Device = None) -> None:
    """Wait for all work of a device."""
    _lazy_init()
    with torch.cuda.device(device):
        return torch._C._cuda_synchronize()


def ipc_collect():
    """Release memory shared with processes that have ended."""
    _lazy_init()
    return torch._C._cuda_ipc_collect()


def current_blas_handle():
    """A handle of the BLAS library in use by the calling thread."""
    _lazy_init()
    return torch._C._cuda_getCurrentBlasHandle()


def current_solver_handle():
    """A handle of the solver library in use by the calling thread."""
    _lazy_init()
    return torch._C._cuda_getCurrentSolverHandle()


def _sleep(cycles):
    """Keep the current stream busy for this many cycles of the device."""
    torch._C._cuda_sleep(cycles)


_SYNC_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Say what a call that synchronises does: nothing (``"default"``, 0), ``"warn"`` (1), ``"error"`` (2)."""
    _lazy_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG_MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _SYNC_DEBUG_MODES[debug_mode]
    torch._C._cuda_set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """What a call that synchronises does, as a number."""
    _lazy_init()
    return torch._C._cuda_get_sync_debug_mode()


# ---------------------------------------------------------------------------- streams
class StreamContext:
    """Makes a stream current in a block, on its own device; ``None`` changes nothing."""

    cur_stream: Optional["torch.cuda.Stream"]

    def __init__(self, stream: Optional["torch.cuda.Stream"]):
        self.stream = stream
        self.idx = _get_device_index(None, True)
        self.src_prev_stream = None
        self.dst_prev_stream = None

    def __enter__(self):
        if self.stream is None or self.idx == -1:
            return
        self.src_prev_stream = torch.cuda.current_stream(None)
        if self.src_prev_stream.device != self.stream.device:
            with device(self.stream.device):
                self.dst_prev_stream = torch.cuda.current_stream(self.stream.device)
        torch.cuda.set_stream(self.stream)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        if self.stream is None or self.idx == -1:
            return
        if self.src_prev_stream.device != self.stream.device:
            torch.cuda.set_stream(self.dst_prev_stream)
        torch.cuda.set_stream(self.src_prev_stream)


def stream(stream: Optional["torch.cuda.Stream"]) -> StreamContext:
    """Make a stream current in a ``with`` block."""
    return StreamContext(stream)


def _set_stream_by_id(stream_id, device_index, device_type):
    """Make the stream with this id the current one."""
    torch._C._cuda_setStream(stream_id=stream_id, device_index=device_index, device_type=device_type)


def set_stream(stream: Stream):
    """Make a stream the calling thread's current one; ``None`` changes nothing."""
    if stream is None:
        return
    _set_stream_by_id(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def _stream(data: tuple[int, int, int]) -> Stream:
    return Stream(stream_id=data[0], device_index=data[1], device_type=data[2])


def current_stream(device: Device = None) -> Stream:
    """The calling thread's current stream on a device."""
    _lazy_init()
    return _stream(torch._C._cuda_getCurrentStream(_get_device_index(device, optional=True)))


def default_stream(device: Device = None) -> Stream:
    """The default stream of a device."""
    _lazy_init()
    return _stream(torch._C._cuda_getDefaultStream(_get_device_index(device, optional=True)))


def get_stream_from_external(data_ptr: int, device: Device = None) -> Stream:
    """A stream that something else made, by its handle."""
    _lazy_init()
    return _stream(torch._C._cuda_getStreamFromExternal(data_ptr, _get_device_index(device, optional=True)))


# --------------------------------------------------------------------------- monitors
def _monitored(device: Device) -> int:
    """The index of a device whose sensors are asked for."""
    _lazy_init()
    return active().check(_get_device_index(device, optional=True))


def _parse_visible_devices() -> list[int] | list[str]:
    """The devices ``CUDA_VISIBLE_DEVICES`` lets this process see."""
    return list(range(device_count()))


def _get_nvml_device_index(device: Device) -> int:
    """The index by which NVML would know a device."""
    return _monitored(device)


def device_memory_used(device: Device = None) -> int:
    """Bytes of a device in use by all processes."""
    return active().memory.in_use(_monitored(device))


def memory_usage(device: Device = None) -> int:
    """Percent of the last sample period in which a device's memory was read or written."""
    return active().memory_utilization(_monitored(device))


def utilization(device: Device = None) -> int:
    """Percent of the last sample period in which a device computed."""
    return active().utilization(_monitored(device))


def temperature(device: Device = None) -> int:
    """The temperature of a device in degrees Celsius."""
    return active().temperature(_monitored(device))


def power_draw(device: Device = None) -> int:
    """The power a device draws, in milliwatts."""
    return active().power_draw(_monitored(device))


def clock_rate(device: Device = None) -> int:
    """The clock of a device in MHz."""
    return active().clock_rate(_monitored(device))


# ----------------------------------------------------------------------- random offsets
def _get_device(device: int | str | torch.device) -> torch.device:
    """A device argument as a ``torch.device``."""
    if isinstance(device, str):
        return torch.device(device)
    if isinstance(device, int):
        return torch.device("cuda", device)
    return device


def _get_generator(device: torch.device) -> torch._C.Generator:
    """The default generator of a device."""
    index = device.index
    return torch.cuda.default_generators[current_device() if index is None else index]


def _set_rng_state_offset(offset: int, device: int | str | torch.device = "cuda") -> None:
    """Move a device's generator to an offset."""
    chosen = _get_device(device)
    _lazy_call(lambda: active().set_state_offset(_get_generator(chosen), offset))


def _get_rng_state_offset(device: int | str | torch.device = "cuda") -> int:
    """How far a device's generator has advanced."""
    _lazy_init()
    return active().state_offset(_get_generator(_get_device(device)))


# ---------------------------------------------------------------------- legacy storages
from torch.storage import _LegacyStorage, _warn_typed_storage_removal  # noqa: E402

from .memory import *  # noqa: E402
from .memory import _use_uvm  # noqa: E402
from .random import *  # noqa: E402


@staticmethod
def _lazy_new(cls, *args, **kwargs):
    """Bring the device up before an object of a legacy class is made."""
    _lazy_init()
    return super(_CudaBase, cls).__new__(cls, *args, **kwargs)


class _CudaBase:
    """What the legacy tensor and storage classes share."""

    is_cuda = True
    is_sparse = False

    def type(self, *args, **kwargs):
        """Convert, on the object's own device."""
        with device(self.get_device()):
            return super().type(*args, **kwargs)

    __new__ = _lazy_new


class _CudaLegacyStorage(_LegacyStorage):
    """A typed storage on the device."""

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        """Refused: a buffer is host memory."""
        _warn_typed_storage_removal()
        raise RuntimeError("from_buffer: Not available for CUDA storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args, **kwargs):
        raise RuntimeError("_new_with_weak_ptr: Not available for CUDA storage")

    @classmethod
    def _new_shared_filename(cls, manager, obj, size, *, device=None, dtype=None):
        raise RuntimeError("_new_shared_filename: Not available for CUDA storage")


def _storage_class(name: str, data_type: "torch.dtype") -> type:
    """The legacy storage class of one data type, registered with torch."""

    def dtype(cls):
        _warn_typed_storage_removal()
        return data_type

    namespace = {
        "__module__": __name__,
        "__doc__": f"A storage of ``{data_type}`` on the device.",
        "dtype": classproperty(dtype),
        "_dtype": classproperty(lambda cls: data_type),
    }
    made = type(name, (_CudaLegacyStorage,), namespace)
    torch._storage_classes.add(made)
    return made


ByteStorage = _storage_class("ByteStorage", torch.uint8)
DoubleStorage = _storage_class("DoubleStorage", torch.double)
FloatStorage = _storage_class("FloatStorage", torch.float)
HalfStorage = _storage_class("HalfStorage", torch.half)
LongStorage = _storage_class("LongStorage", torch.long)
IntStorage = _storage_class("IntStorage", torch.int)
ShortStorage = _storage_class("ShortStorage", torch.short)
CharStorage = _storage_class("CharStorage", torch.int8)
BoolStorage = _storage_class("BoolStorage", torch.bool)
BFloat16Storage = _storage_class("BFloat16Storage", torch.bfloat16)
ComplexDoubleStorage = _storage_class("ComplexDoubleStorage", torch.cdouble)
ComplexFloatStorage = _storage_class("ComplexFloatStorage", torch.cfloat)

del _LegacyStorage
del _CudaLegacyStorage


def _compile_kernel(
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: list | None = None,
    nvcc_options: list | None = None,
):
    """Compiling CUDA C++ takes NVIDIA's compiler and device: refused, by name."""
    raise RuntimeError(
        f"the CUDA C++ kernel {kernel_name!r} cannot be compiled: the {active().name!r} driver of torchdevice_cuda "
        "runs on the host, which has no CUDA compiler to run it with"
    )


from . import amp, jiterator, nvtx, profiler, sparse, tunable  # noqa: E402

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "DoubleTensor",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "ShortStorage",
    "ShortTensor",
    "CUDAGraph",
    "CudaError",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "GreenContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "can_device_access_peer",
    "check_error",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_solver_handle",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "CUDAPluggableAllocator",
    "change_current_allocator",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "jiterator",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "MemPool",
    "use_mem_pool",
    "temperature",
    "power_draw",
    "clock_rate",
    "nccl",
    "nvtx",
    "profiler",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "sparse",
    "stream",
    "streams",
    "synchronize",
    "tunable",
    "utilization",
]
# Names that only some versions of torch have.
__all__ += [name for name in ("MemPoolContext",) if name in globals()]
