"""Predict memory and time on many GPUs from one rehearsal (``python -m torchdevice_cuda plan``)."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ..settings import gpus
from .blas import find_blas_bytes
from .calls import Call
from .families import find_cost
from .prediction import GAP_NS, Predictor, time_launches
from .steps import Memory, Recorder

#: GPUs that programs are most often planned for.
USUAL = ("t4", "l4", "a10", "rtx-3090", "rtx-4090", "rtx-5090", "a100-40", "l40s", "a100-80", "h100", "h200", "b200")
#: What a GPU's memory also holds: CUDA's context (an estimate).
CONTEXT = 512 << 20

PRODUCTS, MEMORY, COPIES = "tensor cores", "memory bandwidth", "copies"
LAUNCHES, HOST = "launches", "host: Python, data loading"


@dataclasses.dataclass(frozen=True)
class Row:
    """A GPU: whether the program fits, and how long a step takes."""

    key: str
    name: str
    memory: int
    needed: int
    verdict: str
    advice: str
    step_ns: float
    bottleneck: str
    price: float | None  # for an hour

    @property
    def headroom(self) -> int:
        """Return the memory that is left; negative if it does not fit."""
        return self.memory - self.needed

    @property
    def cost(self) -> float | None:
        """Return what 1,000 steps cost."""
        return None if self.price is None else self.price * self.step_ns * 1000 / 3.6e12


def make_rows(recorder: Recorder, keys: Iterable[str], prices: Mapping[str, float]) -> list[Row]:
    """Predict each GPU, the smallest memory first."""
    rows = [_make_row(recorder, key, prices.get(key)) for key in keys]
    return sorted(rows, key=lambda row: (row.memory, row.step_ns))


def _make_row(recorder: Recorder, key: str, price: float | None) -> Row:
    gpu = gpus.find(key)
    fixed = CONTEXT + recorder.memory.workspaces * (_size_workspace(gpu) - _size_workspace(recorder.gpu))
    verdict, advice = judge(recorder.memory, gpu.memory - fixed)
    ns, bottleneck = time_step(recorder, gpu)
    needed = recorder.memory.reserved + fixed
    return Row(key, gpu.name, gpu.memory, needed, verdict, advice, ns, bottleneck, price)


def _size_workspace(gpu: gpus.Gpu) -> int:
    return find_blas_bytes(gpu.capability[0])


def judge(memory: Memory, available: int) -> tuple[str, str]:
    """Return whether a program fits into this memory, and what would help."""
    if memory.reserved <= available:
        return "yes", ""
    if memory.allocated <= available:
        return "tight", "fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    if memory.kept > 0.9 * available:
        count = math.ceil(memory.kept / (0.8 * available))
        advice = f"parameters, gradients and optimizer take {memory.kept / 1e9:.1f} GB: shard over {count} GPUs (FSDP)"
        return "no", advice
    share = (available - memory.kept) / memory.activations
    return "no", f"{share:.0%} of the activations fit: a smaller batch, or checkpointing"


def time_step(recorder: Recorder, gpu: gpus.Gpu) -> tuple[float, str]:
    """Return the nanoseconds of a step, and what bounds them."""
    step, predictor = recorder.choose_step(), Predictor(gpu)
    busy: Counter[str] = Counter()
    launching = 0.0
    for call, count in zip(recorder.calls, step.calls, strict=False):
        if not count:
            continue
        ns, kernels = predictor.time(call)
        launching += time_launches(call, kernels) * count
        busy[_find_resource(call)] += round((ns + kernels * GAP_NS) * count)
    device, host = sum(busy.values()), step.host_ns + launching
    if host > device:
        return host, LAUNCHES if launching > step.host_ns else HOST
    return device, busy.most_common(1)[0][0] if busy else HOST


def _find_resource(call: Call) -> str:
    if call.name == "copy_" and any(tensor.is_on_host for tensor in call.tensors):
        return COPIES
    return MEMORY if find_cost(call).product is None else PRODUCTS
