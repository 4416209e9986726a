"""The least that lets the compiled device be used: what stock ``torch.cuda`` refuses to do in a CPU build is stubbed.

The product's ``torch.cuda`` is another part and is not needed to test this one. Every test runs in a process of its
own (`run`), because installing a device changes torch for good.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30


def use_cuda(devices: int = 1, memory: int = 16 * GIB) -> ModuleType:
    """Installs `devices` virtual GPUs and makes torch.cuda's Python side stand aside; gives the native module."""
    import torch
    from torch import cuda

    from torchdevice_cuda.native import build

    native = build.load("cuda")
    assert native.install(devices, [memory] * devices)

    def lazy_init() -> None:
        if native.in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )

    torch.version.cuda = "12.8"
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

    from torchdevice_cuda.native import build

    native = build.load("mps")
    assert native.install(1, [memory])
    torch._C._has_mps = True
    for function in (torch.backends.mps.is_available, torch.backends.mps.is_built):
        getattr(function, "cache_clear", lambda: None)()
    return native


def run(code: str, *, setup: str = "native = use_cuda()", timeout: float = 120, **environment: str) -> str:
    """Runs code in a child process after `setup`, which makes the device; its output. Fails if the child does."""
    prelude = f"import torch\nfrom tests.native.harness import *\n{setup}\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    with tempfile.TemporaryDirectory() as scratch:
        # A file rather than -c: TorchScript and torch.compile read the source.
        program = Path(scratch) / "program.py"
        program.write_text(prelude + textwrap.dedent(code), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(program)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=env,
            cwd=ROOT,
            check=False,
        )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout
