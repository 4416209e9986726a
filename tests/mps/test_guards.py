"""Limits that show at run time: recognised by the table, remembered, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, child
from torch import nn
from torch.nn import functional

import torchdevice_cuda
from torchdevice_cuda.fallback import refusals
from torchdevice_cuda.fallback.guards import Guard

from .seeing import real

on_mps = child(MPS_FAITHFUL)

#: Words of PyTorch's MPS sources (aten/src/ATen/mps, aten/src/ATen/native/mps), of several versions, by what they mean.
COMPATIBILITY: dict[str, list[Exception]] = {
    refusals.NO_KERNEL: [
        NotImplementedError("The operator 'aten::mode' is not currently implemented for the MPS device. If you want"),
        NotImplementedError("Could not run 'aten::hspmm' with arguments from the 'SparseMPS' backend. This could be"),
    ],
    refusals.NO_LAYOUT: [
        NotImplementedError("Could not run 'new_compressed_tensor' from the 'mps:0' device.)"),
        NotImplementedError("only strided tensors are supported on MPS"),
    ],
    refusals.NO_DOUBLE: [
        TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please"),
        TypeError("Cannot convert a float64 Tensor to MPS as the MPS framework doesn't support float64. Please use"),
        TypeError("Trying to convert ComplexDouble to the MPS backend but it does not have support for that dtype."),
    ],
    refusals.NO_DTYPE: [
        TypeError("Trying to convert Float8_e4m3fn to the MPS backend but it does not have support for that dtype."),
        TypeError("Trying to convert UInt16 to the MPS backend but it does not have support for that dtype."),
        TypeError("BFloat16 is not supported on MPS"),
        TypeError("MPS BFloat16 is only supported on MacOS 14 or newer"),
        TypeError("Complex types are supported starting from MacOS 14.0+"),
        TypeError("nextafter_mps not implemented for non-floating types"),
        NotImplementedError("addcmul_mps not implemented for 'Bool'"),
        NotImplementedError("\"histogram_mps\" not implemented for 'Int'"),
        RuntimeError("MPS does not support cumsum op with int64 input. Support has been added in macOS 13.3"),
        RuntimeError("MPS does not support sigmoid op with int64 input"),
        RuntimeError("MPS does not support erfinv op with scalar type: Double"),
        RuntimeError("MPS: does not support trunc_divide op with float16 input"),
        RuntimeError("MPS: dot op doesn't support int64 input"),
        RuntimeError("MPS: power op with int64 input is supported natively starting from macOS 13.2"),
        RuntimeError("MPS support unary op with uint8 natively starting from macOS 13.0"),
        RuntimeError("MPS device does not support linear for non-float inputs"),
        RuntimeError("MPS device does not support mm for non-float inputs"),
        RuntimeError("MPS device does not support addbmm or baddbmm for this input type"),
        RuntimeError("index_reduce for MPS does not support torch.long dtype"),
        RuntimeError("linalg.lu_factor(): MPS doesn't support complex types."),
        RuntimeError("linalg.lu_factor(): MPS only supports floats."),
        RuntimeError("cholesky_inverse: MPS only supports float type"),
        RuntimeError("linalg_inv: not supported for complex types yet!"),
        RuntimeError("linalg_qr: MPS currently supports float32 only"),
        RuntimeError("linalg.solve.triangular(); Only float is supported!"),
        RuntimeError("MPS device does not support addr for non-float input"),
        RuntimeError("Convolution is supported only for Floating types"),
        RuntimeError("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS"),
        RuntimeError("frac_out_mps is only implemented for floating types"),
        RuntimeError("float64 is not supported on MPS"),
        RuntimeError("Undefined type BFloat16"),
        RuntimeError("Failed to create function state object for: cat_int64_t_bfloat"),
        RuntimeError("geqrf: MPS currently supports float32 only"),
        RuntimeError("linalg.svd: the MPS backend supports only float32 and complex64. Got Half"),
        RuntimeError("linalg.solve.triangular(); Not supported for complex yet!"),
        RuntimeError("linalg.solve.triangular(); Only float is supported!"),
        RuntimeError("cumulative ops are not yet supported for complex"),
        RuntimeError("mps linear does not support complex types"),
        RuntimeError("mps_linear_backward: unsupported weights data type: ComplexFloat"),
        RuntimeError("index_fill_(): Complex types are yet not supported"),
        RuntimeError("Unsupported data type for accumulate case: half"),
        RuntimeError("torch.int32 is only supported on MacOS15+"),
        NotImplementedError("MPS doesn't know how to do exponent_i64"),
        NotImplementedError("Not implemented for long on MPS"),
        NotImplementedError("Not implemented for MPS"),
        TypeError("MPS bfloat16 type is supported on MacOS 14.0 or newer."),
    ],
    refusals.LIMIT: [
        NotImplementedError("Output channels > 65536 not supported at the MPS device. "),
        NotImplementedError(
            "Adaptive pool MPS: input sizes must be divisible by output sizes. Non-divisible input sizes"
        ),
        NotImplementedError(
            "Adaptive pool MPS: Input height and width must both be greater than, or equal to, or lesser"
        ),
        NotImplementedError("scaled_dot_product_attention for MPS does not support dropout"),
        RuntimeError("MPSGraph does not support tensor dims larger than INT_MAX"),
        RuntimeError("MPS supports tensors with dimensions <= 16, but got 17."),
        RuntimeError("Conv3D is only supported on MPS for MacOS_13_2 or newer"),
        RuntimeError("linalg.lu_factor(): MPS doesn't allow pivot == False."),
        RuntimeError("sparse_grad not supported in MPS yet"),
        RuntimeError("MPSGaph does not support tensor dims larger than INT_MAX"),
        RuntimeError("MPS: Unsupported Border padding mode"),
        RuntimeError("grid_sampler_3d: Unsupported Nearest interpolation"),
        RuntimeError("LSTM with projections is not currently supported with MPS."),
        RuntimeError("linalg.svd: driver= is not supported on MPS."),
        RuntimeError("Output dim sizes larger than 2**32 elements for matmul not supported on MPS device."),
        RuntimeError("Tiling of batch matmul for larger than 2**32 entries only available from MacOS15 onwards"),
        RuntimeError("MPS pooling does not support tensors that require 64-bit indexing"),
        RuntimeError("log_softmax with half to float conversion is not supported on MPS"),
        RuntimeError("Scatter reduce mean mode not yet supported in MPS"),
        RuntimeError("On-going issue on MPSGraph topk when ndims() - axis > 4, see issue #154890"),
        RuntimeError("linalg.eigh: matrix too large to stage in MPS threadgroup memory (300)"),
        RuntimeError("conv3d: kernel volume times channels per group exceeds int32"),
        RuntimeError("argmax_out: tensor rank > 16 is not supported"),
        RuntimeError("softmax with half to float conversion is not supported on MPS"),
    ],
}
#: Words of the same sources, and of others, that are about the program.
GENERAL = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    RuntimeError("MPS backend out of memory (MPS allocated: 1.00 GB, max allowed: 2.00 GB). Tried to allocate 3.00 GB"),
    RuntimeError("Invalid buffer size: 60.04 GiB"),
    RuntimeError("Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"),
    RuntimeError("Placeholder storage has not been allocated on MPS device!"),
    RuntimeError("Passed CPU tensor to MPS op"),
    RuntimeError("Tensor for argument input is on cpu but expected on mps"),
    RuntimeError("Output tensor is not MPS"),
    RuntimeError("slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on the same device"),
    RuntimeError("PyTorch code is not compiled with MPS enabled"),
    RuntimeError("The MPS backend is supported on MacOS 13.0+.Current OS version can be queried using `sw_vers`"),
    RuntimeError("Expected a 'mps' device type for generator but found 'cpu'"),
    RuntimeError("expected mat1 and mat2 to have the same dtype, but got: float != int"),
    RuntimeError("Incompatible matrix sizes for bmm (2x3 and 2x3)"),
    RuntimeError("batch1 must be a 3D tensor"),
    RuntimeError("gather(): self and output must have the same scalar type"),
    RuntimeError("solve(): Linear solve failed at the 1 sample with status: -2. See https://developer.apple.com/"),
    RuntimeError("Expected wrapped dim to be between 0 and 2 but got 5(original dim is 5)"),
    RuntimeError("derivative for aten::linear_backward is not implemented"),
    NotImplementedError("\"histogram_cpu\" not implemented for 'Int'"),
    TypeError("sum() received an invalid combination of arguments"),
    IndexError("The operator 'aten::mode' is not currently implemented for the MPS device"),
    ValueError("Undefined type BFloat16"),
]


@pytest.mark.parametrize(
    "kind, error", [(kind, error) for kind, errors in COMPATIBILITY.items() for error in errors], ids=str
)
def test_refusals(kind: str, error: Exception) -> None:
    assert refusals.refusal(error) == kind


@pytest.mark.parametrize("error", GENERAL, ids=str)
def test_errors_of_the_program(error: Exception) -> None:
    assert refusals.refusal(error) is None


class _Watched:
    """A guarded function, where it was asked, and what was told of its leaving the GPU.

    Refusals are remembered by its name: each test has one of its own.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.asked: list[str] = []
        self.left: list[tuple[str, ...]] = []
        self._function = function
        self.guarded = Guard(torch.device("mps", 0), lambda *row: self.left.append(row)).function(name, self._ask)

    def _ask(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(x.device.type)
        return self._function(x, *args, **kwargs)


def _sort(x: torch.Tensor, dim: int = -1, out: Any = None) -> Any:
    if real(x) == "mps" and x.dtype is torch.int64:
        raise RuntimeError("MPS: sort for int64 is not supported")
    if dim > 3:
        raise RuntimeError("dim out of range")
    return torch._C._VariableFunctions.sort(x, dim, out=out)


def _integers() -> torch.Tensor:
    return torch.tensor([3, 1, 2], device="cuda")


@on_mps
def test_a_refusal_is_tried_once() -> None:
    sort = _Watched("sorted once", _sort)
    sort.guarded(_integers())
    assert sort.asked == ["cuda", "cpu"]
    sort.guarded(_integers())
    assert sort.asked == ["cuda", "cpu", "cpu"]
    assert sort.left == [("sorted once", "CPU", "no such dtype")] * 2


@on_mps
def test_another_dtype_is_not_refused() -> None:
    sort = _Watched("sorted floats", _sort)
    sort.guarded(_integers())
    sort.asked.clear()
    assert sort.guarded(_integers().float()).values.tolist() == [1, 2, 3]
    assert sort.asked == ["cuda"]


@on_mps
def test_a_refused_call_is_computed_on_the_cpu() -> None:
    made = _Watched("sorted elsewhere", _sort).guarded(_integers())
    assert made.values.tolist() == [1, 2, 3]
    assert made.indices.tolist() == [1, 2, 0]
    assert made.values.is_cuda
    assert type(made).__name__ == "sort"


@on_mps
def test_a_refused_call_writes_to_its_out_argument() -> None:
    out = (_integers()[:0], _integers()[:0])
    _Watched("sorted out", _sort).guarded(_integers(), out=out)
    assert out[0].tolist() == [1, 2, 3]


@on_mps
def test_an_error_of_the_program_is_no_refusal() -> None:
    sort = _Watched("sorted wrongly", _sort)
    with pytest.raises(RuntimeError, match="^dim out of range$"):
        sort.guarded(_integers().float(), 7)
    assert sort.asked == ["cuda"]
    assert sort.left == []


def _pool(x: torch.Tensor, size: int) -> torch.Tensor:
    if x.is_cuda and x.shape[0] % size:
        raise NotImplementedError("Adaptive pool MPS: input sizes must be divisible by output sizes. Non-divisible")
    return x[:size]


@on_mps
def test_a_shape_that_is_refused_says_nothing_about_the_next() -> None:
    pool = _Watched("pool", _pool)
    x = torch.arange(6.0, device="cuda", requires_grad=True)
    out = [pool.guarded(x, 4), pool.guarded(x, 3), pool.guarded(x=x, size=4)]
    assert pool.asked == ["cuda", "cpu", "cuda", "cuda", "cpu"]
    assert all(part.is_cuda for part in out)
    sum(part.sum() for part in out).backward()
    assert x.grad.tolist() == [3, 3, 3, 2, 0, 0]


def _matrix(device: str, **options: Any) -> torch.Tensor:
    return torch.tensor([[2.0, 1.0j], [0.5, 1.0]], device=device, **options)


def _gradient(function: Callable[[torch.Tensor], torch.Tensor], device: str) -> torch.Tensor:
    x = _matrix(device, requires_grad=True)
    function(x).abs().sum().backward()
    return x.grad


def _reduced(device: str, method: str) -> torch.Tensor:
    index, source = torch.tensor([0, 1], device=device), torch.tensor([3, 4], device=device)
    x = torch.zeros(3, dtype=torch.int64, device=device)
    made = getattr(x, method)(0, index, source, "amax")
    return x if method.endswith("_") else made


def _float8(device: str) -> torch.Tensor:
    return torch.tensor([1.0, 2.5], device=device).to(torch.float8_e4m3fn)


LIMITS: dict[str, Callable[[str], torch.Tensor]] = {
    "inv": lambda d: torch.linalg.inv(_matrix(d)),
    "inverse": lambda d: _matrix(d).inverse(),
    "solve": lambda d: torch.linalg.solve(_matrix(d), _matrix(d)),
    "lu": lambda d: torch.linalg.lu_factor(_matrix(d))[0],
    "inv, backward": lambda d: _gradient(torch.linalg.inv, d),
    "eig, whose gradient solves": lambda d: _gradient(torch.linalg.eigvals, d),
    "index_reduce": lambda d: _reduced(d, "index_reduce"),
    "index_reduce_": lambda d: _reduced(d, "index_reduce_"),
    "from float8": lambda d: _float8(d).to(torch.float32),
    "float": lambda d: _float8(d).float(),
    "to float8": lambda d: _float8(d).view(torch.uint8),
}


@on_mps
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_dtypes_end_in_the_right_result(limit: str) -> None:
    there, here = LIMITS[limit]("cuda"), LIMITS[limit]("cpu")
    assert there.is_cuda
    assert there.dtype is here.dtype
    sums = [made.detach().cpu().to(torch.complex64).abs().sum().item() for made in (there, here)]
    assert sums[0] == pytest.approx(sums[1], rel=1e-4)


@on_mps
def test_float8_moves_and_converts_at_once() -> None:
    assert _float8("cuda").to("cuda", torch.float16).is_cuda
    assert _float8("cpu").to("cuda", torch.float16).is_cuda


BARE: dict[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], str]] = {
    "inv": (lambda: _matrix("cuda"), lambda x: torch.linalg.inv(x), refusals.NO_DTYPE),
    "float8": (lambda: _float8("cuda"), lambda x: x.float(), refusals.NO_DTYPE),
    "sum": (lambda: torch.ones(2, device="cuda"), lambda x: x.cumsum(0, dtype=torch.float64), refusals.NO_DOUBLE),
}


@child(MPS_FAITHFUL, alone=True)
def test_the_double_has_these_limits() -> None:
    """Without the guards these are errors, in words that the table knows."""
    made = {name: make() for name, (make, _, _) in BARE.items()}
    torchdevice_cuda.deactivate()
    for name, (_, function, kind) in BARE.items():
        with pytest.raises((RuntimeError, TypeError)) as caught:
            function(made[name])
        assert refusals.refusal(caught.value) == kind, name


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.adaptive_avg_pool2d(functional.conv2d(x, self.conv.weight), [2, 2])
        return torch.linalg.inv(x).sum() + torch.var(x)


@on_mps
def test_scripting_goes_on() -> None:
    """TorchScript knows guarded functions as it knew the originals."""
    net, x = _Net().cuda(), torch.randn(1, 1, 6, 6, device="cuda")
    assert torch.allclose(torch.jit.script(net)(x), net(x))
