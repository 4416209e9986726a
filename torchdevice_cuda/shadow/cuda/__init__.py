"""CUDA as the program sees it, answered by the driver that stands in for the GPU.

Initialisation is lazy: importing and asking whether a device is there costs nothing; the first call that needs the
device brings it up.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NewType, NoReturn, Optional

import torch
import torch._C
from torch._utils import _dummy_type, _LazySeedTracker, classproperty
from torch.cuda._utils import _get_device_index
from torch.types import Device

from torchdevice_cuda._compat import accelerator_error
from torchdevice_cuda.drivers import active
from torchdevice_cuda.drivers.errors import bad_fork
from torchdevice_cuda.settings.hidden import is_of
from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings.cudart import _cudart
from torchdevice_cuda.shadow.bindings.device import _cuda_isInBadFork as _is_in_bad_fork
from torchdevice_cuda.shadow.bindings.device import _CudaDeviceProperties, _get_device_properties

# Stock's submodules take from here what ours may not have.
__getattr__ = stock.Rest(globals()).getattr()

from torch.cuda import gds  # noqa: E402
from torch.cuda.graphs import (  # noqa: E402
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from torch.cuda.streams import Event, ExternalStream, Stream  # noqa: E402

_initialized = False
_tls = threading.local()
_initialization_lock = threading.Lock()
_queued_calls: list[tuple[Callable[[], None], list[str]]] = []
_lazy_seed_tracker = _LazySeedTracker()

_POOL_HANDLE = NewType("_POOL_HANDLE", tuple[int, int])
_exchange_device = torch._C._cuda_exchangeDevice
_maybe_exchange_device = torch._C._cuda_maybeExchangeDevice

has_half: bool = True
has_magma: bool = True

default_generators: tuple[torch._C.Generator, ...] = ()

AcceleratorError = accelerator_error()
OutOfMemoryError = torch._C.OutOfMemoryError


# ---------------------------------------------------------------------- availability
def _is_compiled() -> bool:
    """Whether torch has the CUDA functions: it does, the driver's."""
    return hasattr(torch._C, "_cuda_getDeviceCount")


def _nvml_based_avail() -> bool:
    """Whether the user asked to look for devices through NVML, which does not bring them up; nothing here does."""
    return os.getenv("PYTORCH_NVML_BASED_CUDA_CHECK") == "1"


def is_available() -> bool:
    """Whether there is a device. Unless NVML is to be asked, a process that is forked later cannot use it."""
    if is_of(sys._getframe(1).f_globals.get("__name__"), active().settings.hide_from):
        return False  # what this library chooses for CUDA cannot run here
    if _nvml_based_avail() and torch.cuda._device_count_nvml() >= 0:
        return device_count() > 0
    return torch._C._cuda_getDeviceCount() > 0


def device_count() -> int:
    """How many devices there are."""
    return active().device_count()


def is_bf16_supported(including_emulation: bool = True) -> bool:
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
def is_initialized() -> bool:
    """Whether this process has brought the device up."""
    return _initialized and not _is_in_bad_fork()


def _lazy_call(callable: Callable[[], None], **kwargs: bool) -> None:
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


class DeferredCudaCallError(Exception):
    """A call made before initialisation failed when the device was brought up."""


def init() -> None:
    """Bring the device up, as the first call that needs it does; does nothing if it is up."""
    _lazy_init()


def _lazy_init() -> None:
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


def cudart() -> ModuleType:
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

    def __enter__(self) -> None:
        self.prev_idx = torch.cuda._exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> Literal[False]:
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

    def __enter__(self) -> None:
        self.prev_idx = torch.cuda._exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> Literal[False]:
        self.idx = torch.cuda._maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Makes the device of a tensor or storage current in a block; changes nothing for one on the CPU."""

    def __init__(self, obj: "torch.Tensor | torch.UntypedStorage | torch.TypedStorage"):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def current_device() -> int:
    """The index of the calling thread's current device."""
    _lazy_init()
    return torch._C._cuda_getDevice()


def set_device(device: Device) -> None:
    """Make a device the calling thread's current one; negative indices change nothing."""
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        torch._C._cuda_setDevice(index)


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
    index = _get_device_index(device, optional=True)
    if index < 0 or index >= device_count():
        raise AssertionError("Invalid device id")
    return _get_device_properties(index)


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device reads another's memory directly."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    peer = _get_device_index(peer_device)
    if index < 0 or index >= device_count():
        raise AssertionError("Invalid device id")
    if peer < 0 or peer >= device_count():
        raise AssertionError("Invalid peer device id")
    return torch._C._cuda_canDeviceAccessPeer(index, peer)


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
    # A tensor on what stands for CUDA may say so, to torch's own code at least.
    if isinstance(device, torch.device) and device.type == active().device_type:
        device = device.index
    with torch.cuda.device(device):
        return torch._C._cuda_synchronize()


def ipc_collect() -> None:
    """Release memory shared with processes that have ended."""
    _lazy_init()
    return torch._C._cuda_ipc_collect()


def current_blas_handle() -> int:
    """A handle of the BLAS library in use by the calling thread."""
    _lazy_init()
    return torch._C._cuda_getCurrentBlasHandle()


def current_solver_handle() -> int:
    """A handle of the solver library in use by the calling thread."""
    _lazy_init()
    return torch._C._cuda_getCurrentSolverHandle()


def _sleep(cycles: int) -> None:
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
        self.src_prev_stream: torch.cuda.Stream | None = None
        self.dst_prev_stream: torch.cuda.Stream | None = None

    def __enter__(self) -> None:
        if self.stream is None or self.idx == -1:
            return
        self.src_prev_stream = torch.cuda.current_stream(None)
        if self.src_prev_stream.device != self.stream.device:
            with device(self.stream.device):
                self.dst_prev_stream = torch.cuda.current_stream(self.stream.device)
        torch.cuda.set_stream(self.stream)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        if self.stream is None or self.idx == -1 or self.src_prev_stream is None:
            return
        if self.src_prev_stream.device != self.stream.device and self.dst_prev_stream is not None:
            torch.cuda.set_stream(self.dst_prev_stream)
        torch.cuda.set_stream(self.src_prev_stream)


def stream(stream: Optional["torch.cuda.Stream"]) -> StreamContext:
    """Make a stream current in a ``with`` block."""
    return StreamContext(stream)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    """Make the stream with this id the current one."""
    torch._C._cuda_setStream(stream_id=stream_id, device_index=device_index, device_type=device_type)


def set_stream(stream: Stream) -> None:
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


def _raw_device_count_nvml() -> int:
    """How many devices there are, whatever ``CUDA_VISIBLE_DEVICES`` says."""
    return active().physical_count()


def _raw_device_uuid_nvml() -> list[str] | None:
    """How NVML names them."""
    return active().physical_uuids()


def _get_nvml_device_index(device: Device) -> int:
    """The index by which NVML would know a device."""
    return _monitored(device)


def _get_amdsmi_device_index(device: Device) -> int:
    """The same for AMD's library, which a CUDA build has no use for."""
    return _monitored(device)


def device_memory_used(device: Device = None) -> int:
    """Bytes of a device in use by all processes of the user."""
    index = _monitored(device)
    users = active().users(index)
    users[os.getpid()] = active().memory.in_use(index)  # as this process knows it, told or not
    return sum(users.values())


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
from torch.cuda.memory import *  # noqa: E402
from torch.cuda.random import *  # noqa: E402
from torch.storage import _LegacyStorage, _warn_typed_storage_removal  # noqa: E402


@staticmethod  # type: ignore[misc]
def _lazy_new(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Bring the device up before an object of a legacy class is made; a static method, as stock's is."""
    _lazy_init()
    return super(_CudaBase, cls).__new__(cls, *args, **kwargs)


class _CudaBase:
    """What the legacy tensor and storage classes share."""

    is_cuda = True
    is_sparse = False

    def type(self, *args: Any, **kwargs: Any) -> Any:
        """Convert, on the object's own device."""
        # The class is there to be mixed into tensors and storages, which have these methods.
        this: Any = self
        inherited: Any = super()
        with device(this.get_device()):
            return inherited.type(*args, **kwargs)

    __new__ = _lazy_new


class _CudaLegacyStorage(_LegacyStorage):
    """A typed storage on the device."""

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises: a buffer is host memory."""
        _warn_typed_storage_removal()
        raise RuntimeError("from_buffer: Not available for CUDA storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("_new_with_weak_ptr: Not available for CUDA storage")

    @classmethod
    def _new_shared_filename(
        cls, manager: Any, obj: Any, size: Any, *, device: Any = None, dtype: Any = None
    ) -> NoReturn:
        raise RuntimeError("_new_shared_filename: Not available for CUDA storage")


def _storage_class(name: str, data_type: "torch.dtype") -> type:
    """The legacy storage class of one data type, registered with torch."""

    def dtype(cls: type) -> torch.dtype:
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


from torch.cuda import amp, jiterator, nvtx, profiler, sparse, tunable  # noqa: E402

stock.publish(globals(), ("graphs", "memory", "green_contexts"))
