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

    def as_arguments(self) -> tuple[float, ...]:
        """Return the arguments of the call."""
        return dataclasses.astuple(self)


#: The share of the arithmetic rate that a kernel without loads reaches, as recorded.
_ARITHMETIC = 0.97
#: Types of products, by their index.
TYPES = ("float", "tf32", "c10::BFloat16", "c10::Half", "double")


def estimate(sizes: Iterable[int]) -> Counts:
    """Return what a kernel does that reads or writes each of its tensors once."""
    total = float(sum(sizes))
    return Counts(total, total, total, 0.0)


def time_kernel(arguments: Sequence[Any], rates: Rates, coefficients: Mapping[str, float]) -> float:
    """Return the nanoseconds of a kernel; its memory moves as fast as that of the operator with these coefficients."""
    counts = Counts(*arguments)
    c = {**DEFAULTS, **coefficients}
    memory = time_memory(Work(KERNEL, counts.memory, counts.footprint), rates, c)
    traffic = counts.traffic / (rates.bandwidth * max(c["l2"], c["hbm"]))
    arithmetic = counts.operations / (rates.flops["float"] * _ARITHMETIC)
    products = counts.products / (rates.flops[TYPES[int(counts.type)]] * c["peak"])
    return float(c["start"] + max(memory, traffic, arithmetic + products))
