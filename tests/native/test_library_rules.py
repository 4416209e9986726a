"""Requirements, choices and errors in which CUDA's libraries differ from the CPU's: an H200's answers (torch 2.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from harness import VIRTUAL, child

OF_TYPES = (torch.complex64, torch.bool, torch.half, torch.int32)


def answer(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return call(*args, **kwargs)
    except (RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"


def octets(*shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device="cuda")


@child(VIRTUAL)
def test_least_squares_are_solved_in_one_way() -> None:
    a, b = torch.randn(4, 3, device="cuda"), torch.randn(4, 2, device="cuda")
    for driver in (None, "gels", "GELS"):
        assert [tuple(part.shape) for part in torch.linalg.lstsq(a, b, driver=driver)] == [(3, 2), (2,), (0,), (0,)]
    refused = "RuntimeError: torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA"
    for driver in ("gelsy", "gelsd", "none"):
        assert answer(torch.linalg.lstsq, a, b, driver=driver) == refused


@child(VIRTUAL)
def test_products_of_small_integers_have_sizes_that_the_library_takes() -> None:
    def product(first: tuple[int, ...], second: tuple[int, ...], **out: torch.Tensor) -> Any:
        return answer(lambda: torch._int_mm(octets(*first), octets(*second), **out).sum().item())

    assert product((24, 32), (32, 16)) == 24 * 32 * 16
    assert product((16, 8), (8, 32)) == "RuntimeError: self.size(0) needs to be greater than 16, but got 16"
    octet = "needs to be greater than 0 and a multiple of 8, but got"
    assert product((17, 7), (7, 32)) == f"RuntimeError: self.size(1) {octet} 7"
    assert product((17, 8), (7, 32)) == "RuntimeError: self.size(1) needs to match mat2.size(0) but got 8 and 7"
    assert product((17, 8), (8, 31)) == f"RuntimeError: mat2.size(1) {octet} 31"
    assert product((17,), (8, 32)) == "RuntimeError: Expected self to be of dimension 2 but got 1"
    kept = {"out": octets(17, 32, dtype=torch.float)}
    assert product((17, 8), (8, 32), **kept) == "RuntimeError: Expected result dtype to be of type kInt but got float"
    kept = {"out": octets(15, 32, dtype=torch.int)}
    assert product((17, 8), (8, 32), **kept) == "RuntimeError: Expected result.size(0) to be 17 but got 15"
    kept = {"out": octets(32, 17, dtype=torch.int).t()}
    assert product((17, 8), (8, 32), **kept) == "RuntimeError: Expected result to be contiguous."
    floats = answer(lambda: torch._int_mm(octets(17, 8).float(), octets(8, 32)))
    assert floats == "RuntimeError: expected scalar type Char but found Float"


@child(VIRTUAL)
def test_lists_of_products_take_the_types_of_products() -> None:
    whole = [torch.ones(2, 2, dtype=torch.int32, device="cuda")] * 2
    alone = answer(torch.mm, *whole)
    assert alone == "NotImplementedError: \"addmm_cuda\" not implemented for 'Int'"
    if hasattr(torch, "_foreach_mm"):  # since 2.13
        assert answer(torch._foreach_mm, whole, whole) == alone
        assert torch._foreach_mm([t.float() for t in whole], [t.float() for t in whole])[1].tolist() == [[2, 2]] * 2


@child(VIRTUAL)
def test_a_factor_with_a_zero_is_inverted_to_no_numbers() -> None:
    factor = torch.eye(3, device="cuda")
    assert torch.equal(torch.cholesky_inverse(factor), factor)
    factor[1, 1] = 0
    assert not torch.cholesky_inverse(factor).isfinite().all()
    assert torch.cholesky_inverse(torch.zeros(2, 2, device="cuda")).isnan().all()
    upper = torch.tensor([[2.0, 1.0], [0.0, 3.0]], device="cuda")
    expected = torch.linalg.inv(upper.mH @ upper)
    torch.testing.assert_close(torch.cholesky_inverse(upper, upper=True), expected)
    out = torch.empty(2, 2, device="cuda")
    assert torch.cholesky_inverse(upper, upper=True, out=out) is out
    torch.testing.assert_close(out, expected)


def reductions() -> Iterator[tuple[str, Any]]:
    place, places = torch.zeros(2, 2, dtype=torch.long, device="cuda"), torch.zeros(2, dtype=torch.long, device="cuda")
    for dtype in OF_TYPES:
        ones = torch.ones(2, 2, device="cuda", dtype=dtype)
        for how in ("multiply", "add"):
            yield f"{dtype} {how}", answer(ones.clone().scatter_, 0, place, ones, reduce=how)
            yield f"{dtype} {how} 2", answer(ones.clone().scatter_, 0, place, 2, reduce=how)
        for how in ("prod", "mean", "amax", "amin"):
            yield f"{dtype} {how}", answer(ones.clone().index_reduce_, 0, places, ones, reduce=how)


@child(VIRTUAL)
def test_products_are_put_together_of_real_numbers_only() -> None:
    names = {torch.complex64: "ComplexFloat", torch.bool: "Bool"}
    kernels = {
        "multiply": "cuda_scatter_gather_base_kernel_func",
        "multiply 2": "cuda_scatter_fill_base_kernel_reduce_multiply",
        **dict.fromkeys(("prod", "mean", "amax", "amin"), "index_reduce"),
    }
    found = {how: made if isinstance(made, str) else str(made.dtype) for how, made in reductions()}
    for dtype in OF_TYPES:
        for how in ("multiply", "multiply 2", "add", "add 2", "prod", "mean", "amax", "amin"):
            refused = dtype in names and how in kernels
            words = f"NotImplementedError: \"{kernels.get(how)}\" not implemented for '{names.get(dtype)}'"
            assert found[f"{dtype} {how}"] == (words if refused else str(dtype)), (dtype, how)
    unknown = answer(lambda: octets(2, 2).bool().index_reduce_(0, octets(2).long() * 0, octets(2, 2).bool(), "sum"))
    assert "Expected reduce to be one of prod, mean, amax or amin but got sum" in unknown


@child(VIRTUAL)
def test_matrices_are_factored_without_exchanging_rows_too() -> None:
    torch.manual_seed(0)
    for shape in ((4, 4), (2, 3, 5), (3, 5, 2), (0, 3), (2, 0, 0)):
        for dtype in (torch.float64, torch.complex64):
            given = torch.randn(shape, dtype=dtype, device="cuda")
            order, lower, upper = torch.linalg.lu(given, pivot=False)
            assert order.shape == (0,)
            torch.testing.assert_close(lower @ upper, given, rtol=1e-3, atol=1e-3)
            factors, pivots, info = torch.linalg.lu_factor_ex(given, pivot=False)
            least = min(shape[-2:])
            torch.testing.assert_close(factors[..., :least, :].triu(), upper)
            torch.testing.assert_close(factors[..., :least].tril(-1), lower.tril(-1))
            assert pivots.tolist() == torch.arange(1, least + 1).expand(*shape[:-2], least).tolist()
            assert not info.any() and factors.stride()[-2:] == (1, max(1, shape[-2]))
    singular = torch.ones(3, 3, device="cuda")
    assert torch.linalg.lu_factor_ex(singular, pivot=False).info == 2
    said = answer(torch.linalg.lu_factor, singular, pivot=False)
    assert said.startswith("RuntimeError: torch.linalg.lu_factor: U[2,2] is zero and using it on lu_solve would result")


@child(VIRTUAL)
def test_results_on_another_device_are_refused_by_our_own_kernels_too() -> None:
    """In the words of CUDA's wrappers, which name themselves."""
    matrix = torch.eye(3, device="cuda")
    places = (
        "Expected all tensors to be on the same device, but got {} is on cuda:0, different from other tensors on cpu"
    )
    said = answer(torch.cholesky_inverse, matrix, out=torch.empty(0))
    method = " (when checking argument in method wrapper_CUDA_out_cholesky_inverse_out)"
    assert said == f"RuntimeError: {places.format('self')}{method}"
    said = answer(torch.linalg.lu_factor, matrix, pivot=False, out=(torch.empty(0), torch.empty(0, dtype=torch.int32)))
    method = " (when checking argument in method wrapper_CUDA_linalg_lu_factor_ex_out_out)"
    assert said == f"RuntimeError: {places.format('info')}{method}"
    # A number of the CPU's is a tensor of another device, too.
    drawn = answer(torch.normal, torch.zeros(3, device="cuda"), torch.tensor(1.0))
    assert isinstance(drawn, str) and drawn.startswith("RuntimeError: Expected all tensors to be on the same device")


@child(VIRTUAL)
def test_channels_lie_together_in_three_dimensions_but_not_in_float64() -> None:
    for size, groups in ((4, 1), (4, 8), (18, 1), (18, 16)):
        channels = 8 if size == 4 else 16
        for dtype in (torch.float32, torch.half, torch.float64):
            x = torch.ones(2, channels, size, size, size, device="cuda", dtype=dtype)
            layer = torch.nn.Conv3d(channels, channels, 3, groups=groups).to("cuda", dtype)
            made = layer(x.to(memory_format=torch.channels_last_3d))
            assert made.is_contiguous(memory_format=torch.channels_last_3d) is (dtype is not torch.float64), (
                size,
                dtype,
            )
            assert layer(x).is_contiguous()
    flat = torch.ones(2, 8, 6, 6, device="cuda", dtype=torch.float64).to(memory_format=torch.channels_last)
    assert torch.nn.functional.conv2d(flat, torch.ones(4, 8, 3, 3, device="cuda", dtype=torch.float64)).is_contiguous()


@child(VIRTUAL)
def test_onednn_takes_what_is_the_cpus() -> None:
    x = torch.ones(2, 3, 4, 4, device="cuda")
    said = answer(torch.mkldnn_convolution, x, torch.ones(2, 3, 1, 1, device="cuda"), None, (0, 0), (1, 1), (1, 1), 1)
    assert said == "RuntimeError: itensor_view_from_dense expects CPU tensor input"
