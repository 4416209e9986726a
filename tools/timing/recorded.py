"""The recorded calls: operators with their arguments, and the time of their kernels."""

from __future__ import annotations

import ast
import collections
import dataclasses
import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torchdevice_cuda.rehearsal.calls import Call, Shape
from torchdevice_cuda.rehearsal.families import find_cost
from torchdevice_cuda.rehearsal.prediction import key_of
from torchdevice_cuda.rehearsal.work import Work

RECORD = Path(__file__).resolve().parents[2] / "tests" / "data" / "timing-h200-2.11.json.xz"


@dataclasses.dataclass(frozen=True)
class Observed:
    """A call of a case."""

    case: str
    call: Call
    ns: float  # of its kernels
    launches: float  # kernels of one call
    calls: int  # of the case


def read_answers() -> dict[str, dict[str, Any]]:
    """Return the recorded cases."""
    answers: dict[str, dict[str, Any]] = json.loads(lzma.decompress(RECORD.read_bytes()))["answers"]
    return answers


_TYPES = {"f32": "float", "bf16": "c10::BFloat16", "i64": "long int"}


class _UnknownError(Exception):
    """The recording does not say how large the arguments are, or in which layout."""


def _read_scalar(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return tuple(value) if isinstance(value, list) else value


def _read_call(case: str, name: str, shapes: list[Any], types: list[str], scalars: list[str]) -> Call:
    arguments: list[Any] = []
    words = case.split()
    if words[0] in ("sort", "fft", "svd", "eigh") and name in ("aten::copy_", "aten::add"):
        raise _UnknownError  # of transposed memory
    for shape, kind, scalar in zip(shapes, types, scalars, strict=True):
        if kind == "TensorList":
            # A profile has no shapes of lists; the case's name has.
            if words[0] == "cat":
                arguments.append((Shape((int(words[-1]),), _TYPES[words[-2]]),) * 2)
            elif words[1] in ("foreach", "fused") and name != "aten::cat":
                count, elements = map(int, words[2].split("x"))
                if words[1] == "fused" and name == "aten::_foreach_add_":
                    elements = 1  # the counters of steps
                arguments.append((Shape((elements,), "float"),) * count)
            else:
                raise _UnknownError
        elif kind in ("Scalar", "ScalarList", "") or (not shape and scalar != "None"):
            arguments.append(_read_scalar(scalar))
        else:
            arguments.append(Shape(tuple(shape), kind, is_channels_last="nhwc" in words and len(shape) == 4))
    if case.startswith(("transpose copy", "nhwc")) and name == "aten::copy_":
        arguments[1] = dataclasses.replace(arguments[1], is_channels_last=not arguments[0].is_channels_last)
    # Convolutions round to TF32 unless told otherwise.
    return Call(name.removeprefix("aten::"), tuple(arguments), "tf32" in words or "conv" in name)


def _mark_host(case: str, call: Call, kernel: str) -> Call:
    if call.name != "copy_" or not kernel.startswith(("Memcpy HtoD", "Memcpy DtoH")):
        return call
    arguments = list(call.arguments)
    host = 1 if "HtoD" in kernel else 0
    arguments[host] = dataclasses.replace(arguments[host], is_on_host=True, is_pinned="inned" in case)
    return dataclasses.replace(call, arguments=tuple(arguments))


def list_observed() -> Iterator[Observed]:
    """Return every call of every case, kernels of one call added up."""
    for case, answer in read_answers().items():
        groups: dict[str, list[Any]] = collections.defaultdict(list)
        for entry in answer["work"]:
            if entry[0]:
                groups[repr(entry[:4])].append(entry)
        for entries in groups.values():
            # A call over lists launches several kernels.
            calls = (
                1
                if entries[0][0].startswith(("aten::_foreach", "aten::_fused"))
                else min(entry[5] for entry in entries)
            )
            ns = sum(entry[6] for entry in entries) / calls
            kernels = sum(entry[5] for entry in entries) / calls
            name, shapes, types, scalars = entries[0][:4]
            try:
                call = _read_call(case, name, shapes, types, scalars)
                call = _mark_host(case, call, entries[0][4])
            except _UnknownError:
                continue
            yield Observed(case, call, ns, kernels, calls)


Samples = Sequence[tuple[Work, Observed]]


def group(observed: Iterable[Observed]) -> dict[str, list[tuple[Work, Observed]]]:
    """Group calls by the coefficients that they use."""
    groups: dict[str, list[tuple[Work, Observed]]] = collections.defaultdict(list)
    for each in observed:
        work = find_cost(each.call)
        groups[key_of(work)].append((work, each))
    return {key: _choose(key, samples) for key, samples in groups.items()}


def _choose(key: str, samples: list[tuple[Work, Observed]]) -> list[tuple[Work, Observed]]:
    """Keep one sample of equal calls; of copies only those whose layout is known, which steps do not say."""
    if key.startswith(("copy_", "copy to another layout")):
        samples = [(work, each) for work, each in samples if " step " not in each.case] or samples
    return list({each.call: (work, each) for work, each in samples}.values())
