"""Arguments of two types of numbers are refused as an NVIDIA H200 refused them (torch 2.11.0)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import child
from torch.nn import functional

from .bare import bare

pytestmark = child(bare())
PAIRS = [
    (torch.float16, torch.float32),
    (torch.float32, torch.float16),
    (torch.float16, torch.bfloat16),
    (torch.float32, torch.float64),
]
NAMES = {torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float", torch.float64: "Double"}
IN_C = {torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16", torch.float32: "float", torch.float64: "double"}
EXPECTED = "expected scalar type {a} but found {b}"


def _make(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.ones(shape, device="cuda", dtype=dtype) / 2


def _index(*places: int) -> torch.Tensor:
    return torch.tensor(places, device="cuda")


Function = Callable[[torch.dtype, torch.dtype], Any]
REFUSED: dict[str, tuple[Function, str]] = {
    "mm": (
        lambda a, b: _make(a, 2, 3) @ _make(b, 3, 4),
        "expected mat1 and mat2 to have the same dtype, but got: {c_a} != {c_b}",
    ),
    "linear": (
        lambda a, b: functional.linear(_make(a, 2, 3), _make(b, 4, 3)),
        "expected mat1 and mat2 to have the same dtype, but got: {c_a} != {c_b}",
    ),
    "addmm": (
        lambda a, b: torch.addmm(_make(a, 2, 4), _make(b, 2, 3), _make(b, 3, 4)),
        "self and mat2 must have the same dtype, but got {a} and {b}",
    ),
    "baddbmm": (
        lambda a, b: torch.baddbmm(_make(a, 2, 2, 4), _make(b, 2, 2, 3), _make(b, 2, 3, 4)),
        "Input dtypes must be the same, got: input {c_a}, batch1: {c_b}, batch2: {c_b}",
    ),
    "mv": (lambda a, b: _make(a, 2, 3) @ _make(b, 3), EXPECTED),
    "bmm": (lambda a, b: torch.bmm(_make(a, 2, 2, 3), _make(b, 2, 3, 4)), EXPECTED),
    "dot": (
        lambda a, b: torch.dot(_make(a, 4), _make(b, 4)),
        "dot : expected both vectors to have same dtype, but found {a} and {b}",
    ),
    "linalg.cross": (lambda a, b: torch.linalg.cross(_make(a, 3), _make(b, 3)), "Found dtype {b} but expected {a}"),
    "layer_norm": (lambda a, b: functional.layer_norm(_make(a, 2, 3), (3,), _make(b, 3), _make(b, 3)), EXPECTED),
    "nll_loss": (lambda a, b: functional.nll_loss(_make(a, 2, 3), _index(0, 1), _make(b, 3)), EXPECTED),
    "multi_margin_loss": (
        lambda a, b: functional.multi_margin_loss(_make(a, 2, 3), _index(0, 1), weight=_make(b, 3)),
        EXPECTED,
    ),
    "binary_cross_entropy": (
        lambda a, b: functional.binary_cross_entropy(_make(a, 3), _make(b, 3)),
        "Found dtype {b} but expected {a}",
    ),
    "embedding_bag": (
        lambda a, b: functional.embedding_bag(
            _index(0, 1)[None], _make(a, 4, 3), mode="sum", per_sample_weights=_make(b, 1, 2)
        ),
        EXPECTED,
    ),
    "masked_scatter": (
        lambda a, b: _make(a, 3).masked_scatter(_make(a, 3) > 0, _make(b, 3)),
        "masked_scatter_: expected self and source to have same dtypes but got {a} and {b}",
    ),
    "scaled_dot_product_attention": (
        lambda a, b: functional.scaled_dot_product_attention(*(_make(t, 1, 1, 2, 8) for t in (a, b, b))),
        "Expected query, key, and value to have the same dtype, but got query.dtype: {c_a} key.dtype: {c_b}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, words = REFUSED[name]
    for a, b in PAIRS:
        said = words.format(a=NAMES[a], b=NAMES[b], c_a=IN_C[a], c_b=IN_C[b])
        with pytest.raises(RuntimeError, match=re.escape(said)):
            function(a, b)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_convolutions(dimensions: int) -> None:
    function = getattr(functional, f"conv{dimensions}d")
    for a, b in PAIRS:
        x, w = _make(a, 1, 2, *[4] * dimensions), _make(b, 3, 2, *[3] * dimensions)
        with pytest.raises(RuntimeError, match=r"Input type \(.*\) and weight type \(.*\) should be the same"):
            function(x, w)


def test_batch_norm_takes_weights_of_float32_and_no_others() -> None:
    def normalize(a: torch.dtype, b: torch.dtype) -> torch.Tensor:
        return functional.batch_norm(_make(a, 2, 3, 4), *(_make(b, 3) for _ in range(4)), training=True)

    assert normalize(torch.float16, torch.float32).dtype == torch.float16
    assert normalize(torch.float16, torch.float16).dtype == torch.float16
    with pytest.raises(RuntimeError, match="Expected weight to have type Float but got BFloat16"):
        normalize(torch.float16, torch.bfloat16)
    for a, b in ((torch.float32, torch.float16), (torch.float64, torch.float32)):
        with pytest.raises(
            RuntimeError, match="Expected tensor for argument #1 'input' to have the same type as tensor"
        ):
            normalize(a, b)


def test_group_norm_takes_none() -> None:
    with pytest.raises(RuntimeError, match="expected scalar type Half but found Float"):
        functional.group_norm(_make(torch.float16, 2, 4, 3), 2, *(_make(torch.float32, 4) for _ in range(2)))


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "l1_loss"])
def test_losses_have_the_wider_type(loss: str) -> None:
    function = getattr(functional, loss)
    assert function(_make(torch.float16, 3), _make(torch.float32, 3)).dtype == torch.float32
    assert function(_make(torch.float32, 3), _make(torch.float16, 3)).dtype == torch.float32
    assert function(_make(torch.float16, 3), _make(torch.float16, 3)).dtype == torch.float16


def test_the_added_tensor_is_cast_to_the_products_dtype() -> None:
    made = torch.addmv(_make(torch.float16, 2), _make(torch.float32, 2, 3), _make(torch.float32, 3))
    assert made.dtype == torch.float32


def test_masks_of_attention() -> None:
    def attend(a: torch.dtype, b: torch.dtype) -> torch.Tensor:
        q = _make(a, 1, 1, 2, 8)
        return functional.scaled_dot_product_attention(q, q, q, _make(b, 2, 2))

    assert attend(torch.float16, torch.float32).dtype == torch.float16
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float or to match query dtype, but"):
        attend(torch.float32, torch.float16)


def test_a_product_of_eight_bits_is_as_cublas_takes_it() -> None:
    one = torch.ones((), device="cuda")

    def multiply(a: torch.Tensor, b: torch.Tensor, first: torch.dtype = torch.float8_e4m3fn, **given: Any) -> Any:
        return torch._scaled_mm(a.to(first), b.to(given.pop("second", first)), one, one, **given)

    f32, bf16, narrow = torch.float32, torch.bfloat16, torch.float8_e5m2
    a, b = _make(f32, 16, 32), _make(f32, 16, 32).t()
    assert multiply(a, b, out_dtype=bf16).dtype == bf16
    for words, call in {
        r"Expected trailing dimension of mat1 .* \(16x30\)": lambda: multiply(a[:, :30], b[:30], out_dtype=bf16),
        r"mat2 shape \(32x15\) must be divisible by 16": lambda: multiply(a, b[:, :15], out_dtype=bf16),
        "Bias must be BFloat16 or Half, but got Float": lambda: multiply(a, b, bias=_make(f32, 16), out_dtype=bf16),
        "Only multiplication of row-major and column-major": lambda: multiply(a, b.contiguous(), out_dtype=bf16),
    }.items():
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(ValueError, match="Multiplication of two Float8_e5m2 matrices is not supported"):
        multiply(a, b, narrow, out_dtype=bf16)
