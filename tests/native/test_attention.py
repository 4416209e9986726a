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


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return attention of positions x heads x size, in float64 on the CPU."""
    q, k, v = (t.detach().cpu().double().transpose(0, 1) for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[0] // k.shape[0], 0) for t in (k, v))
    scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(~allowed, -float("inf"))
    return (scores.softmax(-1).nan_to_num(0.0) @ v).transpose(0, 1)


def window(queries: int, keys: int, back: int, ahead: int) -> torch.Tensor:
    apart = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
    return (apart >= -back if back >= 0 else apart == apart) & (apart <= ahead if ahead >= 0 else apart == apart)


@child(H200)
def test_packed_sequences_attend_within_a_window() -> None:
    lengths, starts = (5, 1, 9), torch.tensor([0, 5, 6, 15], dtype=torch.int32, device="cuda")
    q, k, v = (torch.randn(15, heads, 16, device="cuda").bfloat16().requires_grad_() for heads in (4, 2, 2))
    for back, ahead, causal in ((2, 3, False), (4, -1, False), (-1, 0, False), (3, -1, True), (100, 100, False)):
        made = torch.ops.aten._flash_attention_forward(
            q, k, v, starts, starts, 9, 9, 0.0, causal, False, window_size_left=back, window_size_right=ahead
        )
        right, first = [], 0
        for n in lengths:
            part = slice(first, first := first + n)
            right.append(exact(q[part], k[part], v[part], window(n, n, back, 0 if causal else ahead)))
        torch.testing.assert_close(made[0].cpu().double(), torch.cat(right), atol=2e-2, rtol=2e-2)
        grad = torch.randn_like(made[0])
        grads = torch.ops.aten._flash_attention_backward(
            grad, q, k, v, made[0], made[1], starts, starts, 9, 9, 0.0, causal, made[2], made[3],
            window_size_left=back, window_size_right=ahead,
        )  # fmt: skip
        leaves = [t.detach().cpu().double().requires_grad_() for t in (q, k, v)]
        first, total = 0, 0.0
        for n in lengths:
            part = slice(first, first := first + n)
            a, b, c = (t[part].transpose(0, 1) for t in leaves)
            scores = a @ b.repeat_interleave(2, 0).transpose(1, 2) / 4
            scores = scores.masked_fill(~window(n, n, back, 0 if causal else ahead), -float("inf"))
            out = (scores.softmax(-1) @ c.repeat_interleave(2, 0)).transpose(0, 1)
            total = total + (out * grad[part].cpu().double()).sum()
        for got, wanted in zip(grads, torch.autograd.grad(total, leaves), strict=True):
            torch.testing.assert_close(got.cpu().double(), wanted, atol=5e-2, rtol=5e-2)


@child(H200)
def test_cached_keys_lie_in_pages_and_are_fewer_than_there_is_room() -> None:
    if "block_table" not in str(torch.ops.aten._flash_attention_forward.default._schema):
        pytest.skip("this release of torch has no pages of keys")
    starts = torch.arange(4, dtype=torch.int32, device="cuda")
    used = torch.tensor([3, 8, 5], dtype=torch.int32, device="cuda")
    q = torch.randn(3, 2, 16, device="cuda").half()
    k, v = torch.randn(2, 6, 4, 2, 16, device="cuda").half().unbind()
    table = torch.tensor([[4, 0], [1, 5], [3, 2]], dtype=torch.int32, device="cuda")
    paged = torch.ops.aten._flash_attention_forward(
        q, k, v, starts, None, 1, 8, 0.0, False, False, seqused_k=used, block_table=table
    )[0]
    rows = [torch.cat([t[page] for page in table[i].tolist()]) for i in range(3) for t in (k, v)]
    for i, n in enumerate(used.tolist()):
        right = exact(q[i : i + 1], rows[2 * i][:n], rows[2 * i + 1][:n], torch.ones(1, n, dtype=torch.bool))
        torch.testing.assert_close(paged[i : i + 1].cpu().double(), right, atol=3e-3, rtol=3e-3)
    packed = torch.ops.aten._flash_attention_forward(
        q, torch.cat(rows[::2]), torch.cat(rows[1::2]), starts, 8 * starts, 1, 8, 0.0, False, False, seqused_k=used
    )[0]
    assert torch.equal(packed, paged)


@child(H200)
def test_dropped_probabilities_are_shown_as_negative() -> None:
    q = heads(2, 3, 100, 32, dtype=torch.float16)
    made = torch.ops.aten._scaled_dot_product_flash_attention(q, q, q, 0.4, False, return_debug_mask=True)
    shown = made[8]
    assert shown.shape == (2, 3, 128, 128) and shown.dtype is torch.float16
    kept = shown[..., :100, :100] >= 0
    assert 0.57 < kept.double().mean().item() < 0.63
    p = torch.softmax(q.double() @ q.double().transpose(-1, -2) / 32**0.5, -1)
    torch.testing.assert_close(made[0].double(), (p * kept / 0.6) @ q.double(), atol=5e-3, rtol=5e-3)
    with pytest.raises(RuntimeError, match="return_softmax is only supported when p_dropout > 0.0"):
        torch.ops.aten._scaled_dot_product_flash_attention(q, q, q, 0.0, False, return_debug_mask=True)


@child(H200)
def test_the_efficient_kernel_attends_within_a_window() -> None:
    q, k, v = (torch.randn(1, 12, 2, 16, device="cuda") for _ in range(3))
    for mask in (1, 2):
        made = torch.ops.aten._efficient_attention_forward(
            q, k, v, None, None, None, None, None, 0.0, mask, window_size=4
        )[0]
        right = exact(q[0], k[0], v[0], window(12, 12, 3, 0))
        torch.testing.assert_close(made[0].cpu().double(), right, atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="custom_mask_type not supported"):
        torch.ops.aten._efficient_attention_forward(q, k, v, None, None, None, None, None, 0.0, 0, window_size=4)
