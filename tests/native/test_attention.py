"""Attention on the virtual GPU: which of CUDA's kernels is chosen, what it says, how results lie in memory."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

H200 = VIRTUAL.with_settings(gpu="h200")
MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3


def heads(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*size, device="cuda").to(dtype)


def chosen(q: torch.Tensor, **more: Any) -> int:
    return torch._fused_sdp_choice(q, q, q, **more)


@child(H200)
def test_an_h200_chooses_by_type() -> None:
    q = heads(1, 1, 8, 64)
    types = {torch.float16: CUDNN, torch.bfloat16: CUDNN, torch.float32: EFFICIENT, torch.float64: MATH}
    assert {dtype: chosen(q.to(dtype)) for dtype in types} == types
    half, mask = q.half(), torch.zeros(8, 8, device="cuda").half()
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        assert chosen(half) == FLASH
        assert chosen(half, attn_mask=mask) == EFFICIENT
    assert chosen(heads(1, 1, 8, 6)) == MATH  # not a whole number of words
    assert chosen(heads(1, 8, 64)) == MATH


@child(VIRTUAL.with_settings(gpu="t4"), VIRTUAL.with_settings(gpu="a100-80"))
def test_other_gpus_have_other_kernels() -> None:
    recent = torch.cuda.get_device_capability()[0] >= 8
    q = heads(1, 1, 8, 64)
    assert chosen(q) == EFFICIENT
    assert chosen(q.half()) == (FLASH if recent else EFFICIENT)
    assert chosen(q.bfloat16()) == (FLASH if recent else MATH)
    if not recent:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match="^No available kernel. Aborting execution.$"):
                attend(q.half(), q.half(), q.half())
        words = [str(w.message) for w in said]
        flash = (
            "Flash attention only supports gpu architectures in the range [sm80, sm121]. Attempting to run on a sm 7.5"
        )
        assert any(word.startswith(flash) for word in words), words


@child(H200)
def test_why_not_is_said_in_cudas_words() -> None:
    q = heads(1, 1, 8, 300, dtype=torch.float16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="^No available kernel. Aborting execution.$"):
            attend(q, q, q)
    words = [str(w.message).partition(" (Triggered")[0] for w in said]
    assert words == [
        "Memory efficient kernel not used because:",
        "Memory Efficient attention has been runtime disabled.",
        "Flash attention kernel not used because:",
        "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. "
        "Got Query.size(-1): 300, Key.size(-1): 300, Value.size(-1): 300 instead.",
        "cuDNN attention kernel not used because:",
        "cuDNN attention has been runtime disabled.",
    ]


@child(H200)
def test_programs_ask_before_they_call() -> None:
    cuda = torch.backends.cuda
    q = heads(1, 1, 8, 64)

    def asked(q: torch.Tensor) -> list[bool]:
        params = cuda.SDPAParams(q, q, q, None, 0.0, False, False)
        return [
            cuda.can_use_flash_attention(params),
            cuda.can_use_efficient_attention(params),
            cuda.can_use_cudnn_attention(params),
        ]

    assert asked(q.half()) == [True, True, True]
    assert asked(q) == [False, True, False]
    assert asked(q.half().cpu()) == [False, False, False]


@child(H200)
def test_results_and_gradients_are_those_of_the_parts() -> None:
    torch.manual_seed(3)
    mask = torch.rand(5, 7, device="cuda") > 0.3
    bias = torch.randn(5, 7, device="cuda")
    for dtype, options in (
        (torch.float32, {}),
        (torch.float32, {"attn_mask": mask}),
        (torch.float32, {"attn_mask": bias}),
        (torch.float16, {}),
        (torch.bfloat16, {"is_causal": True}),
    ):
        square = 7 if "is_causal" in options else 5
        q = heads(2, 3, square, 8, dtype=dtype).requires_grad_()
        k, v = (heads(2, 3, 7, 8, dtype=dtype).requires_grad_() for _ in range(2))
        made = attend(q, k, v, **options)
        grads = torch.autograd.grad(made.float().square().sum(), (q, k, v))
        with sdpa_kernel(SDPBackend.MATH):
            expected = attend(q, k, v, **options)
            wanted = torch.autograd.grad(expected.float().square().sum(), (q, k, v))
        precision = {"atol": 1e-5, "rtol": 1e-4} if dtype is torch.float32 else {"atol": 5e-2, "rtol": 5e-2}
        torch.testing.assert_close(made, expected, **precision)
        for a, b in zip(grads, wanted, strict=True):
            torch.testing.assert_close(a, b, **precision)


@child(H200)
def test_heads_may_share_keys_and_values() -> None:
    q, k, v = heads(2, 4, 5, 8, dtype=torch.float16), *(heads(2, 2, 5, 8, dtype=torch.float16) for _ in range(2))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    made = attend(q, k, v, enable_gqa=True)
    made.float().sum().backward()
    assert k.grad is not None and k.grad.shape == k.shape
    wide = attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    torch.testing.assert_close(made, wide, atol=1e-2, rtol=1e-2)


@child(H200)
def test_layouts_and_names() -> None:
    q = heads(1, 2, 4, 8)
    assert attend(q, q, q).stride() == (64, 8, 16, 1)
    assert attend(q.half(), q.half(), q.half()).stride() == (64, 32, 8, 1)
    grad = attend(q.requires_grad_(), q, q).grad_fn
    assert type(grad).__name__ == "ScaledDotProductEfficientAttentionBackward0"


@child(H200)
def test_compiled_attention() -> None:
    torch.manual_seed(1)
    q = heads(2, 2, 16, 16).requires_grad_()

    def f(q: torch.Tensor) -> torch.Tensor:
        return attend(q, q, q, is_causal=True).transpose(1, 2).reshape(2, 16, 32) * 2

    expected = f(q)
    (wanted,) = torch.autograd.grad(expected.sum(), q)
    made = torch.compile(f)(q)
    (grad,) = torch.autograd.grad(made.sum(), q)
    torch.testing.assert_close(made, expected)
    torch.testing.assert_close(grad, wanted)


@child(H200)
def test_saved_tensors_have_cudas_layout() -> None:
    """Tensors saved for the gradient have CUDA's layout, which compiled code relies on."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        q = torch.randn(1, 2, 3, 4, device="cuda", dtype=dtype).requires_grad_()
        if dtype != torch.float32:  # which the flash kernel does not take
            sums = torch.ops.aten._scaled_dot_product_flash_attention(q, q, q, 0.0, True)[1]
            assert sums.stride() == (6, 3, 1)
        expected = attend(q, q, q, is_causal=True)
        (wanted,) = torch.autograd.grad(expected.sum(), q)
        made = torch.compile(lambda q: attend(q, q, q, is_causal=True))(q)
        (grad,) = torch.autograd.grad(made.sum(), q)
        torch.testing.assert_close(made, expected)
        torch.testing.assert_close(grad, wanted)


@child(H200)
def test_a_backward_pass_without_sums_is_refused() -> None:
    """Without ``compute_log_sumexp`` there are none, and the CPU's kernel would read past them."""
    q, k = (torch.randn(2, length, 4, 8, device="cuda", requires_grad=True) for length in (11, 32))
    out = torch.ops.aten._efficient_attention_forward(q, k, k, None, None, None, None, None, 0.0, 0, False)[0]
    with pytest.raises(RuntimeError, match="logsumexp of 11 queries, and got that of 0"):
        out.sum().backward()


@child(H200)
def test_ragged_tensors_use_fused_kernels() -> None:
    """A jagged tensor is attended part by part, as on an H200."""
    for dtype in (torch.float32, torch.float16):
        parts = [torch.randn(length, 2, 8, device="cuda", dtype=dtype) for length in (3, 5, 2)]
        ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        out = attend(*[ragged.transpose(1, 2)] * 3)
        assert out.is_nested
        for part, found in zip(parts, out.unbind(), strict=True):
            heads_first = part.transpose(0, 1)
            torch.testing.assert_close(found, attend(heads_first, heads_first, heads_first))
        out.values().sum().backward()
        assert ragged.grad is not None
        assert not ragged.grad.values().isnan().any()
