"""Messages of the Apple GPU's backend for unsupported calls, which identify a refusal.

An error is a refusal only if its type and its message are in this table. All other errors (wrong shapes, wrong
arguments, out of memory) belong to the program.
"""

from __future__ import annotations

import dataclasses
import re

import torch


@dataclasses.dataclass(frozen=True)
class Evidence:
    """One kind of refusal by the backend."""

    kind: str
    type: type[BaseException]
    words: re.Pattern[str]


def _row(kind: str, error: type[BaseException], words: str) -> Evidence:
    return Evidence(kind, error, re.compile(words))


NO_KERNEL, NO_LAYOUT, NO_DOUBLE, NO_DTYPE = "no kernel", "no such layout", "no float64", "no such dtype"
NO_QUANTIZED, NO_NESTED = "no quantized tensors", "no nested tensors"
#: A refusal of shapes or options: another call of the same operator may succeed.
LIMIT = "a limit of Metal"
#: The dtypes that replace those refused as ``NO_DOUBLE``, since Metal has no doubles: the same kind of number with half
#: the bits. Results that the CPU computed in full precision return to the GPU in these.
NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}
#: Refusals of a dtype or an operator, which will be repeated.
LASTING = frozenset({NO_KERNEL, NO_DTYPE, NO_DOUBLE})

#: In the order in which they are tried; ``RuntimeError`` includes ``NotImplementedError``.
TABLE: tuple[Evidence, ...] = (
    _row(NO_KERNEL, NotImplementedError, r"The operator '[^']+' is not currently (implemented|supported).* MPS"),
    _row(NO_QUANTIZED, NotImplementedError, r"Could not run '[^']+' with arguments from the 'QuantizedMPS' backend"),
    _row(NO_NESTED, NotImplementedError, r"Could not run '[^']+' with arguments from the 'NestedTensorMPS' backend"),
    _row(NO_NESTED, RuntimeError, r"NestedTensorImpl storage must be either .* but got mps:?\d*"),
    _row(NO_KERNEL, NotImplementedError, r"Could not run '[^']+' with arguments from the '\w*MPS' backend"),
    _row(NO_LAYOUT, NotImplementedError, r"Could not run 'new_compressed_tensor' from the 'mps:?\d*' device"),
    _row(NO_LAYOUT, NotImplementedError, r"only strided tensors are supported on MPS"),
    _row(NO_DOUBLE, TypeError, r"Cannot convert a (MPS Tensor to float64 dtype|float64 Tensor to MPS)"),
    _row(NO_DOUBLE, TypeError, r"Trying to convert (Complex)?Double to the MPS backend"),
    _row(NO_DTYPE, TypeError, r"Trying to convert \w+ to the MPS backend but it does not have support for that dtype"),
    _row(NO_DTYPE, TypeError, r"not supported on MPS"),
    _row(NO_DTYPE, TypeError, r"(MPS BFloat16 is only supported on|Complex types are supported starting from) MacOS"),
    _row(NO_DTYPE, TypeError, r"\w_mps not implemented for "),
    _row(LIMIT, RuntimeError, r"MPSGr?aph does not support tensor dims larger"),  # 2.9 to 2.12 write MPSGaph
    _row(LIMIT, RuntimeError, r"Output channels > 65536 not supported at the MPS device"),
    _row(LIMIT, RuntimeError, r"(larger|more) than 2\*\*\d+ (elements|entries)"),
    _row(LIMIT, RuntimeError, r"\btopk when ndims\(\) - axis > 4"),  # before 2.13
    _row(LIMIT, RuntimeError, r"Adaptive pool MPS: "),
    _row(LIMIT, RuntimeError, r"MPS supports tensors with dimensions <= \d+"),
    _row(LIMIT, RuntimeError, r"only supported on MPS for MacOS"),
    _row(LIMIT, RuntimeError, r"for MPS does not support dropout"),
    _row(LIMIT, RuntimeError, r"MPS doesn't allow "),
    _row(LIMIT, RuntimeError, r"sparse_grad not supported in MPS"),
    _row(LIMIT, RuntimeError, r"not yet supported in MPS"),  # also, before 2.13, scatter_reduce's mean
    _row(LIMIT, RuntimeError, r"^LSTM with projections is not currently supported with MPS"),
    _row(LIMIT, RuntimeError, r"driver= is not supported on MPS"),
    _row(LIMIT, RuntimeError, r": Unsupported (Bicubic interpolation|Nearest interpolation|Border padding mode)"),
    _row(LIMIT, RuntimeError, r"dropout_p != 0.0 is not supported"),
    _row(LIMIT, RuntimeError, r"(64-bit indexing|32-bit (iterator|indices)|exceeds 2\^32|exceeds [Mm]etal max)"),
    _row(LIMIT, RuntimeError, r"^conv3d: .* exceeds int32"),
    _row(LIMIT, RuntimeError, r"tensor rank > \d+ is not supported"),
    _row(LIMIT, RuntimeError, r"larger than (INT32_MAX|4Gb)"),
    _row(LIMIT, RuntimeError, r"half to float conversion is not supported on MPS"),
    _row(LIMIT, RuntimeError, r"not supported for tensors? (with|of) more than "),
    _row(LIMIT, RuntimeError, r"(too large to stage in MPS|does not fit in) threadgroup memory"),
    _row(LIMIT, RuntimeError, r"(Only up to 16-dim tensors supported|limit allows up to 16 indices to be used in MPS)"),
    _row(LIMIT, RuntimeError, r"^(MPS complex tensors conjugation needs|FFT operations are only supported on) MacOS"),
    _row(LIMIT, RuntimeError, r"^random_mps_ currently does not handle "),
    _row(LIMIT, RuntimeError, r"^MPS _scaled_mm_v2 (only )?supports "),
    _row(LIMIT, RuntimeError, r"^Unsupported head_dim for (MPP|prefill) attention"),
    _row(NO_DTYPE, RuntimeError, r"(not (implemented|supported)|unsupported) .*(on|for|in) MPS"),
    _row(NO_DTYPE, RuntimeError, r"MPS: .*not (implemented|supported)"),
    _row(NO_DTYPE, RuntimeError, r"\bMPS\b.* (does not|doesn't) support "),
    _row(NO_DTYPE, RuntimeError, r"\bMPS only supports float"),
    _row(NO_DTYPE, RuntimeError, r"^linalg_qr: MPS currently supports float32 only"),
    _row(NO_DTYPE, RuntimeError, r"^linalg\.solve\.triangular\(\); Only float is supported"),
    _row(NO_DTYPE, RuntimeError, r"\bMPS\b.* (natively starting from|Support has been added in) macOS"),
    _row(NO_DTYPE, RuntimeError, r"\w_mps\"? (not implemented for|is only implemented for) "),
    _row(NO_DTYPE, RuntimeError, r"^Convolution is supported only for Floating types"),
    _row(NO_DTYPE, RuntimeError, r"^linalg_inv: not supported for complex types yet"),
    _row(NO_DTYPE, RuntimeError, r"^Failed to create function state object for: \w+"),
    _row(NO_DTYPE, RuntimeError, r"^Undefined type \w+"),
    _row(NO_DTYPE, RuntimeError, r"\bMPS\b.* supports (only )?float32"),
    _row(NO_DTYPE, RuntimeError, r"\bMPS doesn't know how to do "),
    _row(NO_DTYPE, RuntimeError, r"^Not implemented for (complex|long|MPS)"),
    _row(NO_DTYPE, RuntimeError, r"\(\)[:;] (Yet not|Not) supported for complex"),
    _row(NO_DTYPE, RuntimeError, r"^(cumulative|norm) ops are not (yet )?supported for complex"),
    _row(NO_DTYPE, RuntimeError, r"^index_fill_\(\): Complex types are yet not supported"),
    _row(NO_DTYPE, RuntimeError, r"^mps linear does not support complex types"),
    _row(NO_DTYPE, RuntimeError, r"^Long batch norm is not supported with MPS"),
    _row(NO_DTYPE, RuntimeError, r"^Unsupported data type( for accumulate case)?: "),
    _row(NO_DTYPE, RuntimeError, r"Unsupported scalar type '\w+' on MPS backend"),
    _row(NO_DTYPE, RuntimeError, r"^(mps_linear_backward: unsupported weights data |sdpa prefill:unsupported d)type"),
    _row(NO_DTYPE, RuntimeError, r"^_compute_linear_combination: unsupported dtype"),
    _row(NO_DTYPE, RuntimeError, r"^(torch.int32 is only supported on MacOS15|not supported for torch.int64)"),
    _row(NO_DTYPE, RuntimeError, r"only works on floating types on MPS for pre MacOS"),
    _row(NO_DTYPE, RuntimeError, r"not supported for index.Tensor_out"),
    _row(NO_DTYPE, TypeError, r"^MPS (bfloat16 type is|complex types are only) supported on MacOS"),
)


def refusal(error: BaseException) -> str | None:
    """Return the kind of refusal of an error, ``None`` if it is not a refusal."""
    text = str(error)
    for evidence in TABLE:
        if isinstance(error, evidence.type) and evidence.words.search(text):
            return evidence.kind
    return None
