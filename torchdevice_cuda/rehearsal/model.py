"""How long a GPU computes: formulas whose coefficients are fitted to recordings (`python tools/timing fit`).

Times are nanoseconds. The coefficients are efficiencies relative to a GPU's published rates, so that they carry over
to other GPUs: `start` is the time of an empty kernel, `hbm` and `l2` the shares of the memory's bandwidth that a kernel
reaches beyond the cache and in it, `each` a multiprocessor's time for an element, `row` a block's for an element of its
row, `block` a multiprocessor's for a row, `peak` the share of the arithmetic rate, `tile` the size of a tile at which
half of it is reached, `step` the time of a step or a tile beside its arithmetic.

Near recorded sizes a call takes what similar calls took: a residual, the logarithm of recorded over computed time, is
interpolated between them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from ..settings.gpus import Gpu
from .products import DENSE, OLDER_KERNELS
from .work import Product, Work

Coefficients = Mapping[str, float]
#: Before any fit, and for what no recording covers.
DEFAULTS: Coefficients = {
    "start": 1000.0,
    "hbm": 0.9,
    "l2": 1.6,
    "each": 0.01,
    "row": 0.01,
    "block": 1.0,
    "peak": 0.6,
    "tile": 4000.0,
    "step": 100.0,
    "power": 1.0,
    "pcie": 0.85,
    "launches": 1.0,
    "formula": 0.15,
}
#: Bytes of pageable memory that the driver copies before a transfer starts.
_STAGED = float(1 << 20)
#: The shares of the cache between which memory leaves it.
_CACHED, _UNCACHED = 0.55, 0.8
#: Blocks that a multiprocessor runs at a time, each with a row.
_BLOCKS = 8
_TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (32, 32))
_SPLITS = (1, 2, 4, 8, 16, 32)
#: The rate of a profile for a type of products, and the one to derive it from where the GPU has none.
_RATES = {
    "float": "fp32",
    "tf32": "tensor_tf32",
    "c10::BFloat16": "tensor_bf16",
    "c10::Half": "tensor_fp16",
    "double": "tensor_fp64",
}
_PLAIN = {"tensor_tf32": "fp32", "tensor_bf16": "fp32", "tensor_fp16": "fp32", "tensor_fp64": "fp64"}
#: The clock of the GPU of the recordings, for arithmetic per element.
_RECORDED_CLOCK_MHZ = 1980
#: Factorizations, whose time is a power of the matrix's size.
_BY_SIZE = ("linalg_c", "linalg_l", "linalg_q", "linalg_s", "linalg_i", "_linalg_s", "_linalg_e", "_linalg_d")
#: Bytes per nanosecond and lane of PCI Express, by generation.
_LANE = {"3": 0.985, "4": 1.969, "5": 3.938, "6": 7.563}


#: The recorded GPU's capability, its power beside arithmetic, and what it has for each TFLOP/s of tensor cores.
_RECORDED_CAPABILITY, _IDLE_W, _WATTS = (9, 0), 145.0, (700.0 - 145.0) / 989.4


def limit_clock(gpu: Gpu) -> float:
    """Return the clock of tensor cores at the limit of the power, relative to the recorded GPU's at its own.

    Power grows with the cube of the clock, since the voltage grows with the clock. Of other architectures too little is
    known.
    """
    rate = gpu.tflops.get("tensor_bf16")
    if gpu.capability != _RECORDED_CAPABILITY or gpu.power_w is None or rate is None:
        return 1.0
    return float(min((max(gpu.power_w - _IDLE_W, 1.0) / rate / _WATTS) ** (1 / 3), 1.0))


def _read_pcie(text: str | None) -> float:
    if text is None:  # part of the processor: no bus
        return 32.0
    generation, _, lanes = text.partition(".0 x")
    return _LANE.get(generation, 1.969) * int(lanes or 16)


@dataclasses.dataclass(frozen=True)
class Rates:
    """A GPU's published rates, per nanosecond."""

    bandwidth: float
    pcie: float
    l2_bytes: float
    multiprocessors: int
    speed: float  # of a multiprocessor, relative to the recorded GPU's
    flops: Mapping[str, float]
    has_tf32: bool

    @classmethod
    def of(cls, gpu: Gpu) -> Rates:
        """Read a profile."""
        tflops = gpu.tflops
        flops = {}
        for kind, rate in _RATES.items():
            flops[kind] = 1e3 * (tflops.get(rate) or tflops.get(_PLAIN.get(rate, rate)) or tflops["fp32"])
            if rate in tflops and rate.startswith("tensor"):
                flops[kind] *= limit_clock(gpu)
        return cls(
            gpu.bandwidth_gb_s,
            _read_pcie(gpu.pcie),
            gpu.l2_kib * 1024,
            gpu.multiprocessors,
            gpu.clock_mhz / _RECORDED_CLOCK_MHZ,
            flops,
            "tensor_tf32" in tflops,
        )


def time_memory(work: Work, rates: Rates, c: Coefficients) -> float:
    """Return the time to move the bytes of a call."""
    missed = min(max((work.footprint / rates.l2_bytes - _CACHED) / (_UNCACHED - _CACHED), 0.0), 1.0)
    return work.bytes / rates.bandwidth * (missed / c["hbm"] + (1 - missed) / c["l2"])


#: Operations of a multiprocessor's tensor cores in a cycle, for kernels that GPUs since 8.0 share.
_SHARED_KERNELS = {"tf32": 1024.0, "c10::BFloat16": 2048.0, "c10::Half": 2048.0}


def find_rate(kind: str, rates: Rates, has_own: bool) -> float:
    """Return the operations of a multiprocessor in a nanosecond, with kernels of the GPU's own or older ones."""
    own = rates.flops.get(kind, rates.flops["float"]) / rates.multiprocessors
    shared = _SHARED_KERNELS.get(kind)
    return own if has_own or shared is None else min(own, shared * rates.speed * _RECORDED_CLOCK_MHZ / 1e3)


#: Multiprocessors that NCCL's rings take, and how much products slow down by the share that is taken, as recorded.
_CHANNELS, _CROWDING = 24, 2.5


def crowd(rates: Rates) -> float:
    """Return how many times as long a product takes beside a collective."""
    return 1 + _CROWDING * min(_CHANNELS / rates.multiprocessors, 0.5)


def time_product(product: Product, rates: Rates, c: Coefficients, is_aligned: bool = True) -> float:
    """Return the time of a product in tiles that fill the multiprocessors in waves; the best tiling counts."""
    peak = find_rate(product.type, rates, is_aligned) * c["peak"]
    best = math.inf
    for m, n in _TILES:
        tiles = product.batch * -(-product.m // m) * -(-product.n // n)
        full = peak * m * n / (m * n + c["tile"])
        for split in _SPLITS:
            if split > 1 and (tiles * split > 4 * rates.multiprocessors or product.k < 128 * split):
                break
            waves = -(-tiles * split // rates.multiprocessors)
            depth = -(-product.k // split)
            merged = 8.0 * split * product.batch * product.m * product.n / rates.bandwidth if split > 1 else 0.0
            best = min(best, waves * (2.0 * m * n * depth / full + c["step"]) + merged)
    return best


def without_tf32(work: Work) -> Work:
    """Return a product of TF32, or a convolution, as a GPU without TF32 computes it: a product of float32."""
    is_dense = work.key.startswith("product") or work.key.endswith(DENSE)
    if work.product is None or work.product.type != "tf32" or not is_dense:
        return work
    return dataclasses.replace(work, key="product", product=dataclasses.replace(work.product, type="float"))


def time_work(work: Work, rates: Rates, c: Coefficients) -> float:
    """Return the time of a call's kernels."""
    if work.key.startswith(_BY_SIZE):
        return float(work.elements * c["start"] * max(work.row, 1) ** c["power"] / rates.speed)
    if work.key.startswith("copy") and work.key.endswith("host"):
        # What is beyond the driver's own pinned memory waits for the host's copy.
        beyond = max(work.bytes - _STAGED, 0.0) * c["each"] if "pageable" in work.key else 0.0
        return c["start"] + work.bytes / (rates.pcie * c["pcie"]) + beyond
    memory = time_memory(work, rates, c)
    product = work.product
    if product is None:
        arithmetic = work.elements * c["each"] / (rates.multiprocessors * rates.speed)
        count = work.blocks or work.elements / work.row
        waves = -(-count // (_BLOCKS * rates.multiprocessors))
        blocks = count * c["block"] / rates.multiprocessors if work.row > 1 and not work.is_chain else 0.0
        computing = max(arithmetic, max(waves * work.row * c["row"], blocks) / rates.speed)
        busy = memory + computing if work.is_chain else max(memory, computing)
        return work.repeats * (c["start"] + busy)
    if work.key.startswith("product"):
        passes = work.elements / product.flops
        return c["start"] + max(memory, passes * time_product(product, rates, c, "unaligned" not in work.key))
    if work.key.startswith("attention"):
        blocks = product.batch * -(-product.m // 128)
        used = blocks / (rates.multiprocessors * -(-blocks // rates.multiprocessors))
        kind = "tf32" if product.type == "float" else product.type
        is_own = not any(each in work.key for each in OLDER_KERNELS)
        rate = find_rate(kind, rates, is_own) * rates.multiprocessors
        return c["start"] + max(memory, work.elements / (rate * c["peak"] * used))
    if work.key.startswith("_cudnn_rnn"):
        return c["start"] + work.row * c["step"] + work.elements / (rates.flops[product.type] * c["peak"]) + memory
    passes = work.elements / product.flops
    # A kernel loads while it computes.
    return c["start"] + math.hypot(passes * time_product(product, rates, c), memory)


def list_coefficients(work: Work) -> tuple[str, ...]:
    """Return the names of the coefficients that a call's formula uses."""
    if work.key.startswith(_BY_SIZE):
        return ("start", "power")
    if work.key.startswith("copy") and work.key.endswith("host"):
        return ("start", "pcie", "each") if "pageable" in work.key else ("start", "pcie")
    if work.product is None:
        names = ("start", "hbm", "l2", "each", "row", "block")
        return names[: 4 if work.row == 1 else 5 if work.is_chain else 6]
    if work.key.startswith("attention"):
        return ("start", "peak", "hbm")
    if work.key.startswith("_cudnn_rnn"):
        return ("start", "step", "peak", "l2")
    if work.key.startswith("product"):  # too few are bound by memory to tell its share
        return ("start", "peak", "tile", "step", "l2")
    return ("start", "peak", "tile", "step", "hbm", "l2")


def place(work: Work) -> tuple[float, ...]:
    """Return a call's sizes as coordinates, in which similar calls are near."""
    sizes = [work.bytes, work.elements, work.row]
    if work.product is not None:
        product = work.product
        sizes = [product.m, product.n, product.k, product.batch]
    return tuple(round(math.log(max(size, 1)), 2) for size in sizes)


#: The distance at which a recording counts for half as much.
_NEAR = 0.5


def correct(where: Sequence[float], residuals: Iterable[Sequence[float]], formula: float) -> float:
    """Return the factor by which recorded calls near this one took longer; each row is coordinates and a residual.

    `formula` is the weight of none: the better the formula, the less its residuals tell of other calls.
    """
    total = weights = 0.0
    for *there, residual in residuals:
        distance = sum((a - b) ** 2 for a, b in zip(where, there, strict=True))
        weight = 0.5 ** (distance / _NEAR**2)
        total += weight * residual
        weights += weight
    return math.exp(total / (weights + formula))
