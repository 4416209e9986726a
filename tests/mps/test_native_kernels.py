"""Operators that MPS has kernels for run on the device, forward and backward, never on the CPU."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import BOTH_POLICIES, MPS, MPS_FAITHFUL, child
from harness.mac import VARIABLE
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from torchdevice_cuda.report.departures import departures

from .seeing import left, real

on_mps = child(MPS_FAITHFUL)
#: Programs that ask for ``mps`` themselves.
its_own = child(*BOTH_POLICIES, MPS_FAITHFUL.with_settings(identity="native"))


def _sequence() -> torch.Tensor:
    return torch.randn(5, 3, 4, device="cuda")


def _packed() -> PackedSequence:
    return pack_padded_sequence(_sequence(), [5, 2, 3], enforce_sorted=False)


def _batch() -> torch.Tensor:
    return torch.randn(2, 5, 8, device="cuda")


def _mask() -> torch.Tensor:
    return torch.triu(torch.ones(5, 5, device="cuda"), 1).bool()


def _trained(model: nn.Module, *inputs: Any, **options: Any) -> None:
    model = model.cuda()
    out = model(*inputs, **options)
    out = out[0] if isinstance(out, tuple) else out
    (out.data if isinstance(out, PackedSequence) else out).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with torch.no_grad():
        model.eval()(*inputs, **options)


def _attended(**options: Any) -> None:
    q = torch.randn(2, 2, 5, 4, device="cuda", requires_grad=True)
    functional.scaled_dot_product_attention(q, q, q, **options).sum().backward()
    assert q.grad is not None


def _multihead(**options: Any) -> None:
    batch = _batch()
    _trained(nn.MultiheadAttention(8, 2, batch_first=True), batch, batch, batch, **options)


def _encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)


def _decoder() -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1)


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(36, 2)
    )


WORK: dict[str, Callable[[], None]] = {
    "lstm": lambda: _trained(nn.LSTM(4, 6), _sequence()),
    "deep lstm": lambda: _trained(nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True, dropout=0.1), _sequence()),
    "projected lstm": lambda: _trained(nn.LSTM(4, 6, proj_size=3), _sequence()),
    "packed lstm": lambda: _trained(nn.LSTM(4, 6), _packed()),
    "lstm cell": lambda: _trained(nn.LSTMCell(4, 6), _sequence()[0]),
    "gru": lambda: _trained(nn.GRU(4, 6, 2, bidirectional=True), _sequence()),
    "packed gru": lambda: _trained(nn.GRU(4, 6), _packed()),
    "rnn": lambda: _trained(nn.RNN(4, 6, nonlinearity="relu"), _sequence()),
    "attention": lambda: _attended(),
    "causal attention": lambda: _attended(is_causal=True),
    "masked attention": lambda: _attended(attn_mask=_mask()),
    "attention with dropout": lambda: _attended(dropout_p=0.1),
    "multihead": lambda: _multihead(),
    "multihead alone": lambda: _multihead(attn_mask=_mask(), need_weights=False),
    "encoder": lambda: _trained(_encoder(), _batch(), mask=_mask()),
    "decoder": lambda: _trained(_decoder(), _batch(), _batch()),
    "convolutions": lambda: _trained(_convolutions(), torch.randn(2, 3, 8, 8, device="cuda")),
}


@on_mps
@pytest.mark.parametrize("work", WORK)
def test_no_operator_falls_back(work: str) -> None:
    departures.clear()
    WORK[work]()
    assert left() == []


@on_mps
def test_operators_without_a_kernel_fall_back() -> None:
    departures.clear()
    torch.linalg.eigh(torch.eye(2, device="cuda"))
    assert left() != []


def _outcome(model: nn.LSTM, x: torch.Tensor) -> list[torch.Tensor]:
    x.requires_grad_()
    out, (h, c) = model(x)
    (out.square().sum() + h.sum() + c.sum()).backward()
    return [out, h, c, x.grad, *(p.grad for p in model.parameters())]


@on_mps
@pytest.mark.parametrize("batch_first", [True, False])
def test_projected_lstm(batch_first: bool) -> None:
    """The GPU's kernel has no projections; the numbers are the CPU's, whatever the layout."""
    torch.manual_seed(0)
    home = nn.LSTM(4, 6, 2, proj_size=3, batch_first=batch_first, bidirectional=True)
    away = nn.LSTM(4, 6, 2, proj_size=3, batch_first=batch_first, bidirectional=True).cuda()
    away.load_state_dict(home.state_dict())
    x = torch.randn(5, 3, 4)
    there, here = _outcome(away, x.cuda()), _outcome(home, x)
    assert there[0].is_cuda
    for got, wanted in zip(there, here, strict=True):
        assert torch.allclose(got.cpu(), wanted, atol=1e-5)


# ------------------------------------------------- a program that is written for ``mps`` keeps working


@its_own
def test_tensors_and_modules_of_mps() -> None:
    x = torch.ones(3, 3, device="mps")
    assert real(x) == "mps"
    assert x.to("mps") is x
    assert real(nn.Linear(3, 3).to("mps").weight) == "mps"
    assert torch.mps.current_allocated_memory() > 0
    assert torch.mps.device_count() == 1
    torch.mps.empty_cache()


@its_own
def test_tensors_of_mps_meet_those_of_cuda() -> None:
    x = torch.ones(3, 3, device="mps")
    assert (x.cuda() + x).sum().item() == 18


@its_own
def test_autocast_of_mps() -> None:
    model = nn.Linear(3, 3).to("mps")
    with torch.autocast("mps", torch.float16):
        assert model(torch.ones(3, 3, device="mps")).dtype is torch.float16


def _drawn(generator: torch.Generator | None = None) -> list[float]:
    return torch.rand(2, device="mps", generator=generator).tolist()


@its_own
def test_seeds_and_generators_of_mps() -> None:
    torch.mps.manual_seed(3)
    assert _drawn() == _drawn(torch.Generator("mps").manual_seed(3))


@its_own
def test_random_state_of_mps() -> None:
    state = torch.mps.get_rng_state()
    drawn = _drawn()
    torch.mps.set_rng_state(state)
    assert _drawn() == drawn


@its_own
def test_events_of_mps() -> None:
    x = torch.ones(3, 3, device="mps")
    start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    start.record()
    y = x @ x
    end.record()
    torch.mps.synchronize()
    assert start.elapsed_time(end) >= 0
    assert y.sum().item() == 27


@its_own
def test_checkpoints_of_mps() -> None:
    model, file = nn.Linear(3, 3).to("mps"), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="mps")
    assert {real(value) for value in loaded.values()} == {"mps"}
    model.load_state_dict(loaded)


@its_own
def test_a_context_of_mps() -> None:
    with torch.device("mps"):
        assert real(torch.zeros(1)) == "mps"


def _gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x @ y).sum(0)


@pytest.mark.slow
@child(MPS)
@pytest.mark.skipif(VARIABLE in os.environ, reason="on a Mac inductor writes Metal code (test_metal_codegen.py)")
def test_compiled_by_inductor() -> None:
    x, y = torch.randn(3, 4, device="cuda", requires_grad=True), torch.randn(4, 5, device="cuda")
    out = torch.compile(_gelu, fullgraph=True)(x, y)
    (compiled,) = torch.autograd.grad(out.sum(), x)
    plain = _gelu(x, y)
    (wanted,) = torch.autograd.grad(plain.sum(), x)
    assert torch.allclose(out, plain, atol=1e-5)
    assert torch.allclose(compiled, wanted, atol=1e-5)
    assert str(out.device) == "cuda:0"
