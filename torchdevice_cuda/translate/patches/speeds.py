"""The GPU's speed and work, for code that estimates or counts: compilers, checkpointing, flops."""

from __future__ import annotations

import functools
import subprocess
import time
import types
from typing import Any

import torch

from ...drivers.base import DeviceProperties
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_ASKED = ("torch._inductor.utils", "torch.utils._runtime_estimation")
#: The second is the first's successor.
_BANDWIDTH, _SPEED = ("get_gpu_dram_gbps", "get_device_dram_gbps"), "get_device_tflops"

#: Multiply-adds per clock of a quarter of a multiprocessor: of its vector units, and of its tensor cores, which round
#: float32 if they support it at all (NVIDIA's white papers on Volta and Ampere).
_VECTOR = {torch.float32: 32, torch.float16: 64, torch.bfloat16: 64}
_TENSOR_CORES = {
    7: {torch.float16: 256, torch.bfloat16: 256},
    8: {torch.float16: 512, torch.bfloat16: 512, torch.float32: 256},
}


@patch(*(f"{module}.get_<speed>" for module in _ASKED), traits=Trait.SUBSTITUTE)
def estimates(context: Context) -> None:
    """Both query triton, which queries NVIDIA's driver. The figures come from the device's properties."""
    for name in _ASKED:
        context.editor.on_undo(context.when_imported(name, context.editor.later(functools.partial(_answer, context))))


def _answer(context: Context, module: types.ModuleType) -> None:
    answers: dict[str, Function] = dict.fromkeys(_BANDWIDTH, _bandwidth) | {_SPEED: _speed}
    for name, ours in answers.items():
        original = getattr(module, name, None)
        if original is not None:
            context.editor.set(module, name, copy_metadata(_or(original, functools.partial(ours, context)), original))


def _or(original: Function, otherwise: Function) -> Function:
    """Return torch's own estimate if it has one: it knows some GPUs by their names."""

    def estimate(*args: Any, **kwargs: Any) -> Any:
        try:
            # Triton computes a bandwidth of 0 for a device whose memory has no clock.
            return original(*args, **kwargs) or otherwise(*args, **kwargs)
        # No triton, triton without a driver, or nvidia-smi that is missing or fails.
        except (ImportError, RuntimeError, OSError, subprocess.SubprocessError):
            return otherwise(*args, **kwargs)

    return estimate


def _facts(context: Context, device: Any) -> DeviceProperties:
    index = None if device is None else torch.device(device).index
    return context.driver.facts(context.driver.current_device() if index is None else index)


def _bandwidth(context: Context, device: Any = None) -> float:
    """Return the bandwidth in GB/s: that of the device's properties, or else that of host memory, which it uses."""
    facts = _facts(context, device)
    claimed = 2 * facts.memory_clock_rate * facts.memory_bus_width / 8 / 1e6
    return claimed or _copies()


@functools.cache
def _copies() -> float:
    source = torch.zeros(1 << 24, dtype=torch.uint8, device=torch.device("cpu"))
    source.clone()  # the first copy maps the pages
    started = time.perf_counter()
    source.clone()
    return 2 * source.numel() / (time.perf_counter() - started) / 1e9


def _speed(context: Context, dtype: torch.dtype, device: Any = None) -> float:
    """Return tera-operations per second."""
    facts = _facts(context, device)
    cores = _TENSOR_CORES[8 if (facts.major, facts.minor) >= (8, 0) else 7]
    rounds = dtype is not torch.float32 or torch.get_float32_matmul_precision() != "highest"
    operations = cores.get(dtype, _VECTOR.get(dtype)) if rounds else _VECTOR[dtype]
    if operations is None:
        raise AssertionError(f"no figures for {dtype}: torch.float16, torch.bfloat16 and torch.float32 have some")
    return 2 * operations * 4 * facts.multi_processor_count * facts.clock_rate / 1e9


_COUNTER = "torch.utils.flop_counter"
#: The attention kernels used here, and CUDA's kernels whose formulas apply to them: the shapes come first.
_ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "_scaled_dot_product_flash_attention_backward",
}


@patch(f"{_COUNTER}.flop_registry", traits=Trait.HOST_MEMORY)
def attention(context: Context) -> None:
    """Torch counts the operations of CUDA's attention, but counts those of the CPU's, which computes here, as zero."""

    def add(module: types.ModuleType) -> None:
        table = module.flop_registry
        for ours, theirs in _ATTENTION.items():
            kernel = getattr(torch.ops.aten, ours)
            if kernel not in table:
                context.editor.undone(f"{_COUNTER}.flop_registry", functools.partial(table.pop, kernel, None))
                table[kernel] = table[getattr(torch.ops.aten, theirs)]

    context.editor.on_undo(context.when_imported(_COUNTER, context.editor.later(add)))
