"""Differences that have a reason: each row is narrow, and what it explains is counted."""

from __future__ import annotations

import dataclasses
import re

from comparing import Difference
from program import Step

#: (reference):(device), as regular expressions. "host" is the CPU of stock torch.
ANY = ".*"
GPU_AND_CPU = "cpu:(virtual|cuda)|cuda:host"
#: The device computes by the CPU's kernels, and has their faults.
BY_THE_CPU = "cpu:(virtual|mps|cpu|host)|cuda:.*"


@dataclasses.dataclass(frozen=True)
class Row:
    """A difference that is known."""

    reason: str
    #: what the operator's name matches
    op: str
    #: what is found in the difference's text
    text: str
    #: what the two sides match
    pair: str = GPU_AND_CPU
    #: what is found in the program
    program: str = ""


ROWS: tuple[Row, ...] = (
    Row(
        "which dtypes a kernel takes differs between the CPU and CUDA; tools/contract.py has an H200's answers",
        ANY,
        r"error: .*not implemented for '(Half|BFloat16|Bool|Complex\w*|Char|Byte|Short|Int|Long|Float|Double)'",
    ),
    Row(
        "CUDA computes it, the CPU refuses",
        "nansum|nanmean",
        "error: .*raises RuntimeError: nansum on CPU does not support complex inputs",
    ),
    Row(
        "a GPU lays out the results of these otherwise than the CPU; tools/contract.py has an H200's answers",
        r"fft\..*|attention|group_norm|conv.*|interpolate.*|.*pool.*",
        "stride of",
    ),
    Row(
        "a GPU lays out the gradients of these otherwise than the CPU",
        "gradient|backward",
        "stride of",
        "cpu:(virtual|mps|cuda)|cuda:host",
        r"torch\.fft\.|F\.conv|F\.scaled_dot_product|F\.group_norm|F\.interpolate|_pool\dd",
    ),
    Row(
        "which of several elements that are equally frequent is the mode is the device's own affair",
        "mode",
        "values of",
    ),
    Row(
        "reported: stock's kernel for the CPU ignores that a tensor is negated lazily",
        "max_pool1d",
        "(values|layout) of",
        BY_THE_CPU,
        r"_neg_view|\.imag",
    ),
    Row(
        "reported: stock's kernel for the CPU is wrong for expanded tensors",
        "(nan)?median( dim| indices)?",
        "(layout|values) of",
        BY_THE_CPU,
        r"expand|meshgrid|as_strided",
    ),
    Row(
        "reported: stock's kernel for the CPU reads an expanded weight beyond its end",
        "gradient|backward",
        "(layout|values) of",
        BY_THE_CPU,
        r"(v\d+) = [^\n]*\.expand\([^\n]*\n(?:[^\n]*\n)*?[^\n]*F\.batch_norm\([^\n]*\b\1\b",
    ),
    Row(
        "reported: a 0-d tensor in half precision decides the dtype",
        "xlogy_?|add|sub|rsub|operator [-+*/]|div|true_divide|mul|pow",
        "dtype of .*(16|complex32), reference (float32|float64|complex64|complex128|bfloat16|float16)",
        ".*:virtual",
    ),
)


def explain(steps: list[Step], difference: Difference, pair: str) -> str | None:
    """Find the reason for a difference in the last of these steps."""
    text = str(difference)
    for row in ROWS:
        if not (re.fullmatch(row.op, steps[-1].op) and re.search(row.text, text) and re.fullmatch(row.pair, pair)):
            continue
        if not row.program or re.search(row.program, "\n".join(step.code for step in steps)):
            return row.reason
    return None
