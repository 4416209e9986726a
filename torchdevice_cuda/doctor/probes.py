"""A call for each row of the table of refusals, which makes some release of torch raise that message on the Apple GPU.

Each runs on the GPU without patches, and on the CPU for the expected result. A release may have learned to compute it;
that is a finding, too. Rows without a possible call state the reason. They use methods, not Python's operators, because
Python replaces a TypeError in ``x + 1`` by its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

_BIG = "takes tensors of more than 2**31 elements"
_C64, _HALF = torch.complex64, torch.float16


@dataclasses.dataclass(frozen=True)
class Probe:
    """A call, given a function that moves a CPU tensor to the device that computes."""

    call: Callable[[Callable[[torch.Tensor], torch.Tensor]], Any]
    #: Its result is random: only shapes are compared.
    drawn: bool = False


def _m(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a matrix that every decomposition accepts."""
    made = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
    return made.to(dtype)


def _v(count: int = 6, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(1, count + 1).to(dtype)


def _ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype)


def _gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x).abs().sum(), x)[0]


def _lstm(go: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    weights = [_ones(16, 2) / 8, _ones(16, 2) / 8, _ones(16) / 8, _ones(16) / 8, _ones(2, 4) / 8]
    state = (go(torch.zeros(1, 1, 2)), go(torch.zeros(1, 1, 4)))
    arguments = (True, 1, 0.0, False, False, False)
    found: torch.Tensor = torch.lstm(go(_ones(3, 1, 2)), state, [go(weight) for weight in weights], *arguments)[0]
    return found


def _attention(size: int = 8, dropout: float = 0.0) -> Probe:
    return Probe(
        lambda go: functional.scaled_dot_product_attention(
            go(_ones(1, 2, 16, size)), go(_ones(1, 2, 16, size)), go(_ones(1, 2, 16, size)), dropout_p=dropout
        ),
        drawn=bool(dropout),
    )


def _sampled(dims: int, mode: str, padding: str) -> Probe:
    return Probe(
        lambda go: functional.grid_sample(
            go(_v(4**dims).reshape(1, 1, *[4] * dims)),
            go(torch.linspace(-1.2, 1.2, 2**dims * dims).reshape(1, *[2] * dims, dims)),
            mode=mode,
            padding_mode=padding,
            align_corners=False,
        )
    )


#: By the message of the row, with several calls if several operators have the message.
PROBES: dict[str, tuple[Probe, ...] | str] = {
    r"The operator '[^']+' is not currently (implemented|supported).* MPS": (
        Probe(lambda go: torch.linalg.eigvals(go(_m())).abs().sum()),
        Probe(lambda go: torch.ormqr(go(_m()), go(_v(3)), go(_m()))),
        Probe(lambda go: go(_v()).mode().values),
    ),
    r"Could not run '[^']+' with arguments from the 'QuantizedMPS' backend": (
        Probe(lambda go: go(torch.quantize_per_tensor(_v(), 0.5, 0, torch.qint8)).dequantize()),
    ),
    r"Could not run '[^']+' with arguments from the 'NestedTensorMPS' backend": (
        Probe(lambda go: torch.nested.as_nested_tensor([go(_v()), go(_v(2))]).neg().to_padded_tensor(0.0)),
    ),
    r"NestedTensorImpl storage must be either .* but got mps:?\d*": (
        Probe(lambda go: torch.nested.as_nested_tensor([go(_v()), go(_v(2))]).to_padded_tensor(0.0)),
    ),
    r"Could not run '[^']+' with arguments from the '\w*MPS' backend": (
        Probe(lambda go: torch.hspmm(go(_m().to_sparse()), go(_m())).to_dense()),
        Probe(lambda go: torch.log1p(go(_m().to_sparse())).to_dense()),
    ),
    r"Could not run 'new_compressed_tensor' from the 'mps:?\d*' device": (
        Probe(lambda go: torch.sparse_csr_tensor(go(torch.tensor([0, 1])), go(torch.tensor([0])), go(_v(1)), (1, 1))),
    ),
    r"only strided tensors are supported on MPS": "torch says so to its own C++ alone",
    r"Cannot convert a (MPS Tensor to float64 dtype|float64 Tensor to MPS)": (
        Probe(lambda go: go(_v(dtype=torch.float64)).add(1)),
        Probe(lambda go: go(_v()).to(torch.float64).add(1)),
    ),
    r"Trying to convert (Complex)?Double to the MPS backend": (
        Probe(lambda go: go(_v(dtype=torch.complex128)).add(1)),
    ),
    r"Trying to convert \w+ to the MPS backend but it does not have support for that dtype": (
        Probe(lambda go: go(_v().to(torch.float8_e4m3fn)).float()),
        Probe(lambda go: go(_v(dtype=torch.uint16)).long()),
    ),
    r"not supported on MPS": (Probe(lambda go: go(_v(dtype=torch.bfloat16)).add(1)),),
    r"(MPS BFloat16 is only supported on|Complex types are supported starting from) MacOS": (
        Probe(lambda go: go(_v(dtype=torch.bfloat16)).mul(2)),
        Probe(lambda go: go(_v(dtype=_C64)).mul(2)),
    ),
    r"\w_mps not implemented for ": (Probe(lambda go: torch.nextafter(go(_v(dtype=_HALF)), go(_v(dtype=_HALF)))),),
    r"MPSGr?aph does not support tensor dims larger": _BIG,
    r"Output channels > 65536 not supported at the MPS device": (
        Probe(lambda go: functional.conv1d(go(_ones(1, 1, 8)), go(_ones(65537, 1, 3)))),
    ),
    r"(larger|more) than 2\*\*\d+ (elements|entries)": _BIG,
    r"\btopk when ndims\(\) - axis > 4": (Probe(lambda go: go(_v(64).reshape([2] * 6)).topk(1, 0).values),),
    r"Adaptive pool MPS: ": (
        Probe(lambda go: functional.adaptive_avg_pool2d(go(_v(35).reshape(1, 1, 5, 7)), (3, 4))),
        Probe(lambda go: functional.adaptive_max_pool2d(go(_v(35).reshape(1, 1, 5, 7)), (7, 3))),
    ),
    r"MPS supports tensors with dimensions <= \d+": (Probe(lambda go: go(_ones(*[1] * 17)).add(1)),),
    r"only supported on MPS for MacOS": (
        Probe(lambda go: functional.conv3d(go(_ones(1, 1, 4, 4, 4)), go(_ones(1, 1, 3, 3, 3)))),
    ),
    r"for MPS does not support dropout": (_attention(dropout=0.5),),
    r"MPS doesn't allow ": (Probe(lambda go: torch.linalg.lu_factor(go(_m()), pivot=False)[0]),),
    r"sparse_grad not supported in MPS": (
        Probe(
            lambda go: _gradient(
                lambda x: x.gather(0, go(torch.tensor([[0, 1, 2]])), sparse_grad=True), go(_m())
            ).to_dense()
        ),
    ),
    r"not yet supported in MPS": (
        Probe(lambda go: go(_v(3)).scatter_reduce(0, go(torch.tensor([0, 1, 0])), go(_v(3)), "mean")),
    ),
    r"^LSTM with projections is not currently supported with MPS": (Probe(_lstm),),
    r"driver= is not supported on MPS": (Probe(lambda go: torch.linalg.svdvals(go(_m()), driver="gesvd")),),
    r": Unsupported (Bicubic interpolation|Nearest interpolation|Border padding mode)": (
        _sampled(2, "bicubic", "border"),
        _sampled(2, "bilinear", "border"),
        _sampled(3, "nearest", "zeros"),
        _sampled(3, "bilinear", "border"),
    ),
    r"dropout_p != 0.0 is not supported": (_attention(64, dropout=0.5),),
    r"(64-bit indexing|32-bit (iterator|indices)|exceeds 2\^32|exceeds [Mm]etal max)": _BIG,
    r"^conv3d: .* exceeds int32": _BIG,
    r"tensor rank > \d+ is not supported": (Probe(lambda go: go(_ones(*[1] * 17)).argmax()),),
    r"larger than (INT32_MAX|4Gb)": _BIG,
    r"half to float conversion is not supported on MPS": (
        Probe(lambda go: torch._softmax(go(_v(dtype=_HALF)), 0, True)),
        Probe(lambda go: go(_v(dtype=_HALF)).log_softmax(0, dtype=torch.float32)),
    ),
    r"not supported for tensors? (with|of) more than ": _BIG,
    r"(too large to stage in MPS|does not fit in) threadgroup memory": (
        Probe(lambda go: torch.linalg.eigvalsh(go(_ones(300, 300) + torch.diag(_v(300))))),
    ),
    r"(Only up to 16-dim tensors supported|limit allows up to 16 indices to be used in MPS)": (
        Probe(lambda go: go(_ones(*[1] * 17))[(go(torch.tensor([0])),) * 17]),
    ),
    r"^(MPS complex tensors conjugation needs|FFT operations are only supported on) MacOS": (
        Probe(lambda go: torch.fft.fft(go(_v()))),
        Probe(lambda go: go(_v(dtype=_C64)).conj().resolve_conj()),
    ),
    r"^random_mps_ currently does not handle ": (
        Probe(lambda go: go(_v(dtype=torch.int64)).random_(0, 1 << 40), drawn=True),
        Probe(lambda go: go(_v(dtype=torch.int64)).random_(-(1 << 63), None), drawn=True),
    ),
    r"^MPS _scaled_mm_v2 (only )?supports ": "an operator of torch's own, for float8, that programs do not call",
    r"^Unsupported head_dim for (MPP|prefill) attention": (_attention(512), _attention(24)),
    r"(not (implemented|supported)|unsupported) .*(on|for|in) MPS": (
        Probe(
            lambda go: functional.conv_transpose3d(
                go(_ones(1, 1, 3, 3, 3, dtype=_HALF)), go(_ones(1, 1, 2, 2, 2, dtype=_HALF))
            )
        ),
    ),
    r"MPS: .*not (implemented|supported)": (Probe(lambda go: go(_v(dtype=torch.int64)).sort(descending=True).values),),
    r"\bMPS\b.* (does not|doesn't) support ": (
        Probe(lambda go: go(_m(torch.int64)).addr(go(_v(3, torch.int64)), go(_v(3, torch.int64)))),
        Probe(lambda go: go(_m(torch.int64)) @ go(_m(torch.int64))),
        Probe(lambda go: go(_v(dtype=torch.int64)).dot(go(_v(dtype=torch.int64)))),
        Probe(
            lambda go: go(_v(3, torch.int64)).index_reduce(0, go(torch.tensor([0, 1])), go(_v(2, torch.int64)), "prod")
        ),
        Probe(lambda go: torch.linalg.lu_factor(go(_m(_C64)))[0]),
    ),
    r"\bMPS only supports float": (
        Probe(lambda go: torch.cholesky_inverse(go(_m(_C64)))),
        Probe(lambda go: torch.linalg.solve(go(_m(_C64)), go(_m(_C64)))),
    ),
    r"^linalg_qr: MPS currently supports float32 only": (
        Probe(lambda go: torch.matmul(*torch.linalg.qr(go(_m(_C64))))),
    ),
    r"^linalg\.solve\.triangular\(\); Only float is supported": (
        Probe(lambda go: torch.linalg.solve_triangular(go(_m(_C64)), go(_m(_C64)), upper=True)),
    ),
    r"\bMPS\b.* (natively starting from|Support has been added in) macOS": (
        Probe(lambda go: go(_v(dtype=torch.int64)).cumsum(0)),
        Probe(lambda go: go(_v(dtype=torch.int64)).pow(2)),
        Probe(lambda go: go(_v(dtype=torch.uint8)).bitwise_not()),
    ),
    r"\w_mps\"? (not implemented for|is only implemented for) ": (
        Probe(lambda go: torch.addcmul(*(go(_v(dtype=torch.bool)) for _ in range(3)))),
        Probe(lambda go: torch.histc(go(_v(dtype=torch.int64)).float(), 3)),
    ),
    r"^Convolution is supported only for Floating types": (
        Probe(lambda go: functional.conv2d(go(_ones(1, 1, 4, 4).int()), go(_ones(1, 1, 3, 3).int()))),
    ),
    r"^linalg_inv: not supported for complex types yet": (Probe(lambda go: torch.linalg.inv(go(_m(_C64)))),),
    r"^Failed to create function state object for: \w+": (
        Probe(lambda go: torch.cat([go(_v(dtype=torch.int64)), go(_v(dtype=torch.bfloat16))])),
    ),
    r"^Undefined type \w+": (Probe(lambda go: go(_v(dtype=torch.complex32)).add(go(_v(dtype=torch.complex32)))),),
    r"\bMPS\b.* supports (only )?float32": (
        Probe(lambda go: torch.geqrf(go(_m(_C64)))[0].triu().abs()),
        Probe(lambda go: torch.linalg.svdvals(go(_m(_C64)))),
    ),
    r"\bMPS doesn't know how to do ": (
        Probe(lambda go: go(_v(dtype=torch.int64)).erf()),
        Probe(lambda go: go(_v(dtype=torch.bool)).sinc()),
    ),
    r"^Not implemented for (complex|long|MPS)": (
        Probe(lambda go: torch.linalg.cross(go(_v(3, torch.int64)), go(_v(3, torch.int64)))),
        Probe(lambda go: go(_v(dtype=_C64)).prod()),
    ),
    r"\(\)[:;] (Yet not|Not) supported for complex": (
        Probe(lambda go: go(_v(dtype=_C64)).index_add(0, go(torch.tensor([0])), go(_v(1, _C64)))),
        Probe(lambda go: go(_v(dtype=_C64)).masked_fill(go(_v()) > 2, 1j)),
        Probe(lambda go: go(_v(dtype=_C64)).index_select(0, go(torch.tensor([1, 0])))),
    ),
    r"^(cumulative|norm) ops are not (yet )?supported for complex": (
        Probe(lambda go: go(_v(dtype=_C64)).cumsum(0)),
        Probe(lambda go: go(_v(dtype=_C64)).cumprod(0)),
        Probe(lambda go: torch.linalg.vector_norm(go(_v(dtype=_C64)))),
    ),
    r"^index_fill_\(\): Complex types are yet not supported": (
        Probe(lambda go: go(_v(dtype=_C64)).index_fill(0, go(torch.tensor([1])), 2j)),
    ),
    r"^mps linear does not support complex types": (Probe(lambda go: functional.linear(go(_m(_C64)), go(_m(_C64)))),),
    r"^Long batch norm is not supported with MPS": (
        Probe(lambda go: functional.batch_norm(go(_m(torch.int64)), go(_v(3)), go(_v(3)))),
    ),
    r"^Unsupported data type( for accumulate case)?: ": tuple(
        Probe(
            lambda go, dtype=dtype: go(_v(dtype=dtype)).index_put(  # type: ignore[misc]
                (go(torch.tensor([0, 0])),), go(_v(2, dtype)), accumulate=True
            )
        )
        for dtype in (_HALF, torch.int64, torch.bool)
    ),
    r"Unsupported scalar type '\w+' on MPS backend": (
        Probe(lambda go: go(_v(dtype=torch.uint32)).long()),
        Probe(lambda go: go(_v(dtype=torch.uint64)).long()),
    ),
    r"^(mps_linear_backward: unsupported weights data |sdpa prefill:unsupported d)type": (
        Probe(lambda go: _gradient(lambda x: functional.linear(x, go(_m(_C64))), go(_m(_C64)))),
    ),
    r"^_compute_linear_combination: unsupported dtype": (Probe(lambda go: torch.matrix_exp(go(_m(_C64)) / 4)),),
    r"^(torch.int32 is only supported on MacOS15|not supported for torch.int64)": (
        Probe(lambda go: go(_v(dtype=torch.int64)).scatter_add(0, go(torch.tensor([0, 0])), go(_v(2, torch.int64)))),
        Probe(lambda go: go(_v(dtype=torch.int32)).scatter_add(0, go(torch.tensor([0, 0])), go(_v(2, torch.int32)))),
        Probe(lambda go: go(_v(dtype=torch.int64)).amax()),
    ),
    r"only works on floating types on MPS for pre MacOS": (
        Probe(lambda go: go(_v(dtype=torch.int64)).median()),
        Probe(lambda go: torch.isin(go(_v(dtype=torch.int64)), go(torch.tensor([1, 2])))),
    ),
    r"not supported for index.Tensor_out": (Probe(lambda go: go(_v(dtype=_C64))[go(torch.tensor([2, 1]))]),),
    r"^MPS (bfloat16 type is|complex types are only) supported on MacOS": (
        Probe(lambda go: go(_v(dtype=torch.bfloat16)).sum()),
        Probe(lambda go: go(_v(dtype=_C64)).sum()),
    ),
}
