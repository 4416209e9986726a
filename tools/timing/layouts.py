"""The recorded calls that have layouts: those of `tests/recorded/timing_layouts.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from record.store import read_answers

from torchdevice_cuda.rehearsal.calls import Call, Shape
from torchdevice_cuda.rehearsal.prediction import as_cuda_calls

RECORD = Path(__file__).resolve().parents[2] / "tests" / "data" / "timing-layouts-h200-2.11.json.xz"
#: Types as PyTorch and as profiles name them.
_TYPES = {
    "float32": "float",
    "float64": "double",
    "bfloat16": "c10::BFloat16",
    "float16": "c10::Half",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "uint8": "unsigned char",
    "int8": "signed char",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
#: Operators that allocate a tensor and fill or copy it: what the GPU is called with.
_FILLS = frozenset("zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full".split())
_COPIES = frozenset(("clone", "_to_copy"))


def _read_value(value: Any) -> Any:
    """Return a Shape, a tuple of values, or a scalar; words (types, devices) are None."""
    if isinstance(value, dict) and "runs" in value:
        return tuple(_read_value(each) for count, each in value["runs"] for _ in range(count))
    if isinstance(value, dict):
        host = value.get("host", "")
        kind = _TYPES.get(value["type"], value["type"])
        return Shape(tuple(value["sizes"]), kind, tuple(value.get("strides", ())), bool(host), host == "pinned")
    if isinstance(value, list):
        return tuple(_read_value(each) for each in value)
    return None if isinstance(value, str) else value


def _read_call(name: str, arguments: dict[str, Any], results: Any, is_tf32: bool) -> Call:
    plain = name.removeprefix("aten::").partition(".")[0]
    values = tuple(_read_value(value) for value in arguments.values())
    if plain in _FILLS:
        return Call("fill_", (_read_value(results), 0))
    if plain in _COPIES:
        return Call("copy_", (_read_value(results), values[0], bool(arguments.get("non_blocking"))))
    return as_cuda_calls(Call(plain, values, is_tf32 or "conv" in plain))


@dataclasses.dataclass(frozen=True)
class Kernels:
    """A call's kernels: nanoseconds and kernels of one call, and how many calls the case has."""

    call: Call
    ns: float
    launches: float
    calls: int


def list_kernels() -> Iterator[tuple[str, Kernels]]:
    """Return every call with its case."""
    for case, answer in read_answers(RECORD).items():
        for name, arguments, results, count, kernels in answer.get("work", ()):
            if name.startswith("aten::"):
                call = _read_call(name, arguments, results, " tf32 " in f" {case} ")
                ns, launches = (sum(kernel[i] for kernel in kernels) / count for i in (2, 1))
                yield case, Kernels(call, ns, launches, count)
