"""The LSTM of the virtual GPU: one operator of cuDNN's where CUDA has it, the same numbers as the CPU's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch import nn
from torch.profiler import ProfilerActivity, profile

pytestmark = child(VIRTUAL)

#: The fused kernel computes these; and these go step by step.
FUSED: dict[str, dict[str, Any]] = {
    "one layer": {},
    "layers both ways": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True},
    "no biases": {"bias": False, "num_layers": 3, "bidirectional": True},
    "dropout of one layer": {"dropout": 0.0, "batch_first": True, "num_layers": 2},
}
STEPPED: dict[str, dict[str, Any]] = {
    "float64": {"dtype": torch.float64},
    "projections": {"proj_size": 3},
}


def both(**options: Any) -> tuple[nn.LSTM, nn.LSTM]:
    torch.manual_seed(0)
    host = nn.LSTM(6, 8, **options)
    return host, copy.deepcopy(host).cuda()


def given(model: nn.LSTM) -> list[torch.Tensor]:
    """Return an input that is no square, with its states."""
    steps, batch, kind = 5, 3, model.weight_ih_l0.dtype
    stacks = model.num_layers * (2 if model.bidirectional else 1)
    states = [(stacks, batch, model.proj_size or 8), (stacks, batch, 8)]
    shape = (batch, steps, 6) if model.batch_first else (steps, batch, 6)
    return [torch.randn(*sizes, dtype=kind) for sizes in (shape, *states)]


def trained(model: nn.LSTM, tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Train it; return its results and all gradients, with a different weight for each result."""
    x, h, c = (t.to(device, copy=True).requires_grad_() for t in tensors)
    out, (hy, cy) = model(x, (h, c))
    (out.pow(2).sum() + hy.sin().sum() + cy.exp().sum()).backward()
    return [out, hy, cy, *(t.grad for t in (x, h, c, *model.parameters()))]


def operators(model: nn.LSTM, *arguments: Any) -> set[str]:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        model(*arguments)
    return {event.key for event in seen.key_averages()}


@pytest.mark.parametrize("options", [*FUSED, *STEPPED])
def test_same_numbers_as_on_the_cpu(options: str) -> None:
    host, device = both(**{**FUSED, **STEPPED}[options])
    tensors = given(host)
    for expected, found in zip(trained(host, tensors, "cpu"), trained(device, tensors, "cuda"), strict=True):
        assert found.is_cuda
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found.cpu(), expected)
    x, *states = (t.cuda() for t in tensors)
    assert ("aten::_cudnn_rnn" in operators(device, x, tuple(states))) == (options in FUSED)


@pytest.mark.parametrize("which", ["hy", "cy", "out"])
def test_gradients_of_one_result_alone(which: str) -> None:
    host, device = both(num_layers=2)
    x = torch.randn(5, 3, 6)
    found = []
    for model, device_type in ((host, "cpu"), (device, "cuda")):
        out, (hy, cy) = model(x.to(device_type))
        {"hy": hy, "cy": cy, "out": out}[which].sum().backward()
        found.append([p.grad.cpu() for p in model.parameters()])
    for expected, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected)


def test_calls_that_cudnn_refuses_are_refused() -> None:
    _, device = both()
    x = torch.randn(5, 3, 6, device="cuda", requires_grad=True)
    (grad,) = torch.autograd.grad(device(x)[0].sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="Double backwards is not supported for CuDNN RNNs"):
        grad.sum().backward()
    evaluated = device.eval()(x)[0]
    with pytest.raises(RuntimeError, match="cudnn RNN backward can only be called in training mode"):
        evaluated.sum().backward()
    with torch.backends.cudnn.flags(enabled=False):
        (grad,) = torch.autograd.grad(device(x)[0].sum(), x, create_graph=True)
        grad.sum().backward()


def test_computed_step_by_step_where_cudnn_does_not_compute_it() -> None:
    _, device = both()
    x = torch.randn(5, 3, 6, device="cuda")
    with torch.backends.cudnn.flags(enabled=False):
        assert "aten::_cudnn_rnn" not in operators(device, x)
    with torch.autocast("cuda"):
        assert device(x)[0].dtype == torch.float16
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 2]))
    assert "aten::_cudnn_rnn" not in operators(device, packed)


def test_dropout_between_layers_is_drawn_as_ever() -> None:
    _, device = both(num_layers=2, dropout=0.5)
    x = torch.randn(5, 3, 6, device="cuda")
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(device(x)[0])
    assert torch.equal(*found)
    assert not torch.equal(found[0], device(x)[0])


def test_a_captured_step_is_replayed() -> None:
    host, device = both(num_layers=2)
    x = torch.randn(5, 3, 6)
    there = torch.zeros(5, 3, 6, device="cuda")
    graph = torch.cuda.CUDAGraph()
    device(there)[0].sum().backward()
    device.zero_grad(set_to_none=False)
    with torch.cuda.graph(graph):
        out = device(there)[0]
        out.sum().backward()
    device.zero_grad(set_to_none=False)
    there.copy_(x)
    graph.replay()
    expected = host(x)[0]
    expected.sum().backward()
    torch.testing.assert_close(out.cpu(), expected)
    for ours, theirs in zip(device.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def test_asked_for_by_name() -> None:
    aten = torch.ops.aten
    _, device = both()
    x, h, c = (t.cuda() for t in given(device))
    weights, cudnn = [w.detach() for w in device._flat_weights], (2, 8, 0, 1, False, 0.0, True, False, [], None)
    out, hy, cy, reserve, _ = aten._cudnn_rnn(x, weights, 4, None, h, c, *cudnn)
    expected = device(x, (h, c))[0]
    torch.testing.assert_close(out, expected)
    assert reserve.dtype == torch.uint8
    with pytest.raises(RuntimeError, match="sizes of the weights and states"):
        aten._cudnn_rnn(x, weights, 4, None, h[:, :2], c, *cudnn)
    with pytest.raises(NotImplementedError, match="of cuDNN's networks, a virtual GPU has the LSTM"):
        aten._cudnn_rnn(x, weights, 4, None, h, c, 3, *cudnn[1:])
    with pytest.raises(NotImplementedError, match="tensors of float32 that are all on one device"):
        aten._cudnn_rnn(x.double(), weights, 4, None, h, c, *cudnn)
    mask = [True] * 4
    back = (x, weights, 4, torch.empty(0, device="cuda"), h, c, out, torch.ones_like(out), None, None, *cudnn)
    for wrong in (reserve[:64], reserve[:-64], torch.full_like(reserve, 255)):
        with pytest.raises(RuntimeError, match="reserve is not what _cudnn_rnn gave"):
            aten._cudnn_rnn_backward(*back, wrong, mask)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_autocast_gives_networks_of_cudnn_float16(kind: str) -> None:
    """CUDA casts them to float16, whichever type autocast has; the weights' gradients keep the weights' type."""
    torch.manual_seed(0)
    network = getattr(torch.nn, kind)(8, 16, 2).cuda()
    x = torch.randn(5, 3, 8, device="cuda")
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 2]))
    with torch.autocast("cuda", torch.bfloat16):
        y, state = network(x)
        z, _ = network(packed)
    assert {y.dtype, z.data.dtype, (state[0] if kind == "LSTM" else state).dtype} == {torch.float16}
    half, _ = copy.deepcopy(network).half()(x.half())
    assert torch.equal(y, half)
    y.sum().backward()
    assert {p.grad.dtype for p in network.parameters()} == {torch.float32}
    with torch.autocast("cuda", torch.bfloat16), torch.backends.cudnn.flags(enabled=False):
        assert network(x)[0].dtype == torch.bfloat16
