"""GPU profiles: the properties that a device reports when a program should see a certain GPU.

A row is a product, with the properties in which products differ. The rest follows from the compute capability, by the
table of NVIDIA's CUDA programming guide ("Technical Specifications per Compute Capability").

Sources of the figures: names, memory and clocks as ``nvidia-smi -q`` prints them (memory in MiB, "Max Clocks");
multiprocessors, bus and L2 cache from NVIDIA's architecture white papers and data sheets (Pascal P100, Volta V100,
Turing, Ampere GA100 and GA10x, Ada, Hopper, Blackwell, Jetson Orin), B200's from its device attributes. The H200's row
was read on one with ``torch.cuda.get_device_properties``.
"""

from __future__ import annotations

import dataclasses

MIB, KIB = 1 << 20, 1 << 10
Capability = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Properties that all GPUs of a compute capability share: of a multiprocessor, and of a block that opts in."""

    threads: int
    shared_kib: int
    shared_kib_of_block: int


ARCHITECTURES: dict[Capability, Architecture] = {
    (6, 0): Architecture(2048, 64, 48),
    (7, 0): Architecture(2048, 96, 96),
    (7, 5): Architecture(1024, 64, 64),
    (8, 0): Architecture(2048, 164, 163),
    (8, 6): Architecture(1536, 100, 99),
    (8, 7): Architecture(1536, 164, 163),
    (8, 9): Architecture(1536, 100, 99),
    (9, 0): Architecture(2048, 228, 227),
    (10, 0): Architecture(2048, 228, 227),
    (12, 0): Architecture(1536, 100, 99),
}


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

    @property
    def architecture(self) -> Architecture:
        """Return the properties that follow from its capability."""
        return ARCHITECTURES[self.capability]


def _gpu(name: str, capability: str, figures: str, integrated: bool = False) -> Gpu:
    major, minor = map(int, capability.split("."))
    multiprocessors, memory_mib, clock, memory_clock, bus, l2_kib = map(int, figures.split())
    return Gpu(name, (major, minor), multiprocessors, memory_mib * MIB, clock, memory_clock, bus, l2_kib, integrated)


#: By the name that a user types. Figures: multiprocessors, memory in MiB, clock and memory clock in MHz, width of the
#: memory bus, L2 cache in KiB.
GPUS: dict[str, Gpu] = {
    "p100": _gpu("Tesla P100-PCIE-16GB", "6.0", "56 16384 1328 715 4096 4096"),
    "v100": _gpu("Tesla V100-SXM2-16GB", "7.0", "80 16384 1530 877 4096 6144"),
    "v100-32": _gpu("Tesla V100-SXM2-32GB", "7.0", "80 32768 1530 877 4096 6144"),
    "t4": _gpu("Tesla T4", "7.5", "40 15360 1590 5001 256 4096"),
    "rtx-2080-ti": _gpu("NVIDIA GeForce RTX 2080 Ti", "7.5", "68 11264 1545 7000 352 5632"),
    "a100-40": _gpu("NVIDIA A100-SXM4-40GB", "8.0", "108 40960 1410 1215 5120 40960"),
    "a100-80": _gpu("NVIDIA A100-SXM4-80GB", "8.0", "108 81920 1410 1593 5120 40960"),
    "a100-pcie-80": _gpu("NVIDIA A100 80GB PCIe", "8.0", "108 81920 1410 1512 5120 40960"),
    "a30": _gpu("NVIDIA A30", "8.0", "56 24576 1440 1215 3072 24576"),
    "a10": _gpu("NVIDIA A10", "8.6", "72 23028 1695 6251 384 6144"),
    "a10g": _gpu("NVIDIA A10G", "8.6", "80 23028 1710 6251 384 6144"),
    "a40": _gpu("NVIDIA A40", "8.6", "84 46068 1740 7251 384 6144"),
    "rtx-a4000": _gpu("NVIDIA RTX A4000", "8.6", "48 16376 1560 7001 256 4096"),
    "rtx-a5000": _gpu("NVIDIA RTX A5000", "8.6", "64 24564 1695 8001 384 6144"),
    "rtx-a6000": _gpu("NVIDIA RTX A6000", "8.6", "84 49140 1800 8001 384 6144"),
    "rtx-3060": _gpu("NVIDIA GeForce RTX 3060", "8.6", "28 12288 1777 7501 192 3072"),
    "rtx-3070": _gpu("NVIDIA GeForce RTX 3070", "8.6", "46 8192 1725 7001 256 4096"),
    "rtx-3080": _gpu("NVIDIA GeForce RTX 3080", "8.6", "68 10240 1710 9501 320 5120"),
    "rtx-3090": _gpu("NVIDIA GeForce RTX 3090", "8.6", "82 24576 1695 9751 384 6144"),
    "jetson-orin": _gpu("Orin", "8.7", "16 62841 1300 3200 256 4096", integrated=True),
    "jetson-orin-nano": _gpu("Orin", "8.7", "8 7620 1020 2133 128 2048", integrated=True),
    "l4": _gpu("NVIDIA L4", "8.9", "58 23034 2040 6251 192 49152"),
    "l40s": _gpu("NVIDIA L40S", "8.9", "142 46068 2520 9001 384 98304"),
    "rtx-4060": _gpu("NVIDIA GeForce RTX 4060", "8.9", "24 8188 2460 8501 128 24576"),
    "rtx-4070": _gpu("NVIDIA GeForce RTX 4070", "8.9", "46 12282 2475 10501 192 36864"),
    "rtx-4080": _gpu("NVIDIA GeForce RTX 4080", "8.9", "76 16376 2505 11201 256 65536"),
    "rtx-4090": _gpu("NVIDIA GeForce RTX 4090", "8.9", "128 24564 2520 10501 384 73728"),
    "rtx-6000-ada": _gpu("NVIDIA RTX 6000 Ada Generation", "8.9", "142 49140 2505 10001 384 98304"),
    "h100": _gpu("NVIDIA H100 80GB HBM3", "9.0", "132 81559 1980 2619 5120 51200"),
    "h100-pcie": _gpu("NVIDIA H100 PCIe", "9.0", "114 81559 1755 1593 5120 51200"),
    "h200": Gpu("NVIDIA H200", (9, 0), 132, 150_109_880_320, 1980, 3201, 6016, 61440),
    "gh200": _gpu("NVIDIA GH200 480GB", "9.0", "132 97871 1980 2619 6144 61440"),
    "b200": _gpu("NVIDIA B200", "10.0", "148 183359 1965 3996 7680 129536"),
    "rtx-5070": _gpu("NVIDIA GeForce RTX 5070", "12.0", "48 12227 2512 14001 192 49152"),
    "rtx-5080": _gpu("NVIDIA GeForce RTX 5080", "12.0", "84 16303 2617 15001 256 65536"),
    "rtx-5090": _gpu("NVIDIA GeForce RTX 5090", "12.0", "170 32607 2407 14001 512 98304"),
}


def spelled(text: str) -> str:
    """Return a name as in the table: users write ``RTX 4090``, ``rtx4090`` and ``A100_80``."""
    plain = "".join(letter for letter in text.lower() if letter.isalnum())
    return next((key for key in GPUS if key.replace("-", "") == plain), text.strip().lower())


def nearest(text: str) -> list[str]:
    """Return names of the table that are similar to a text."""
    import difflib  # for errors only

    key = spelled(text)
    near = [*(other for other in GPUS if other.startswith(key)), *difflib.get_close_matches(key, GPUS, n=3, cutoff=0.3)]
    return list(dict.fromkeys(near))[:3]


def table() -> str:
    """List every profile, for people."""
    head = ("profile", "name", "capability", "multiprocessors", "memory", "clock")
    rows = [
        (
            key,
            gpu.name,
            ".".join(map(str, gpu.capability)),
            str(gpu.multiprocessors),
            f"{gpu.memory / (1 << 30):.1f} GiB",
            f"{gpu.clock_mhz} MHz",
        )
        for key, gpu in GPUS.items()
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (head, *rows))
    return "\n".join(line.rstrip() for line in lines)
