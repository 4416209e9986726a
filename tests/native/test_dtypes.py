"""Types: what CUDA computes computes, what it refuses is refused in its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import VIRTUAL, Finished, child, python
from harness.places import must_be_ready
from torch.nn import functional

from .bare import bare

RECORD = Path(__file__).resolve().parents[2] / "tools" / "record"
EIGHTHS = {torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
#: Operators of op_db whose types it gets wrong, or that need an NVIDIA GPU.
WRONG = {
    "sparse.mm.reduce": "it says CUDA computes; on one there is no such kernel",
    "jiterator_": "code for an NVIDIA GPU",
    "torch.ops.aten._flash_attention_forward": "a sample with dropout",
    "max_unpool": "it says whole numbers are refused; on one they compute",
    "einsum": "its first sample multiplies nothing",
    "norm": "it says complex32 is refused; on one it computes",
    "svd": "it has a sample of nothing",
    "native_batch_norm": "its gradient is asked of running statistics",
}


def _tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.ones(shape, device="cuda").to(dtype)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Compare tensors, also of types that the CPU does not compare."""
    return torch.equal(*(torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b)))


Function = Callable[[torch.Tensor], object]
# By kernel, as a real GPU names it (torch 2.11): the shape of its argument, the type, and that type's name.
REFUSED_BY: dict[str, tuple[Function, tuple[int, ...], torch.dtype, str]] = {
    "addmm_cuda": (lambda x: x @ x, (2, 2), torch.int64, "Long"),
    "baddbmm_cuda": (lambda x: torch.bmm(x, x), (1, 2, 2), torch.int8, "Char"),
    "addmv_impl_cuda": (lambda x: torch.mv(x, x[0]), (2, 2), torch.int32, "Int"),
    "dot": (lambda x: torch.dot(x, x), (2,), torch.uint8, "Byte"),
    "max_pool2d_with_indices_out_cuda_frame": (lambda x: functional.max_pool2d(x, 2), (1, 2, 2), torch.int64, "Long"),
    "upsample_bilinear2d_out_frame": (
        lambda x: functional.interpolate(x, 4, mode="bilinear"),
        (1, 1, 2, 2),
        torch.uint8,
        "Byte",
    ),
    "angle_cuda": (torch.angle, (2,), torch.float16, "Half"),
    "igamma_cuda": (lambda x: torch.igamma(x, x), (2,), torch.float16, "Half"),
    "bitwise_not_cuda": (torch.bitwise_not, (2,), torch.float32, "Float"),
    "erfinv_cuda": (torch.erfinv, (2,), torch.complex64, "ComplexFloat"),
    "host_softmax": (lambda x: functional.softmax(x, -1), (2, 2), torch.int64, "Long"),
    "div_floor_cuda": (lambda x: torch.div(x, x, rounding_mode="floor"), (2,), torch.complex32, "ComplexHalf"),
}
# Others' words.
REFUSED: list[tuple[Function, tuple[int, ...], torch.dtype, type[Exception], str]] = [
    (
        lambda x: functional.conv1d(x, x),
        (1, 1, 2),
        torch.int64,
        RuntimeError,
        "getCudnnDataTypeFromScalarType() not supported for Long",
    ),
    (
        lambda x: functional.conv1d(x, x),
        (1, 1, 2),
        torch.int32,
        RuntimeError,
        "GET was unable to find an engine to execute this computation",
    ),
    (
        lambda x: torch.ops.aten._flash_attention_forward(x, x, x, None, None, 2, 2, 0.0, False, False),
        (1, 2, 1, 8),
        torch.float32,
        RuntimeError,
        "FlashAttention only support fp16 and bf16 data type",
    ),
    (
        lambda x: torch.histogram(x, 2),
        (2,),
        torch.float32,
        NotImplementedError,
        "Could not run 'aten::histogram.bin_ct' with arguments from the 'CUDA' backend. This could be because",
    ),
]


@child(bare())
def test_refusals_are_cudas() -> None:
    said = [
        (function, shape, dtype, NotImplementedError, f"\"{kernel}\" not implemented for '{name}'")
        for kernel, (function, shape, dtype, name) in REFUSED_BY.items()
    ]
    for function, shape, dtype, kind, words in (*said, *REFUSED):
        given = _tensor(dtype, *shape)
        with pytest.raises(kind) as raised:
            function(given)
        assert type(raised.value) is kind, words
        assert str(raised.value).startswith(words)


@child(bare())
def test_of_nothing_nothing_is_refused() -> None:
    assert (_tensor(torch.int64, 0, 2) @ _tensor(torch.int64, 2, 3)).shape == (0, 3)


@child(bare())
def test_a_turned_off_cudnn_is_not_blamed() -> None:
    x = _tensor(torch.int64, 1, 1, 2, 2)
    with torch.backends.cudnn.flags(enabled=False), pytest.raises(NotImplementedError, match="slow_conv2d_cuda"):
        functional.conv2d(x, x)


@child(bare())
def test_complex_half_is_computed_through_complex_float() -> None:
    x = torch.view_as_complex(torch.tensor([[0.5, 0.25], [1.0, -1.0]]))
    half = x.to(torch.complex32)
    for function in (torch.exp, torch.sqrt, torch.tanh, torch.sum, torch.angle, torch.rsqrt, lambda t: t / t):
        made, expected = function(half.cuda()).cpu(), function(half.to(torch.complex64))
        assert made.dtype == (torch.complex32 if expected.is_complex() else torch.float16)
        assert _same(made, expected.to(made.dtype))
    assert _same(half.cuda().flip(0).cpu(), half[[1, 0]])


@child(bare())
def test_spectra_of_half() -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).half()
    made = torch.fft.rfft(x.cuda())
    assert made.dtype == torch.complex32
    assert _same(made.cpu(), torch.fft.rfft(x.float()).to(torch.complex32))
    assert torch.fft.irfft(made).dtype == torch.float16
    with pytest.raises(RuntimeError, match=r"powers of two when .* half precision, but got a signal size of\[6\]"):
        torch.fft.rfft(x[:, :6].cuda())


@child(bare())
def test_whole_numbers_where_cuda_takes_them() -> None:
    x = torch.tensor([3, 1, 3, 7])
    made = torch.histc(x.cuda(), 4, 0, 8)
    assert made.dtype == torch.int64
    assert made.tolist() == torch.histc(x.float(), 4, 0, 8).tolist()
    assert torch.tensor([True, False]).cuda().abs().tolist() == [True, False]
    assert torch.ones(2, 2, dtype=torch.bool).cuda().trace().item() == 2
    image, where = torch.tensor([[[5, 6]]]), torch.tensor([[[0, 3]]])
    assert functional.max_unpool1d(image.cuda(), where.cuda(), 2).tolist() == [[[5, 0, 0, 6]]]
    assert functional.max_unpool1d(image.float().cuda(), where.cuda(), 2).tolist() == [[[5.0, 0.0, 0.0, 6.0]]]


@child(bare())
def test_sums_of_complex_numbers_without_those_that_are_none() -> None:
    x = torch.tensor([1 + 1j, complex("nan"), 2 - 1j])
    assert torch.nansum(x.cuda()).item() == 3 + 0j
    assert torch.nansum(x.real.cuda()).item() == 3


@child(VIRTUAL)
def test_an_optimizer_remembers_in_half_beside_weights_in_float32() -> None:
    try:
        torch.optim.Optimizer._group_tensors_by_device_and_dtype([[torch.ones(1)], [torch.ones(1).bfloat16()]])
    except RuntimeError:
        pytest.skip("this torch has no optimizer whose state is of another type than its weights")
    weights = {kind: torch.nn.Parameter(torch.ones(4, device="cuda")) for kind in ("float32", "bfloat16")}
    for kind, weight in weights.items():
        optimizer = torch.optim.AdamW([weight], lr=0.1, fused=True)
        for _ in range(3):
            weight.grad = torch.full_like(weight, 0.5)
            optimizer.step()
            state = optimizer.state[weight]
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = state[name].to(getattr(torch, kind))
        assert state["exp_avg"].dtype == getattr(torch, kind)
    torch.testing.assert_close(weights["bfloat16"], weights["float32"], rtol=1e-2, atol=1e-2)


@child(bare())
def test_attention_in_float64_is_differentiated_twice() -> None:
    q = torch.randn(1, 1, 3, 4, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda t: functional.scaled_dot_product_attention(t, t, t), (q,))


@child(bare())
def test_results_are_laid_out_as_cudas() -> None:
    """The strides of a real GPU."""
    assert torch.fft.rfftn(torch.ones(5, 6, 6, device="cuda"), dim=(0, 1)).shape == (5, 4, 6)
    assert torch.linalg.eig(torch.ones(5, 5, device="cuda"))[1].stride() == (5, 1)
    assert torch.fft.rfftn(torch.ones(5, 6, 6, device="cuda")).stride() == (6, 1, 30)


@child(bare())
def test_batch_norm_gives_the_statistics_that_it_used() -> None:
    x, mean, var = (torch.rand(4, 3, 5).half().cuda(), torch.rand(3, device="cuda"), torch.rand(3, device="cuda"))
    _, saved, scale = torch.native_batch_norm(x, None, None, mean, var, False, 0.1, 1e-5)
    assert torch.equal(saved, mean)
    torch.testing.assert_close(scale, (var + 1e-5).rsqrt())


@child(bare())
def test_kaiser_windows() -> None:
    for given in ((8,), (8, False), (8, True, 3.0)):
        assert torch.equal(torch.kaiser_window(*given, device="cuda").cpu(), torch.kaiser_window(*given))


def _differing() -> list[tuple[str, str, bool]]:
    """Operator, type and whether CUDA computes, for all that op_db says it and the CPU do differently."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = []
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if any(part in name for part in WRONG):
            continue
        cpu, cuda = set(op.dtypes), set(op.dtypesIfCUDA)
        # What depends on the GPU's generation is not about a rule.
        for dtype in (cpu ^ cuda) - {torch.bfloat16, *EIGHTHS}:
            found.append((name, str(dtype).removeprefix("torch."), dtype in cuda))
    return found


@child(bare(), seconds=300)
def test_types_are_those_that_op_db_says() -> None:
    """PyTorch's own account of which types an operator takes on CUDA, where that is not the CPU's."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_map

    ops = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}
    wrong = []
    for name, dtype, computes in _differing():
        sample = next(iter(ops[name].sample_inputs("cpu", getattr(torch, dtype))))
        given = tree_map(lambda x: x.to("cuda") if isinstance(x, torch.Tensor) else x, (sample.input, *sample.args))
        kwargs = tree_map(lambda x: x.to("cuda") if isinstance(x, torch.Tensor) else x, sample.kwargs)
        try:
            ops[name](*given, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if computes:
                wrong.append((name, dtype, str(error)[:100]))
        else:
            if not computes:
                wrong.append((name, dtype, "computes"))
    assert not wrong, wrong


def _compare(*options: str) -> Finished:
    must_be_ready(VIRTUAL)
    return python(RECORD, "compare", "operators", "--driver", "virtual", *options, timeout=3600)


def test_a_part_of_the_operators() -> None:
    """Releases of torch differ, and have other samples: fewer than in the release that was recorded are alike."""
    _compare("--every", "46", "--alike", "93", "--equal", "91")


@pytest.mark.slow
def test_spectra_are_laid_out_as_cuffts() -> None:
    """The processor's FFT library does not matter: that of x86 does as cuFFT, that of ARM does not."""
    ways = [f"fft.{way}fft{dims}" for way in ("", "i", "r", "ir", "h", "ih") for dims in ("", "2", "n")]
    _compare(*(f"--only={way}" for way in ways), "--alike", "99")


@pytest.mark.slow
def test_all_operators() -> None:
    _compare("--alike", "98", "--equal", "97")
