"""The least that lets the compiled device be used: what stock ``torch.cuda`` refuses to do without a GPU is stubbed.

The product's ``torch.cuda`` is another part and is not needed to test this one. Installing a device changes torch for
good: what uses it runs in children, of which these functions are the setup.
"""

from __future__ import annotations

import gc
import sys
from types import ModuleType, SimpleNamespace

from harness import ChildConfig
from harness.places import LACKING

MIB, GIB = 1 << 20, 1 << 30
#: Libraries of kernels, which torch removes with the object.
_libraries: list[object] = []


def use_cuda(devices: int = 1, memory: int = 16 * GIB) -> ModuleType:
    """Installs `devices` virtual GPUs and makes torch.cuda's Python side stand aside; gives the native module."""
    import torch
    from torch import cuda

    from torchdevice_cuda.drivers import cuda_operators
    from torchdevice_cuda.native import build

    native = build.load("cuda")
    assert native.install(devices, [memory] * devices)
    _libraries.append(cuda_operators.register("CUDA", lambda name: True))

    def lazy_init() -> None:
        if native.in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )

    torch.version.cuda = "12.8"
    torch._C._has_cudnn = False  # a CUDA build would load it to ask for its version
    cuda._lazy_init = lazy_init
    cuda._initialized = True
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: True
    cuda.device_count = native.device_count
    cuda.current_device = native.get_device
    cuda.default_generators = tuple(native.default_generator(i) for i in range(devices))
    cuda.is_current_stream_capturing = lambda: False
    cuda.synchronize = lambda device=None: native.synchronize(-1)
    cuda.get_device_capability = lambda device=None: (7, 0)
    cuda.get_device_properties = lambda device=None: SimpleNamespace(
        name="virtual",
        major=7,
        minor=0,
        total_memory=memory,
        multi_processor_count=80,
        regs_per_multiprocessor=65536,
    )
    torch._C._cuda_getDevice = native.get_device
    torch._C._cuda_isInBadFork = native.in_bad_fork
    torch._C._cuda_getCurrentRawStream = lambda index: native.stream_handle(index, native.stream_current(index))
    cuda._exchange_device = native.exchange_device
    cuda._maybe_exchange_device = lambda index: native.exchange_device(index)
    original = torch.UntypedStorage.__new__

    def new(cls: type, *args: object, **kwargs: object) -> object:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            del kwargs["device"]
            kwargs["allocator"] = native.allocator_address()
        return original(cls, *args, **kwargs)

    torch.UntypedStorage.__new__ = staticmethod(new)
    return native


def use_mps(memory: int = 16 * GIB) -> ModuleType:
    """Installs the test double of an Apple GPU; gives the native module."""
    import torch

    from torchdevice_cuda.drivers.mps import emulated_streams
    from torchdevice_cuda.native import build

    native = build.load("mps")
    assert native.install(1, [memory])
    emulated_streams.complete()
    torch._C._has_mps = True
    for function in (torch.backends.mps.is_available, torch.backends.mps.is_built):
        getattr(function, "cache_clear", lambda: None)()
    return native


def use_inductor() -> None:
    """Installs a virtual GPU that ``torch.compile`` can compile for.

    Triton, which a CUDA build brings along, asks for NVIDIA's driver: inductor gets by without it.
    """
    sys.modules["triton"] = None  # type: ignore[assignment]
    import torch._functorch.config as config
    import torch._inductor.compile_fx as module

    from torchdevice_cuda.native.inductor import compiling

    config.enable_autograd_cache = False
    module.compile_fx = compiling(use_cuda(), module.compile_fx, module.compile_fx_inner)


def bare(devices: int = 1, memory: int = 16 * GIB) -> ChildConfig:
    """Return a child with virtual GPUs and nothing else of the product."""
    given = {"devices": devices, "memory": memory}
    name = f"bare, {devices} x {memory // MIB} MiB"
    return ChildConfig(name, order="after", setup=use_cuda, setup_with=given, needs=("cuda",))


#: As an Apple GPU, and for compiled code.
BARE_MPS = ChildConfig("bare mps", order="after", environment=LACKING, setup=use_mps, needs=("mps",))
COMPILING = ChildConfig("bare, compiling", setup=use_inductor, needs=("cuda",))


def native() -> ModuleType:
    """Return the native module of the virtual GPUs of this process."""
    from torchdevice_cuda.native import build

    return build.load("cuda", build=False)


def emptied() -> ModuleType:
    """Return the native module, after what earlier tests have left on the devices is gone, and all figures of it."""
    module = native()
    gc.collect()
    module.synchronize(-1)
    module.empty_cache()
    module.host_empty_cache()
    for index in range(module.device_count()):
        assert module.memory_allocated(index) == 0
        module.reset_peak_stats(index)
        module.reset_accumulated_stats(index)
    return module
