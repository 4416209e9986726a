"""Limits that show at run time: recognised by the table, remembered, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from torchdevice_cuda.drivers import refusals

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
        TypeError("Complex types are unsupported on MPS"),
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
        RuntimeError("Convolution is supported only for Floating types"),
        RuntimeError("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS"),
        RuntimeError("frac_out_mps is only implemented for floating types"),
        RuntimeError("float64 is not supported on MPS"),
        RuntimeError("Undefined type BFloat16"),
        RuntimeError("Failed to create function state object for: cat_int64_t_bfloat"),
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
    ],
}
#: Words of the same sources, and of others, that are about the program.
GENERAL = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    RuntimeError("MPS backend out of memory (MPS allocated: 1.00 GB, max allowed: 2.00 GB). Tried to allocate 3.00 GB"),
    RuntimeError("Invalid buffer size: 60.04 GiB"),
    RuntimeError("Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"),
    RuntimeError("Placeholder storage has not been allocated on MPS device!"),
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


def test_a_refusal_is_tried_once(on_mps: Callable) -> None:
    body = """
    from torchdevice_cuda.fallback.guards import Guard
    asked, left = [], []
    def sort(x, dim=-1, out=None):
        asked.append(str(x.device.type))
        if torch._C.TensorBase.is_mps.__get__(x) and x.dtype is torch.int64:
            raise RuntimeError("MPS: sort for int64 is not supported")
        if dim > 3:
            raise RuntimeError("dim out of range")
        return torch._C._VariableFunctions.sort(x, dim, out=out)
    guarded = Guard(torch.device("mps", 0), lambda *row: left.append(row)).function("sort", sort)
    x = torch.tensor([3, 1, 2], device="cuda")
    first, second = guarded(x), guarded(x)
    out = (torch.empty(0, dtype=torch.int64, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda"))
    guarded(x, out=out)
    floats = guarded(x.float())
    try:
        guarded(x.float(), 7); error = None
    except RuntimeError as raised:
        error = str(raised)
    result = [asked, left, first.values.tolist(), second.indices.tolist(), first.values.is_cuda, type(first).__name__,
              out[0].tolist(), floats.values.tolist(), error]
    """
    asked, left, values, indices, on_gpu, kind, out, floats, error = on_mps(body)
    assert asked == ["cuda", "cpu", "cpu", "cpu", "cuda", "cuda"]
    assert left == [["sort", "CPU", "no such dtype"]] * 3
    assert (values, indices, out, floats) == ([1, 2, 3], [1, 2, 0], [1, 2, 3], [1, 2, 3]) and on_gpu
    assert kind == "sort" and error == "dim out of range"


def test_a_shape_that_is_refused_says_nothing_about_the_next(on_mps: Callable) -> None:
    body = """
    from torchdevice_cuda.fallback.guards import Guard
    asked = []
    def pool(x, size):
        asked.append(str(x.device.type))
        if x.is_cuda and x.shape[0] % size:
            raise NotImplementedError("Adaptive pool MPS: input sizes must be divisible by output sizes. Non-divisible")
        return x[:size]
    guarded = Guard(torch.device("mps", 0), lambda *row: None).function("pool", pool)
    x = torch.arange(6.0, device="cuda", requires_grad=True)
    out = [guarded(x, 4), guarded(x, 3), guarded(x=x, size=4)]
    sum(part.sum() for part in out).backward()
    result = [asked, [part.is_cuda for part in out], x.grad.tolist()]
    """
    asked, on_gpu, gradient = on_mps(body)
    assert asked == ["cuda", "cpu", "cuda", "cuda", "cpu"] and all(on_gpu)
    assert gradient == [3, 3, 3, 2, 0, 0]


LIMITS = """
import warnings
warnings.simplefilter("ignore")
def outcome(f, device):
    made = f(device)
    return [made.device.type, str(made.dtype), made.detach().cpu().to(torch.complex64).abs().sum().item()]
def matrix(device, **options):
    return torch.tensor([[2.0, 1.0j], [0.5, 1.0]], device=device, **options)
def gradient(f, device):
    x = matrix(device, requires_grad=True); f(x).abs().sum().backward(); return x.grad
def reduced(device, method="index_reduce"):
    index, source = torch.tensor([0, 1], device=device), torch.tensor([3, 4], device=device)
    x = torch.zeros(3, dtype=torch.int64, device=device)
    made = getattr(x, method)(0, index, source, "amax")
    return x if method.endswith("_") else made
def float8(device):
    return torch.tensor([1.0, 2.5], device=device).to(torch.float8_e4m3fn)
cases = {
    "inv": lambda d: torch.linalg.inv(matrix(d)), "inverse": lambda d: matrix(d).inverse(),
    "solve": lambda d: torch.linalg.solve(matrix(d), matrix(d)), "lu": lambda d: torch.linalg.lu_factor(matrix(d))[0],
    "inv, backward": lambda d: gradient(torch.linalg.inv, d),
    "eig, whose gradient solves": lambda d: gradient(torch.linalg.eigvals, d),
    "index_reduce": reduced, "index_reduce_": lambda d: reduced(d, "index_reduce_"),
    "from float8": lambda d: float8(d).to(torch.float32), "float": lambda d: float8(d).float(),
    "to float8": lambda d: float8(d).view(torch.uint8), "elsewhere": lambda d: float8(d).to("cuda", torch.float16),
}
"""


def test_limits_of_dtypes_end_in_the_right_result(on_mps: Callable) -> None:
    body = LIMITS + "result = {name: [outcome(f, 'cuda'), outcome(f, 'cpu')] for name, f in cases.items()}"
    seen = on_mps(body)
    assert seen.pop("elsewhere")[0][0] == "cuda"
    for name, (there, here) in seen.items():
        assert there == ["cuda", here[1], pytest.approx(here[2], rel=1e-4)], name


def test_the_double_has_these_limits(on_mps: Callable) -> None:
    """Without the guards these are errors, in words that the table knows."""
    body = (
        LIMITS
        + """
from torchdevice_cuda.drivers.refusals import refusal
members = {"inv": matrix("cuda"), "float8": float8("cuda"), "sum": torch.ones(2, device="cuda")}
torchdevice_cuda.deactivate()
asked = {"inv": lambda x: torch.linalg.inv(x), "float8": lambda x: x.float(), "sum": lambda x: x.cumsum(0, dtype=torch.float64)}
result = {}
for name, f in asked.items():
    try:
        f(members[name])
    except (RuntimeError, TypeError) as error:
        result[name] = refusal(error)
"""
    )
    assert on_mps(body) == {"inv": "no such dtype", "float8": "no such dtype", "sum": "no float64"}


def test_scripting_goes_on(on_mps: Callable) -> None:
    """TorchScript knows guarded functions as it knew the originals."""
    body = """
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 2, 3)
        def forward(self, x):
            x = torch.nn.functional.adaptive_avg_pool2d(torch.nn.functional.conv2d(x, self.conv.weight), [2, 2])
            return torch.linalg.inv(x).sum() + torch.var(x)
    net, x = Net().cuda(), torch.randn(1, 1, 6, 6, device="cuda")
    result = torch.allclose(torch.jit.script(net)(x), net(x))
    """
    assert on_mps(body)
