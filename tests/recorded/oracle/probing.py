"""Probes: small functions with a name, whose answer is a JSON value."""

from __future__ import annotations

import functools
import json
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from record.case_sets import Case

#: Kernels of the processor and of the GPU add in another order: numbers this much apart are the same.
TOLERANCE = 1e-4
#: For numbers that are zero on one side.
ABSOLUTE = 1e-6
#: Tensors with more elements are described, not listed.
LISTED = 64


#: All probes, by name, in the order of the files.
PROBES: dict[str, Case] = {}


def probe(
    *, alone: bool = False, quiet: bool = False, slow: bool = False, tolerance: float = TOLERANCE
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Makes a function a probe. Its name is that of the file and its own."""

    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        area = function.__module__.rpartition(".")[2]
        name = f"{area}.{function.__name__}"
        assert name not in PROBES, name
        run = functools.partial(answer, function)
        PROBES[name] = Case(name, run, alone, quiet, slow, unit=area, tolerance=tolerance)
        return function

    return add


#: What differs from one process, build or folder to the next, and tells nothing.
NOISE = (
    (re.compile(r" ?\(Triggered internally at [^)]*\)"), ""),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x"),
    (re.compile(r"(/[\w.+-]+)+/(aten|c10|torch/csrc)/"), r"\2/"),
    (re.compile(r"(\.(?:cpp|h|cu|cuh)\"?):\d+"), r"\1"),
    (re.compile(r"/tmp/\w+/"), "/tmp/"),
    (re.compile(r"is only available for these backends: \[.*"), "is only available for these backends:"),
)


def quiet(text: str) -> str:
    """Return a text without what tells nothing."""
    for pattern, instead in NOISE:
        text = pattern.sub(instead, text)
    return text.strip()


def first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else ""


def raises(function: Callable[[], Any]) -> list[Any]:
    """Return the type and the first line of the error, or what came instead."""
    try:
        return ["no error", plain(function())]
    except Exception as error:
        return [type(error).__name__, first_line(error)]


def kind(function: Callable[[], Any]) -> str:
    """Return the type of the error alone, where the words tell of the machine or the release."""
    return str(raises(function)[0])


def warned(function: Callable[[], Any]) -> list[Any]:
    """Return the value, and the category and first line of each warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = function()
    return [plain(value), [[w.category.__name__, first_line(w.message)] for w in caught]]


def about(tensor: torch.Tensor) -> list[Any]:
    """Dtype, shape, strides and device of a tensor, without its numbers."""
    strides = list(tensor.stride()) if tensor.layout is torch.strided else str(tensor.layout)
    return [str(tensor.dtype), list(tensor.shape), strides, str(tensor.device)]


def numbers(tensor: torch.Tensor) -> Any:
    """Return the numbers of a tensor, as a list."""
    there = tensor.detach().cpu()
    if there.is_quantized:
        there = there.dequantize()
    if there.layout is not torch.strided:
        there = there.to_dense()
    if there.dtype in (torch.bfloat16, torch.float16) or "float8" in str(there.dtype):
        there = there.float()
    return plain(there.tolist())


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, torch.Tensor):
        listed = [numbers(value)] if value.numel() <= LISTED and value.device.type != "meta" else []
        return about(value) + listed
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(part) for part in value)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return str(value)


def answer(function: Callable[[], Any]) -> list[Any]:
    """Return a probe's answer: ``["ok", value]``, or the type and first line of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = plain(function())
        return ["ok", json.loads(json.dumps(value))]
    except Exception as error:
        return [type(error).__name__, first_line(error)]


def alike(there: Any, here: Any, tolerance: float = TOLERANCE) -> bool:
    """Return whether two answers are equal, numbers within the tolerance."""
    if isinstance(there, bool) or isinstance(here, bool):
        return there is here
    if isinstance(there, (int, float)) and isinstance(here, (int, float)):
        if isinstance(there, int) and isinstance(here, int):
            return there == here
        return abs(there - here) <= max(ABSOLUTE, tolerance * max(abs(there), abs(here)))
    if isinstance(there, list) and isinstance(here, list):
        return len(there) == len(here) and all(alike(a, b, tolerance) for a, b in zip(there, here, strict=True))
    if isinstance(there, dict) and isinstance(here, dict):
        return there.keys() == here.keys() and all(alike(there[key], here[key], tolerance) for key in there)
    if isinstance(there, str) and isinstance(here, str):
        return quiet(there) == quiet(here)
    return bool(there == here)


def ramp(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> torch.Tensor:
    """Numbers that are the same everywhere: no generator draws them."""
    count = 1
    for size in shape:
        count *= size
    return (((torch.arange(count) * 7919) % 97 - 48).double() / 16).to(dtype).reshape(shape).to(device)


def every(values: Any, function: Callable[[Any], Any]) -> Iterator[Any]:
    """Return a function's result for each value, or its refusal."""
    for value in values:
        yield [str(value), raises(lambda value=value: function(value))]
