"""Half precision: computed in float32 and rounded once, as CUDA accumulates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn import functional

from torchdevice_cuda.native import half

from .bare import bare, native

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _both_ways(
    function: Callable[..., torch.Tensor], given: list[torch.Tensor], dtype: torch.dtype
) -> list[torch.Tensor]:
    leaves = [t.detach().requires_grad_() for t in given]
    result = function(*leaves)
    seed = _random(*result.shape).to(dtype).to(result)
    return [result.detach(), *torch.autograd.grad(result, leaves, seed)]


HEADS = (2, 2, 16, 8)
DIFFERENTIABLE = {
    "mm": (torch.mm, ((8, 16), (16, 4))),
    "bmm": (torch.bmm, ((3, 8, 16), (3, 16, 4))),
    "addmm": (torch.addmm, ((8, 4), (8, 16), (16, 4))),
    "mv": (torch.mv, ((8, 16), (16,))),
    "linear": (functional.linear, ((8, 16), (4, 16), (4,))),
    "conv2d": (lambda x, w, b: functional.conv2d(x, w, b, padding=1), ((2, 3, 8, 8), (4, 3, 3, 3), (4,))),
    "conv_transpose1d": (functional.conv_transpose1d, ((2, 3, 8), (3, 4, 3))),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (16,), w, b), ((8, 16), (16,), (16,))),
    "batch_norm": (lambda x, w, b: functional.batch_norm(x, None, None, w, b, True), ((4, 3, 5, 5), (3,), (3,))),
    "mse_loss": (functional.mse_loss, ((8, 16), (8, 16))),
    "grid_sample": (lambda x, g: functional.grid_sample(x, g, align_corners=False), ((2, 3, 8, 8), (2, 4, 4, 2))),
    "grid_sample_3d": (
        lambda x, g: functional.grid_sample(x, g, align_corners=True),
        ((1, 2, 6, 6, 6), (1, 3, 3, 3, 3)),
    ),
}


@child(bare())
def test_results_are_those_of_float32_rounded() -> None:
    """Forward to the bit: nothing is rounded on the way."""
    for name, (function, shapes) in DIFFERENTIABLE.items():
        for dtype in HALVES:
            given = [_random(*shape).to(dtype) for shape in shapes]
            made = [t.cpu() for t in _both_ways(function, [t.cuda() for t in given], dtype)]
            wide = [t.to(dtype) for t in _both_ways(function, [t.float() for t in given], dtype)]
            assert torch.equal(made[0], wide[0]), (name, dtype)
            # What a composite makes of parts is rounded after each.
            torch.testing.assert_close(made, wide, msg=lambda said, at=(name, dtype): f"{at}: {said}")


@child(bare())
def test_attention_keeps_its_sums_in_float32() -> None:
    for dtype in HALVES:
        q, k, v = (_random(*HEADS).add(i).to(dtype) for i in range(3))
        out, sums = aten._scaled_dot_product_flash_attention_for_cpu(q.cuda(), k.cuda(), v.cuda())
        wide, wide_sums = aten._scaled_dot_product_flash_attention_for_cpu(q.float(), k.float(), v.float())
        assert torch.equal(out.cpu(), wide.to(dtype))
        assert torch.equal(sums.cpu(), wide_sums)


@child(bare())
def test_statistics_of_norms_are_float32() -> None:
    for dtype in HALVES:
        x, weight = _random(4, 3, 5).to("cuda", dtype), torch.ones(3, device="cuda", dtype=dtype)
        _, mean, scale = torch.native_layer_norm(x, (5,), None, None, 1e-5)
        assert mean.dtype == scale.dtype == torch.float32
        _, mean, scale = torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)
        assert mean.dtype == scale.dtype == torch.float32


@child(bare())
def test_gradients_have_the_types_of_what_they_are_of() -> None:
    """The input half, the weights float32: what autocast makes of a batch norm."""
    x = _random(4, 3, 5).to("cuda", torch.float16).requires_grad_()
    weight, bias = (torch.ones(3, device="cuda").requires_grad_() for _ in range(2))
    functional.batch_norm(x, None, None, weight, bias, True).sum().backward()
    assert [t.grad.dtype for t in (x, weight, bias) if t.grad is not None] == [torch.float16, *[torch.float32] * 2]


@child(bare())
def test_results_are_written_where_they_are_wanted() -> None:
    a, b = _random(8, 16).half(), _random(16, 4).half()
    expected = (a.float() @ b.float()).half()
    out = torch.empty(0, device="cuda", dtype=torch.float16)
    assert torch.mm(a.cuda(), b.cuda(), out=out) is out
    assert torch.equal(out.cpu(), expected)
    into = torch.zeros(8, 4, device="cuda", dtype=torch.float16)
    assert into.addmm_(a.cuda(), b.cuda()) is into
    assert torch.equal(into.cpu(), expected)


@child(bare())
def test_wide_copies_are_made_once_in_device_memory_and_given_back() -> None:
    x = torch.ones(512, 512, device="cuda", dtype=torch.float16)
    torch.mm(x, x)
    module = emptied_but(x)
    before = module.memory_allocated(0)
    result = torch.mm(x, x)
    peak = module.memory_stats(0)["allocated_bytes"]["all"]["peak"]
    wide = 4 * x.numel()
    assert before + 2 * wide <= peak <= before + 2 * wide + 2 * x.numel()  # of x, of the result; the result
    assert module.memory_allocated(0) == before + 2 * result.numel()


def emptied_but(*kept: torch.Tensor) -> Any:
    """Return the native module, with figures that start here."""
    module = native()
    module.empty_cache()
    module.reset_peak_stats(0)
    assert module.memory_allocated(0) >= sum(t.nbytes for t in kept)
    return module


@child(bare(), alone=True)
def test_fast_operators_stay_in_half_precision() -> None:
    native().keep_narrow("product", "float16")
    more = {}
    for dtype in HALVES:
        x = torch.ones(4096, device="cuda", dtype=dtype)
        torch.dot(x, x)
        module = emptied_but(x)
        before = module.memory_allocated(0)
        torch.dot(x, x)
        more[dtype] = module.memory_stats(0)["allocated_bytes"]["all"]["peak"] - before
    wide = 4 * 4096
    assert more[torch.float16] < wide <= more[torch.bfloat16]
    for family in half._probes():
        native().keep_narrow(family, "bfloat16")
    with pytest.raises(RuntimeError, match="no such family"):
        native().keep_narrow("sums", "float16")


@child(VIRTUAL)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_half_into_float32(name: str) -> None:
    function = getattr(functional, name)
    x = _random(4, 8).half()
    ours, wide = x.cuda().requires_grad_(), x.float().requires_grad_()
    made, expected = function(ours, -1, dtype=torch.float32), function(wide, -1)
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.cpu(), expected)
    seed = _random(4, 8)
    made.backward(seed.cuda())
    expected.backward(seed)
    assert ours.grad is not None and ours.grad.dtype == torch.float16
    torch.testing.assert_close(ours.grad.cpu(), wide.grad.half())
    assert torch.equal(function(ours.detach(), -1).cpu(), function(x, -1)), "without a type it stays half"


@child(VIRTUAL)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_attention_written_by_hand_under_autocast(name: str) -> None:
    dtype = getattr(torch, name)
    q, k, v = (_random(*HEADS).add(i).cuda().requires_grad_() for i in range(3))
    with torch.autocast("cuda", dtype):
        scores = q @ k.transpose(-2, -1)
        assert scores.dtype == dtype
        weights = functional.softmax(scores, -1)
        assert weights.dtype == torch.float32
        out = weights @ v
        loss = functional.cross_entropy(out.flatten(0, 2), torch.zeros(64, dtype=torch.long, device="cuda"))
    loss.backward()
    expected = functional.scaled_dot_product_attention(q, k, v, scale=1.0)
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)
    assert q.grad is not None and bool(q.grad.isfinite().all())


class _Told:
    """A fake of the compiled module that records its calls."""

    def __init__(self) -> None:
        self.quick: list[str] = []

    def keep_narrow(self, family: str, type: str) -> None:
        self.quick.append(f"{family}.{type}")


def test_the_processor_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    first, second = (_Told() for _ in range(2))
    monkeypatch.setattr(half, "_measure", lambda: ["product.float16", "attention.bfloat16"])
    half.settle(first, tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(half, "_measure", lambda: pytest.fail("measured again"))
    half.settle(second, tmp_path)  # type: ignore[arg-type]
    assert first.quick == second.quick == ["product.float16", "attention.bfloat16"]


def test_another_processor_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    asked: list[str] = []
    monkeypatch.setattr(half, "_measure", lambda: asked.append("") or [])
    for limit in ("AVX2", "AVX512_CORE_AMX", "AVX2"):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        half.settle(_Told(), tmp_path)  # type: ignore[arg-type]
    assert len(asked) == 2


def test_measurements_reach_the_device() -> None:
    """Every family, both types, without a draw from the program's generator; and slow is not called quick."""
    state = torch.get_rng_state()
    quick = half._measure()
    assert torch.equal(torch.get_rng_state(), state)
    families = half._probes()
    assert {one.partition(".")[0] for one in quick} <= families.keys()
    given = [torch.ones(16, 16, dtype=torch.float16)]

    def slow(t: torch.Tensor) -> torch.Tensor:
        for _ in range(100 if t.dtype == torch.float16 else 1):
            t = t + t
        return t

    assert not half._is_quick(slow, given)
    assert half._is_quick(lambda t: slow(t.float()), given)


def test_operators_fast_only_on_small_inputs_are_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call costs the same at first; what programs compute with is larger."""

    def function(t: torch.Tensor) -> torch.Tensor:
        for _ in range(200 if t.dtype == torch.float16 and len(t) > 8 else 4):
            t = t + t
        return t

    monkeypatch.setattr(half, "_probes", lambda: {"product": (function, (((8, 8),), ((128, 128),)))})
    assert "product.float16" not in half._measure()


@child(VIRTUAL)
def test_products_are_rounded_once() -> None:
    x = 1 + torch.arange(300.0).remainder(7) / 256
    for dtype in HALVES:
        narrow = x.to(dtype)
        assert narrow.cuda().prod() == narrow.double().prod().to(dtype)
        assert narrow.cuda().prod(0, dtype=torch.float32).dtype == torch.float32
        with torch.autocast("cuda"):
            assert narrow.cuda().prod().dtype == torch.float32


@child(VIRTUAL)
@pytest.mark.parametrize(("type_name", "name"), [("float16", "Half"), ("bfloat16", "BFloat16")])
def test_statistics_of_another_type_than_the_weights(type_name: str, name: str) -> None:
    """As FSDP's mixed precision leaves them: PyTorch's tests expect the error of its backward pass."""
    dtype = getattr(torch, type_name)

    def gradient(*shape: int, statistics: torch.dtype = torch.float32, memory: Any = torch.contiguous_format) -> Any:
        model = torch.nn.BatchNorm1d(5) if len(shape) < 4 else torch.nn.BatchNorm2d(5)
        model = model.to(device="cuda", dtype=dtype)
        model.running_mean, model.running_var = (one.to(statistics) for one in model.buffers() if one.dim())
        x = torch.randn(shape, device="cuda", dtype=dtype).to(memory_format=memory).requires_grad_()
        model(x).sum().backward()
        return x.grad

    for shape in ((3, 5, 4), (3, 5, 4, 4)):
        with pytest.raises(RuntimeError, match=f"Expected running_mean to have type {name} but got Float"):
            gradient(*shape)
        assert gradient(*shape, statistics=dtype).shape == shape
    assert gradient(3, 5).shape == (3, 5)
    assert gradient(3, 5, 4, 4, memory=torch.channels_last).shape == (3, 5, 4, 4)
