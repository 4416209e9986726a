"""What a GPU profile holds: the properties in which products differ, and those that follow from the capability."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

MIB, KIB = 1 << 20, 1 << 10
Capability = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Properties that all GPUs of a compute capability share: of a multiprocessor, and of a block that opts in."""

    threads: int
    shared_kib: int
    shared_kib_of_block: int


#: "Technical Specifications per Compute Capability" of NVIDIA's CUDA programming guide.
ARCHITECTURES: dict[Capability, Architecture] = {
    (5, 0): Architecture(2048, 64, 48),
    (5, 2): Architecture(2048, 96, 48),
    (6, 0): Architecture(2048, 64, 48),
    (6, 1): Architecture(2048, 96, 48),
    (7, 0): Architecture(2048, 96, 96),
    (7, 2): Architecture(2048, 96, 96),
    (7, 5): Architecture(1024, 64, 64),
    (8, 0): Architecture(2048, 164, 163),
    (8, 6): Architecture(1536, 100, 99),
    (8, 7): Architecture(1536, 164, 163),
    (8, 9): Architecture(1536, 100, 99),
    (9, 0): Architecture(2048, 228, 227),
    (10, 0): Architecture(2048, 228, 227),
    (10, 3): Architecture(2048, 228, 227),
    (12, 0): Architecture(1536, 100, 99),
    (12, 1): Architecture(1536, 100, 99),
}
#: Kinds of arithmetic that have a rate; those of tensor cores begin with ``tensor_``.
RATES = (
    *("fp64", "fp32", "fp16"),
    *("tensor_fp64", "tensor_tf32", "tensor_fp16", "tensor_bf16", "tensor_fp8", "tensor_fp4", "tensor_int8"),
)


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One product."""

    name: str
    capability: Capability
    multiprocessors: int
    memory: int  # bytes
    clock_mhz: int
    memory_clock_mhz: int
    bus_bits: int
    l2_kib: int
    integrated: bool = False
    bandwidth_gb_s: float = 0.0
    #: generation and lanes, such as ``4.0 x16``; ``None`` if unknown, or without PCIe
    pcie: str | None = None
    #: of all links, both directions together
    nvlink_gb_s: float | None = None
    #: the limit of its power, at which its clock sinks; ``None`` if unknown
    power_w: float | None = None
    #: peak rates of dense arithmetic that accumulates in FP32 (FP64 and INT8: in their own width)
    tflops: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)
    #: where the figures were published
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Derive the bandwidth from the memory's clock if it was not given."""
        if not self.bandwidth_gb_s:
            # Memory transfers twice per cycle, as nvidia-smi counts cycles.
            object.__setattr__(self, "bandwidth_gb_s", self.memory_clock_mhz * 2 * self.bus_bits / 8 / 1000)

    @property
    def architecture(self) -> Architecture:
        """Return the properties that follow from its capability."""
        return ARCHITECTURES[self.capability]
