"""Find half-precision operators that are fast on this processor: measured once, cached beside the library.

Without instructions for a type, torch's CPU kernels take up to two hundred times as long as in float32. The device then
computes in float32 and rounds once, as CUDA accumulates. With such instructions, the type's own kernels are faster than
two conversions, or need half the memory. One processor can have both cases: some current ones multiply in float16 as
fast as in float32, and take a hundred times as long for the gradient of a convolution.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import sealing
from .interface import Native

if TYPE_CHECKING:
    import torch

#: The narrow kernel may take this much longer than conversions and the wide kernel: it needs half the memory.
_PATIENCE = 1.15
_ROUNDS = 5
#: It must be fast each time: a wrong choice costs more than conversions do.
_TIMES = 3
_KEPT = "quick: "
_TYPES = ("float16", "bfloat16")
# These variables disable instructions of a processor.
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")

_Probe = Callable[..., Any]
_Shapes = tuple[tuple[int, ...], ...]


def settle(module: Native, notes: Path) -> None:
    """Set which operators the CPU's own kernels compute; measure if there is no note in the folder `notes`."""
    kept = notes / f"half-{identify_processor()}"
    note = sealing.read_note(kept)
    if note.startswith(_KEPT):
        quick = note[len(_KEPT) :].split()
    else:
        quick = _measure()
        # With a compiled wheel, the folder does not exist yet.
        with contextlib.suppress(OSError):
            sealing.make_folder(notes)
        sealing.write_note(kept, _KEPT + " ".join(quick))
    for one in quick:
        family, _, dtype = one.partition(".")
        module.keep_narrow(family, dtype)


def identify_processor() -> str:
    """Return a name for the processor and the instructions that it may use: measurements and code depend on them."""
    said = [platform.machine(), platform.processor()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = itertools.takewhile(str.strip, file)  # the first of many processors, which are alike
            said += [line for line in first if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        pass
    said += [os.environ.get(name, "") for name in _LIMITS]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]


def _probes() -> dict[str, tuple[_Probe, tuple[_Shapes, _Shapes]]]:
    """Return one operator of each family, in two sizes.

    The first size takes some microseconds, or some milliseconds for slow types. The second is for those that pass: its
    size is typical of programs, and the cost of calls matters little.
    """
    import torch

    aten = torch.ops.aten
    convolution = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    image, weight, heads = (2, 16, 16, 16), (16, 16, 3, 3), (1, 4, 64, 32)
    large_image, large_weight, large_heads = (4, 64, 24, 24), (64, 64, 3, 3), (1, 8, 128, 64)

    def attention_gradient(q: torch.Tensor) -> object:
        sums = q.new_zeros(q.shape[:-1], dtype=torch.float32).transpose(1, 2).contiguous().transpose(1, 2)
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(q, q, q, q, q, sums, 0.0, False)

    return {
        "product": (aten.mm, (((64, 128), (128, 128)), ((128, 256), (256, 256)))),
        "convolution": (
            lambda x, w: aten.convolution(x, w, *convolution),
            ((image, weight), (large_image, large_weight)),
        ),
        "convolution_gradient": (
            lambda g, x, w: aten.convolution_backward(g, x, w, *convolution, [True, True, False]),
            ((image, image, weight), (large_image, large_image, large_weight)),
        ),
        "attention": (
            lambda q: aten._scaled_dot_product_flash_attention_for_cpu(q, q, q),
            ((heads,), (large_heads,)),
        ),
        "attention_gradient": (attention_gradient, ((heads,), (large_heads,))),
    }


def _measure() -> list[str]:
    """Return the families and types that are fast, as ``family.type``."""
    import torch

    def quick_at(function: _Probe, shapes: _Shapes, name: str) -> bool:
        # Not random: the program's own draws come after this.
        return _is_quick(
            function, [torch.full(shape, 0.5, dtype=getattr(torch, name), device="cpu") for shape in shapes]
        )

    return [
        f"{family}.{name}"
        for family, (function, sizes) in _probes().items()
        for name in _TYPES
        if all(quick_at(function, shapes, name) for shapes in sizes for _ in range(_TIMES))
    ]


def _is_quick(function: _Probe, given: list[torch.Tensor]) -> bool:
    def wide() -> None:
        made = function(*(t.float() for t in given))
        for result in made if isinstance(made, tuple) else (made,):
            if result is not None:
                result.to(given[0].dtype)

    narrow = best = float("inf")
    try:
        for i in range(_ROUNDS):
            # The first call of each initializes it.
            narrow = min(narrow, _seconds(lambda: function(*given)))
            best = min(best, _seconds(wide))
            if i and narrow > 4 * best:
                break
    except RuntimeError:  # this torch has no kernel for it
        return False
    return narrow <= _PATIENCE * best


def _seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
