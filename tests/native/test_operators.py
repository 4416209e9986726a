"""Operators that only CUDA has, and what they do otherwise than on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from harness import child
from torch.nn import functional

from .bare import bare

pytestmark = child(bare())
aten = torch.ops.aten


def _running() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean and the variance that batch normalisation keeps, at first."""
    mean = torch.zeros(3, device="cuda", dtype=torch.float64)
    return mean, torch.ones_like(mean)


class _Batch(NamedTuple):
    """A batch in two halves, and what SyncBatchNorm's pieces make of it."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor
    running: tuple[torch.Tensor, torch.Tensor]
    mean: torch.Tensor
    scale: torch.Tensor
    counts: torch.Tensor


def _synchronized() -> _Batch:
    torch.manual_seed(0)
    x = torch.randn(6, 3, 4, device="cuda", dtype=torch.float64)
    weight, bias = (torch.rand(3, device="cuda", dtype=torch.float64) for _ in range(2))
    halves = [x[:2], x[2:]]
    means, scales = zip(*(torch.batch_norm_stats(half, 1e-5) for half in halves), strict=True)
    counts = torch.tensor([half.numel() / 3 for half in halves], device="cuda", dtype=torch.float64)
    running = _running()
    mean, scale = torch.batch_norm_gather_stats_with_counts(
        x, torch.stack(means), torch.stack(scales), *running, 0.1, 1e-5, counts
    )
    return _Batch(x, weight, bias, running, mean, scale, counts)


class _Reference(NamedTuple):
    """A reference with the whole batch."""

    out: torch.Tensor
    running: tuple[torch.Tensor, torch.Tensor]
    leaves: tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _whole(batch: _Batch) -> _Reference:
    x, weight, bias = (t.clone().requires_grad_() for t in (batch.x, batch.weight, batch.bias))
    running = _running()
    return _Reference(functional.batch_norm(x, *running, weight, bias, True, 0.1, 1e-5), running, (x, weight, bias))


def test_halves_of_a_batch_add_up() -> None:
    batch = _synchronized()
    made = torch.batch_norm_elemt(batch.x, batch.weight, batch.bias, batch.mean, batch.scale, 1e-5)
    torch.testing.assert_close(made, _whole(batch).out)


def test_halves_of_a_batch_add_up_in_what_is_kept() -> None:
    batch = _synchronized()
    torch.testing.assert_close(batch.running, _whole(batch).running)


def test_halves_of_a_batch_add_up_backward() -> None:
    batch = _synchronized()
    reference = _whole(batch)
    g = torch.randn_like(batch.x)
    x, weight, bias = torch.autograd.grad(reference.out, reference.leaves, g)
    given = g, batch.x, batch.mean, batch.scale, batch.weight
    dy, dyx, by_weight, by_bias = torch.batch_norm_backward_reduce(*given, True, True, True)
    torch.testing.assert_close(by_weight, weight)
    torch.testing.assert_close(by_bias, bias)
    made = torch.batch_norm_backward_elemt(*given, dy, dyx, batch.counts.to(torch.int32))
    torch.testing.assert_close(made, x)


ATTENTION: dict[str, Callable[..., Any]] = {
    "efficient": lambda q, k, v, causal: aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)[
        0
    ],
    "flash": lambda q, k, v, causal: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0],
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", ATTENTION)
def test_attention_by_name(kernel: str, causal: bool) -> None:
    dtype = torch.float16 if kernel == "flash" else torch.float32
    q, k, v = (torch.randn(2, 2, 5, 8, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    reference = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    made = ATTENTION[kernel](q, k, v, causal)
    close = {"atol": 4e-3, "rtol": 4e-3} if kernel == "flash" else {}
    torch.testing.assert_close(made, reference, **close)
    gradients = [torch.autograd.grad(out.sin().sum(), (q, k, v)) for out in (made, reference)]
    torch.testing.assert_close(*gradients, **close)


def test_other_results_of_fused_attention() -> None:
    q = torch.randn(2, 3, 5, 8, device="cuda")
    out, sums, *_ = aten._scaled_dot_product_efficient_attention(q, q, q, None, True)
    assert out.stride() == (120, 8, 24, 1)
    assert sums.shape == (2, 3, 32)
    assert aten._scaled_dot_product_efficient_attention(q, q, q, None, False)[1].shape == (2, 3, 0)
    state = aten._scaled_dot_product_flash_attention(q.half(), q.half(), q.half())[6]
    assert (state.dtype, state.shape) == (torch.uint64, (2,))
    with pytest.raises(RuntimeError, match="FlashAttention only support fp16 and bf16 data type"):
        aten._scaled_dot_product_flash_attention(q, q, q)


DROPPING: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "efficient": lambda q, k, v: (lambda made: (made[0], torch.stack(made[2:4])))(
        aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.5)
    ),
    "flash": lambda q, k, v: (lambda made: (made[0], made[6].cpu().long()))(
        aten._scaled_dot_product_flash_attention(q, k, v, 0.5)
    ),
    "flash, heads last": lambda q, k, v: (lambda made: (made[0].transpose(1, 2), made[2].cpu().long()))(
        aten._flash_attention_forward(
            *(t.transpose(1, 2) for t in (q, k, v)), None, None, q.shape[2], k.shape[2], 0.5, False, False
        )
    ),
}


@pytest.mark.parametrize("kernel", DROPPING)
def test_attention_by_name_drops_again_in_its_gradient(kernel: str) -> None:
    dtype = torch.float32 if kernel == "efficient" else torch.float16
    q, k, v = (torch.randn(2, 3, n, 8, device="cuda", dtype=dtype, requires_grad=True) for n in (5, 6, 6))
    made, state = DROPPING[kernel](q, k, v)
    kept = torch.empty(2, 3, 5, 6, device="cuda")
    aten._fill_mem_eff_dropout_mask_(kept, 0.5, *state.tolist())
    assert 0 < (kept > 0.5).sum() < kept.numel()
    scores = (q.float() @ k.float().mT) / 8**0.5
    reference = ((scores.softmax(-1) * (kept > 0.5) / 0.5) @ v.float()).to(dtype)
    torch.testing.assert_close(made, reference, atol=4e-3, rtol=4e-3)
    gradients = [torch.autograd.grad(out.sin().sum(), (q, k, v)) for out in (made, reference)]
    torch.testing.assert_close(*gradients, atol=4e-3, rtol=4e-3)
    assert not torch.equal(DROPPING[kernel](q, k, v)[0], made), "the generator has moved on"


def test_integers_divided_by_zero_are_no_error() -> None:
    one = torch.tensor([1], device="cuda")
    assert (one // 0).shape == (1,)
    assert (one % torch.zeros_like(one)).shape == (1,)


def test_division_by_zero() -> None:
    assert (torch.tensor([1], device="cuda") / 0).tolist() == [float("inf")]
