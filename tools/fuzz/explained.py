"""Differences that have a reason: each row is narrow, and what it explains is counted."""

from __future__ import annotations

import dataclasses
import functools
import lzma
import re
from pathlib import Path

from comparing import Difference
from program import Step

_RECORD = Path(__file__).resolve().parents[2] / "tests" / "data" / "operators-cuda-2.11.json.xz"
#: (reference):(device), as regular expressions. "host" is the CPU of stock torch.
ANY = ".*"
GPU_AND_CPU = "cpu:(virtual|cuda)|cuda:host"
#: A fault of the CPU's kernels, which drivers that use them have.
BY_THE_CPU = "cpu:(virtual|mps|cpu|host)|cuda:.*"
#: One that the virtual GPU works around, so that it differs from the CPU, and from a GPU only where others do.
WORKED_AROUND = "cpu:(virtual|mps|cpu|host)|cuda:(mps|cpu|host)"


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
    #: whether the kernel and the dtype that the device names have to be among the refusals of the record
    is_recorded: bool = False


_REFUSES = r"(\w+)\W* not implemented for '(\w+)'"
#: What an H200 was seen to do, and the virtual GPU does not do yet. Each goes when it does.
_H200 = "cuda:virtual"
ROWS: tuple[Row, ...] = (
    Row(
        "the CPU has no kernel for a dtype, and CUDA has one",
        ANY,
        r"error: reference raises \w+: \S* ?not implemented for '\w+'; device computes",
        "cpu:(virtual|cuda)",
    ),
    Row(
        "CUDA has no kernel for a dtype: an H200 refused it, too, when the operators were recorded (tools/record)",
        ANY,
        _REFUSES,
        "cpu:virtual",
        is_recorded=True,
    ),
    Row("which dtypes a kernel takes differs between the CPU and CUDA", ANY, _REFUSES, "cpu:cuda|cuda:host"),
    Row(
        "CUDA computes it, the CPU refuses",
        "nansum|nanmean",
        "error: .*raises RuntimeError: nansum on CPU does not support complex inputs",
    ),
    Row(
        "a GPU lays out the results of these otherwise than the CPU; tools/record has an H200's answers",
        r"fft\..*|attention|group_norm|conv.*|interpolate.*|.*pool.*",
        "stride of",
    ),
    Row("how a gradient is laid out is not promised", "gradient|backward", "stride of", ANY),
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
        "stock's kernel for the CPU is wrong for expanded tensors",
        "(nan)?median( dim| indices)?",
        "(layout|values) of",
        WORKED_AROUND,
        r"expand|meshgrid|as_strided",
    ),
    Row(
        "stock's kernel for the CPU reads a weight that is not contiguous as if it were",
        "gradient|backward",
        "(layout|values) of",
        WORKED_AROUND,
        r"(v\d+) = [^\n]*(?:\.expand\(|\)\[|as_strided)[^\n]*\n(?:[^\n]*\n)*?[^\n]*F\.batch_norm\([^\n]*\b\1\b",
    ),
    Row(
        "CUDA's constants of these are float32's, whatever the dtype, and so are those of the CPU's gradients",
        "hardsigmoid|hardswish",
        r"values of .*\(float64",
        "cuda:.*",
    ),
    Row(
        "which of several equal elements is the median, and so has the gradient, is the device's own affair",
        "gradient|backward",
        "values of",
        "cuda:.*",
        r"torch\.(nan)?median\(",
    ),
    Row(
        "what a complex number divided by zero is, is the device's own affair",
        "div_?|operator /",
        "values of .*complex",
        "cuda:.*",
    ),
    Row(
        "what is written into another dtype is computed in the one of the inputs on CUDA, or in that of out=",
        "logaddexp2?|cos|sin|tan|exp|log.*|sqrt|erf|rad2deg|deg2rad|sigmoid|tanh",
        r"values of .*\((float64|float32)",
        "cuda:.*",
        r"out=",
    ),
    Row(
        "the difference of an element and its own mean is rounded before it is divided by a variance of zero",
        "(group|batch|instance)_norm",
        "values of",
        "cuda:.*",
    ),
    Row(
        "stock's kernel for the CPU copies float32 into float16 without looking at the bit that negates it",
        "copy_|setitem.*|to",
        r"(values|layout) of .*\((b?float16|float32)",
        WORKED_AROUND,
        r"_neg_view|\.imag",
    ),
    Row(
        "an H200's convolutions were recorded with TF32",
        "gradient|backward|conv.*",
        r"values of .*\(float32",
        "cuda:.*",
        r"F\.conv",
    ),
    Row("torch 2.11 has no such derivative", "gradient|backward", "aten::aminmax is not implemented", "cuda:.*"),
    Row("an argument may be another by whole turns", "logcumsumexp", "values of .*complex", "cuda:.*"),
    Row(
        "a NaN among gradients of the least or greatest element reaches others on a GPU",
        "gradient|backward",
        "(values|layout) of .*: (nan|.*, reference nan)",
        ANY,
        r"torch\.(min|max|amin|amax)\(",
    ),
    Row(
        "reported: an H200 refuses these, where there is nothing to compute or how they are laid out",
        "channel_shuffle|vdot|dot|gradient|backward",
        "error: reference raises .*(view size is not compatible|'Long'|embedding_bag_backward_cuda_max)",
        "cuda:(virtual|host)",
    ),
    Row(
        "a kernel that adds to a list reads an operand that it is about to write",
        "_foreach_add_",
        "values of",
        "cuda:.*",
    ),
    Row(
        "bits of results that may differ by rounding, seen as whole numbers",
        ANY,
        r"values of .*\(int",
        "cuda:.*",
        r"\.view\(torch\.int",
    ),
    Row(
        "reported: what is computed in float32 and rounded is laid out otherwise than the CPU does",
        ".*_loss|bce.*|hinge|soft_margin|i?add_?|sub_?|rsub|mul|div|true_divide|xlogy|pow|floor_divide|operator .*"
        "|logit|round",
        r"stride of .*\(b?float16",
        ".*:virtual",
    ),
    Row(
        "CUDA fills an expanded tensor, and the CPU refuses",
        "setitem.*|fill_",
        "error: .*more than one element of the written-to tensor",
        "cuda:host|cpu:virtual",
    ),
    Row(
        "reported: CUDA refuses to add to an expanded tensor by indices",
        "index_put_",
        "error: .*more than one element of the written-to tensor",
        "cuda:(virtual|host)",
    ),
    Row(
        "reported: CUDA asks for the dtype of out=, or for none where there is nothing to compute",
        "logaddexp2?|logcumsumexp|angle|(nan)?median( dim)?",
        "error: .*not implemented for",
        _H200,
    ),
    Row(
        "reported: an H200 lays out the results of these otherwise",
        "(batch|group)_norm|unique dim|channel_shuffle|pixel_shuffle|roll|pad (reflect|replicate)|logsigmoid"
        "|operator .*|gcd|minimum|maximum|logaddexp2?|bitwise_.*",
        "stride of",
        "cuda:(virtual|host)",
    ),
    Row(
        "reported: torch.equal of a tensor with itself does not look at its values on CUDA",
        "equal",
        "values of",
        "cuda:.*",
    ),
    Row(
        "CUDA's normalization keeps its input for the gradient; the CPU's is made of operators that do not",
        "gradient|backward",
        "modified by an inplace operation",
        "cpu:(virtual|cuda)",
        r"F\.rms_norm\(",
    ),
    Row("reported: the median of no truths", "(nan)?median", r"values of .*\(bool\[\]\)", "cpu:virtual"),
)


@functools.cache
def _list_refusals() -> frozenset[tuple[str, str]]:
    """List the kernels of an H200's that refuse a dtype, and the dtype, as its messages name them."""
    with lzma.open(_RECORD, "rt") as file:
        return frozenset(re.findall(_REFUSES, file.read()))


def _is_recorded(text: str) -> bool:
    """Tell whether the device refuses a dtype as an H200 does."""
    refused = re.search(_REFUSES, text.partition("device raises")[2])
    return refused is not None and refused.groups() in _list_refusals()


def explain(steps: list[Step], difference: Difference, pair: str) -> str | None:
    """Find the reason for a difference in the last of these steps."""
    text = str(difference)
    for row in ROWS:
        if not (re.fullmatch(row.op, steps[-1].op) and re.search(row.text, text) and re.fullmatch(row.pair, pair)):
            continue
        if row.is_recorded and not _is_recorded(text):
            continue
        if not row.program or re.search(row.program, "\n".join(step.code for step in steps)):
            return row.reason
    return None
