"""Differences that have a reason: each row is narrow, and what it explains is counted."""

from __future__ import annotations

import dataclasses
import re

from comparing import Difference
from program import Step


#: (reference):(device), as regular expressions. "host" is the CPU of stock torch.
GPU_AND_CPU = "cpu:(virtual|cuda)|cuda:host"
ANY = ".*"


@dataclasses.dataclass(frozen=True)
class Row:
    """A difference that is known."""

    reason: str
    #: what the operator's name matches
    op: str
    #: what the difference's text matches
    text: str
    #: what the two sides match
    pair: str = GPU_AND_CPU
    #: what the step's line matches
    code: str = ""


ROWS: tuple[Row, ...] = (
    Row(
        "which dtypes a kernel takes differs between the CPU and CUDA; tools/contract.py has an H200's answers",
        ".*",
        r"error: .*not implemented for '(Half|BFloat16|Bool|Complex\w*|Char|Byte|Short|Int|Long|Float|Double)'",
    ),
    Row(
        "a GPU lays out the results of these otherwise than the CPU; tools/contract.py has an H200's answers",
        "fft.*|attention|group_norm|conv.*|linear|interpolate.*|.*pool.*",
        "stride of",
    ),
    Row("a GPU's libraries lay out gradients of convolutions otherwise than the CPU's", "gradient|backward", "stride of"),
    Row("which of several elements that are equally frequent is the mode is the device's own affair", "mode", "values of"),
    Row("CUDA computes it, the CPU refuses", "nansum|nanmean", "error: .*raises RuntimeError: nansum on CPU does not support"),
    Row(
        "reported: stock's kernel for the CPU ignores the bits of tensors that are negated lazily; the device does not",
        "max_pool1d",
        "values of",
    ),
    Row(
        "reported: stock's kernel for the CPU is wrong for expanded tensors, and the device has it",
        "(nan)?median( dim| indices)?",
        "(layout|values) of",
        ".*",
    ),
    Row(
        "reported: a 0-d tensor in half precision decides the dtype (widening.cpp)",
        "xlogy_?|add|sub|rsub|operator [-+]",
        "dtype of .*(16|complex32), reference (float32|float64|complex64|complex128|bfloat16|float16)",
    ),
)


def explain(step: Step, difference: Difference, pair: str) -> str | None:
    """Find the reason for a difference."""
    text = str(difference)
    for row in ROWS:
        if re.fullmatch(row.op, step.op) and re.search(row.text, text) and re.fullmatch(row.pair, pair):
            if not row.code or re.search(row.code, step.code):
                return row.reason
    return None
