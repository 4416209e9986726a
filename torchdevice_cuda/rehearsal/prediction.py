"""Predict how long the GPU of a profile computes a call (``--clock gpu``)."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypedDict

from ..settings.gpus import Gpu
from .blas import find_blas_bytes, find_workspaces, size_workspaces
from .calls import Call, Shape
from .families import find_cost
from .kernels import KERNEL, Counts, estimate, time_kernel
from .model import DEFAULTS, Rates, correct, crowd, place, time_work, without_tf32
from .work import Work

EFFICIENCY = Path(__file__).with_name("efficiency.json")
#: The host's time to launch a kernel, and a GPU's time between two kernels of a stream, in nanoseconds.
LAUNCH_NS, GAP_NS = 2500, 1000
#: cuDNN's own code takes longer for each kernel of a recurrent network: on the recorded host they all waited for it.
_NETWORK_LAUNCH_NS, _NARROW_NETWORK_LAUNCH_NS = 8500, 12500
#: Operators that launch nothing.
_FREE = frozenset(
    "empty empty_strided empty_like new_empty new_empty_strided resize_ set_ record_stream is_pinned _pin_memory "
    "_reshape_alias as_strided_ lift lift_fresh _nested_view_from_buffer unsqueeze_ squeeze_ t_ transpose_".split()
)
#: Names of one kernel: what CUDA calls, and what the virtual GPU calls in its place.
_ALIASES = {
    "_to_copy": "copy_",
    "clone": "copy_",
    "contiguous": "copy_",
    "zero_": "fill_",
    "relu": "clamp_min",
    "relu_": "clamp_min_",
}


class Fitted(TypedDict):
    """What was fitted to the recordings of a key."""

    coefficients: dict[str, float]
    residuals: list[list[float]]


@functools.cache
def read_efficiency() -> Mapping[str, Fitted]:
    """Return what was fitted, by key."""
    return dict(json.loads(EFFICIENCY.read_text("utf-8"))["keys"])


def key_of(work: Work) -> str:
    """Return the key of a call's coefficients: those of a product depend on its type."""
    return f"{work.key} {work.product.type}" if work.key.startswith("product") and work.product else work.key


def _read_tensor(described: Any) -> Shape | None:
    if described is None:
        return None
    sizes, kind, strides, on_host, pinned = described
    return Shape(sizes, _TYPES.get(kind, kind), strides, on_host, pinned)


#: Types as C++ prints them, and as profiles name them.
_TYPES = {
    "Float": "float",
    "BFloat16": "c10::BFloat16",
    "Half": "c10::Half",
    "Double": "double",
    "Long": "long int",
    "Int": "int",
    "Short": "short int",
    "Bool": "bool",
    "Byte": "unsigned char",
    "Char": "signed char",
    "ComplexFloat": "c10::complex<float>",
    "ComplexDouble": "c10::complex<double>",
    "Float8_e4m3fn": "c10::Float8_e4m3fn",
    "Float8_e5m2": "c10::Float8_e5m2",
}


def read_call(name: str, described: Sequence[Any], is_tf32: bool) -> Call:
    """Read a call as the native device describes it."""
    arguments: list[Any] = []
    for value in described:
        if isinstance(value, tuple) and value and value[0] == "tensor":
            arguments.append(_read_tensor(value[1]))
        elif isinstance(value, tuple) and value and value[0] == "tensors":
            arguments.append(tuple(_read_tensor(each) for each in value[1]))
        else:
            arguments.append(value)
    plain = name.removeprefix("aten::")
    return as_cuda_calls(Call(plain, tuple(arguments), is_tf32))


def as_cuda_calls(call: Call) -> Call:
    """Return the call that CUDA makes in its place."""
    name = "cudnn" + call.name.removeprefix("native") if _is_cudnn_batch_norm(call) else call.name
    name = _ALIASES.get(name, name)
    if name == "copy_" and call.name != "copy_":
        source = next(t for t in call.tensors)
        return Call(name, (source, source, False))
    return dataclasses.replace(call, name=name)


#: Where batch normalization's `training` is among the arguments.
_TRAINING = {"native_batch_norm": 5, "native_batch_norm_backward": 7}


def _is_cudnn_batch_norm(call: Call) -> bool:
    """Return whether CUDA normalizes with cuDNN: images in training with weights, in the usual layout, not bfloat16."""
    weight_at = 2 if call.name.endswith("backward") else 1
    if call.name not in _TRAINING or not call.get(_TRAINING[call.name], False) or call.get(weight_at) is None:
        return False
    image = call.tensors[0]
    return len(image.sizes) > 2 and not image.is_channels_last and image.type in ("float", "c10::Half")


def _find_fitted(key: str, fitted: Mapping[str, Fitted]) -> Fitted | None:
    """Return what was fitted to a key, or to the most similar one.

    What was not recorded in one type of 16 bits takes as long in the other; what was recorded with elements of other
    sizes, of which a key ends with the bytes, as with the next size.
    """
    found = (
        fitted.get(key)
        or fitted.get(key.replace("c10::Half", "c10::BFloat16"))
        or fitted.get(key.replace("c10::BFloat16", "c10::Half"))
    )
    if found is None and key[-1] in _SIZES:
        others = sorted(_SIZES, key=lambda size: abs(_SIZES.index(size) - _SIZES.index(key[-1])))
        found = next((fitted[key[:-1] + size] for size in others if key[:-1] + size in fitted), None)
    return found


#: Bytes of elements.
_SIZES = "1248"


def predict_work(work: Work, rates: Rates, fitted: Mapping[str, Fitted]) -> tuple[float, float]:
    """Return the nanoseconds and the kernels of a call."""
    work = work if rates.has_tf32 else without_tf32(work)
    found = _find_fitted(key_of(work), fitted)
    if found is None:
        return time_work(work, rates, DEFAULTS), float(work.kernels)
    coefficients = {**DEFAULTS, **found["coefficients"]}
    factor = correct(place(work), found["residuals"], coefficients["formula"])
    return time_work(work, rates, coefficients) * factor, coefficients["launches"] * work.kernels


def time_launches(call: Call, kernels: float) -> float:
    """Return the host's nanoseconds to launch a call's kernels."""
    if not call.name.startswith("_cudnn_rnn"):
        return kernels * LAUNCH_NS
    return kernels * (_NETWORK_LAUNCH_NS if call.tensors[0].item_bytes > 2 else _NARROW_NETWORK_LAUNCH_NS)


#: What the compiled device is told of a call: its nanoseconds, its kernels, an id to count it by or -1, how many times
#: as long it takes beside a collective, the workspaces that it takes, and the host's nanoseconds to launch it.
Told = tuple[float, float, int, float, int, float]


class Predictor:
    """The model with a GPU's rates."""

    def __init__(self, gpu: Gpu) -> None:
        self._rates = Rates.of(gpu)
        self._fitted = read_efficiency()

    def predict(self, name: str, described: Sequence[Any], is_tf32: bool) -> Told:
        """Predict a call as the native device describes it."""
        call = read_call(name, described, is_tf32)
        work = None if call.name in _FREE or call.name == KERNEL else find_cost(call)
        ns, kernels = self.time(call) if work is None else self._time_work(work)
        crowded = 1.0 if work is None or work.product is None else crowd(self._rates)
        return ns, kernels, -1, crowded, find_workspaces(call), time_launches(call, kernels)

    def time(self, call: Call) -> tuple[float, float]:
        """Return the nanoseconds and the kernels of a call."""
        if call.name in _FREE:
            return 0.0, 0.0
        if call.name == KERNEL:
            return time_kernel(call.arguments, self._rates, self._fitted["add"]["coefficients"]), 1.0
        return self._time_work(find_cost(call))

    def _time_work(self, work: Work) -> tuple[float, float]:
        return predict_work(work, self._rates, self._fitted) if work.elements else (0.0, 0.0)


#: Called for a kernel that was not counted: its name, and whether its time is estimated.
Report = Callable[..., None]


class Device(Protocol):
    """The functions of the compiled device that are used here."""

    def load_part(self, part: str) -> None:
        """Load a part, after compiling it if needed."""

    def start_clock(self, predict: Any, report: Report, launch_ns: int, gap_ns: int) -> None:
        """Keep the GPU's time from now on; ``report`` is called for a kernel that was not counted."""

    def stop_clock(self) -> None:
        """Keep the host's time again."""


class UnpredictedKernelWarning(UserWarning):
    """The clock did not count what a kernel does: its time is that of a launch, or estimated from its tensors."""


#: What becomes of a kernel that was not counted.
_UNCOUNTED = (
    f"is not predicted: it counts as a launch of {GAP_NS / 1000:g} us, so predicted times are too short by its own. A "
    "kernel of CUDA C++ is predicted if it is compiled under --clock gpu"
)
_ESTIMATED = (
    "is estimated by the sizes of its tensors, each read or written once: what it reads, writes and computes was not "
    "counted"
)
UnpredictedKernelWarning.__module__ = "torchdevice_cuda"  # the name that programs use


def make_reporter() -> Report:
    """Return a function that warns once for each kernel that was not counted."""
    seen: set[str] = set()

    def report(name: str, is_estimated: bool = False) -> None:
        if name not in seen:
            seen.add(name)
            how = _ESTIMATED if is_estimated else _UNCOUNTED
            warnings.warn(f"the time of the kernel {name} {how}", UnpredictedKernelWarning, stacklevel=2)

    return report


class _ForeignWork:
    """Work that other code does in Python's place, such as kernels of Triton and compiled graphs."""

    device: ClassVar[Any]
    original: ClassVar[Any]
    report: ClassVar[Report]
    #: what it does, if that was counted, or else estimated
    counts: Counts | None = None
    is_estimated = False

    def __init__(self, name: str, index: int, *more: object) -> None:
        self._name, self._index = name, index
        self._work = type(self).original(name, index, *more)

    def describe(self, counts: Counts | None, sizes: Iterable[int]) -> None:
        """Say what the work does, or else the sizes of the memory that it was given."""
        self.counts, self.is_estimated = counts or estimate(sizes), counts is None

    def __enter__(self) -> None:
        self._began = time.perf_counter_ns()
        self._work.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._work.__exit__(*raised)
        ns = GAP_NS
        if self.counts is None or self.is_estimated:
            type(self).report(self._name, self.counts is not None)
        if self.counts is not None:
            ns = self.device.predict_kernel(self.counts.as_arguments())
        self.device.add_work(self._name, self._index, ns, time.perf_counter_ns() - self._began)


def start(device: Any, gpu: Gpu) -> Callable[[], None]:
    """Let the device's streams take the time that this GPU would need; return the function that ends it."""
    import torch

    report = make_reporter()
    device.start_clock(Predictor(gpu).predict, report, LAUNCH_NS, GAP_NS)
    size_workspaces(device, find_blas_bytes(gpu.capability[0]), torch.__version__)
    original = device.ForeignWork
    members = {"device": device, "original": original, "report": staticmethod(report)}
    device.ForeignWork = type("ForeignWork", (_ForeignWork,), members)

    def stop() -> None:
        device.ForeignWork = original
        device.stop_clock()

    return stop
