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

from timing.layouts import list_kernels
from torchdevice_cuda.rehearsal.calls import Call, Shape, list_strides
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
            elif name.startswith("aten::_cudnn_rnn"):
                arguments.append(())  # the chunk of all weights is an argument, too
            else:
                raise _UnknownError
        elif kind in ("Scalar", "ScalarList", "") or (not shape and scalar != "None"):
            arguments.append(_read_scalar(scalar))
        else:
            arguments.append(Shape(tuple(shape), kind, _channels_last(shape) if "nhwc" in words else ()))
    if name == "aten::copy_" and words[0] not in ("h2d", "d2h"):
        arguments[:2] = _lay_out(words, *arguments[:2])
    if name == "aten::gather":  # of whole rows, all of them
        arguments[2] = dataclasses.replace(arguments[2], strides=(1, 0))
    # Convolutions round to TF32 unless told otherwise.
    return Call(name.removeprefix("aten::"), tuple(arguments), "tf32" in words or "conv" in name)


def _channels_last(sizes: Sequence[int]) -> tuple[int, ...]:
    return list_strides(sizes, (1, 3, 2, 0)) if len(sizes) == 4 else ()


def _lay_out(words: list[str], target: Shape, source: Shape) -> tuple[Shape, Shape]:
    """Return the arguments of a case's copy with its layouts, which a profile does not have."""
    if words[0] == "transpose":
        source = dataclasses.replace(source, strides=list_strides(source.sizes, (0, 1)))
    elif words[0] == "nhwc":
        target, source = (dataclasses.replace(each, strides=()) for each in (target, source))
        target = dataclasses.replace(target, strides=_channels_last(target.sizes))
    elif words[0] == "pixel_shuffle":  # `(b, c, h, 2, w, 2)` of memory in the order `(b, c, 2, 2, h, w)`
        source = dataclasses.replace(source, strides=list_strides(source.sizes, (4, 2, 5, 3, 1, 0)))
    elif words[0] == "pad":
        rows = [size + 2 * (i > 1) for i, size in enumerate(target.sizes)]
        target = dataclasses.replace(target, strides=list_strides(rows, (3, 2, 1, 0)))
    elif words[0] not in ("copy_", "to"):
        raise _UnknownError  # of memory that is often transposed
    return target, source


def _mark_host(case: str, call: Call, kernel: str) -> Call:
    if call.name != "copy_" or not kernel.startswith(("Memcpy HtoD", "Memcpy DtoH")):
        return call
    arguments = list(call.arguments)
    host = 1 if "HtoD" in kernel else 0
    arguments[host] = dataclasses.replace(arguments[host], is_on_host=True, is_pinned="inned" in case)
    return dataclasses.replace(call, arguments=tuple(arguments))


#: Operators of which a profile lists parts only: those with layouts are whole.
_PARTS = frozenset(
    (
        "",
        "nll_loss_backward",
        "embedding_dense_backward",
        "_linalg_solve_ex",
        "linalg_solve_triangular",
        "_softmax_backward_data",
    )
)


def _merge_sorts(work: list[list[Any]]) -> list[list[Any]]:
    """Return a case's kernels, those of the copies within a sort as the sort's."""
    outer = next((entry for entry in work if entry[0] == "aten::sort"), None)
    return work if outer is None else [[*outer[:4], *entry[4:]] for entry in work]


def list_observed() -> Iterator[Observed]:
    """Return every call of every case, kernels of one call added up; a case with layouts replaces one without."""
    replaced = set()
    for case, kernels in list_kernels():
        replaced.add(case)
        if kernels.call.tensors:
            yield Observed(case, kernels.call, kernels.ns, kernels.launches, kernels.calls)
    for case, answer in read_answers().items():
        if case in replaced:
            continue
        groups: dict[str, list[Any]] = collections.defaultdict(list)
        for entry in _merge_sorts(answer["work"]):
            if entry[0].removeprefix("aten::") not in _PARTS:
                groups[repr(entry[:4])].append(entry)
        for entries in groups.values():
            # A call over lists launches several kernels, and so does a recurrent network.
            calls = (
                1
                if entries[0][0].startswith(("aten::_foreach", "aten::_fused", "aten::_cudnn_rnn"))
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
    # One sample of equal calls.
    return {key: list({each.call: (work, each) for work, each in rows}.values()) for key, rows in groups.items()}
