"""How long a program's own kernels take, by what a sample of their blocks was counted to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .model import DEFAULTS, Rates, time_memory
from .work import Work

#: The name of a call with a kernel's counts as arguments.
KERNEL = "torchdevice_cuda::kernel"


@dataclasses.dataclass(frozen=True)
class Counts:
    """What a launch moves and computes (`native/csrc/clock/kernel_times.h`)."""

    traffic: float  # bytes that blocks read and write
    memory: float  # of them, those that no cache of the GPU holds
    footprint: float  # of distinct memory
    operations: float
    products: float = 0.0  # operations in products of matrices
    type: float = 0.0  # of these products, an index of TYPES
    scattered: float = 0.0  # of the traffic: sectors read for one access, without the next ones
    warps: float = 0.0  # 0: not known

    def as_arguments(self) -> tuple[float, ...]:
        """Return the arguments of the call."""
        return dataclasses.astuple(self)


#: The share of the arithmetic rate that a kernel without loads reaches, as recorded.
_ARITHMETIC = 0.97
#: Warps that a multiprocessor runs at a time, and how long one takes that loads, computes little, and stores.
_WARPS, _LIFETIME_NS = 64, 900.0
#: Types of products, by their index.
TYPES = ("float", "tf32", "c10::BFloat16", "c10::Half", "double")


def estimate(sizes: Iterable[int]) -> Counts:
    """Return what a kernel does that reads or writes each of its tensors once."""
    total = float(sum(sizes))
    return Counts(total, total, total, 0.0)


def time_kernel(arguments: Sequence[Any], rates: Rates, coefficients: Mapping[str, float]) -> float:
    """Return the nanoseconds of a kernel; its memory moves as fast as that of the operator with these coefficients."""
    counts = Counts(*arguments)
    c = {**DEFAULTS, "start": coefficients["start"], "hbm": coefficients["hbm"]}
    # Memory reads 64 bytes at a time; what is read here and there is in the cache as far as that is large enough.
    missed = max(1 - rates.l2_bytes / counts.footprint, 0.0) if counts.footprint else 0.0
    memory = time_memory(Work(KERNEL, counts.memory + 2 * missed * counts.scattered, counts.footprint), rates, c)
    traffic = counts.traffic / (rates.bandwidth * c["l2"])
    waiting = counts.warps / (rates.multiprocessors * _WARPS) * _LIFETIME_NS
    arithmetic = counts.operations / (rates.flops["float"] * _ARITHMETIC)
    products = counts.products / (rates.flops[TYPES[int(counts.type)]] * c["peak"])
    return float(c["start"] + max(memory, traffic, waiting, arithmetic + products))
