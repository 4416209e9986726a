"""Weights of recurrent layers on the virtual GPU lie in one piece, as cuDNN wants them."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from harness import VIRTUAL, child
from torch import nn

pytestmark = child(VIRTUAL)
WORDS = "RNN module weights are not part of single contiguous chunk of memory"
#: Where the parameters of a layer begin, in elements, and the bytes of all; recorded on an H200.
RECORDED = {
    "layers": (lambda **o: nn.LSTM(4, 5, 2, **o), [0, 80, 380, 400, 180, 280, 420, 440], 1840),
    "both ways": (lambda **o: nn.GRU(4, 5, bidirectional=True, **o), [0, 60, 270, 285, 135, 195, 300, 315], 1320),
    "projections": (lambda **o: nn.LSTM(4, 5, proj_size=3, **o), [0, 80, 155, 175, 140], 780),
    "no biases": (lambda **o: nn.RNN(3, 4, bias=False, **o), [0, 12], 144),
}


def said(layer: nn.RNNBase) -> int:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        layer(torch.ones(2, 1, layer.input_size, dtype=layer.weight_ih_l0.dtype, device="cuda"))
    return sum(WORDS in str(warning.message) for warning in told)


@pytest.mark.parametrize("layer", list(RECORDED))
def test_lie_as_recorded(layer: str) -> None:
    make, offsets, size = RECORDED[layer]
    host = make()
    moved, made = copy.deepcopy(host).cuda(), make(device="cuda")
    for found in (moved, made):
        assert [p.storage_offset() for p in found.parameters()] == offsets
        storages = {p.untyped_storage().data_ptr() for p in found.parameters()}
        assert len(storages) == 1
        assert found.weight_ih_l0.untyped_storage().nbytes() == size
        assert said(found) == 0
    assert all(torch.equal(a.cpu(), b) for a, b in zip(moved.parameters(), host.parameters(), strict=True))
    assert moved.half().weight_ih_l0.untyped_storage().nbytes() == size // 2
    assert made.double().weight_ih_l0.untyped_storage().nbytes() == size * 2


@pytest.mark.parametrize("layer", list(RECORDED))
def test_apart_they_are_put_together_at_every_call(layer: str) -> None:
    apart = copy.deepcopy(RECORDED[layer][0](device="cuda"))
    assert len({p.untyped_storage().data_ptr() for p in apart.parameters()}) == len(list(apart.parameters()))
    assert said(apart) == 1
    with torch.backends.cudnn.flags(enabled=False):
        assert said(apart) == 0
    with torch.autocast("cuda"):
        assert said(apart) == 0
    apart.flatten_parameters()
    assert said(apart) == 0


def test_they_train_where_they_lie() -> None:
    layer = nn.LSTM(4, 5, 2, device="cuda")
    step = torch.optim.SGD(layer.parameters(), 0.1)
    before = layer.weight_hh_l1.detach().clone()
    layer(torch.ones(2, 1, 4, device="cuda"))[0].sum().backward()
    step.step()
    assert not torch.equal(before, layer.weight_hh_l1)
    assert said(layer) == 0


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_eval_mode_refuses_the_backward_pass(kind: str, is_packed: bool) -> None:
    """cuDNN keeps nothing for it; recorded on an H200, for each dtype and for packed sequences."""
    net = getattr(nn, kind)(4, 3, num_layers=2, dtype=torch.float64, device="cuda")

    def run() -> None:
        x = torch.rand(5, 2, 4, dtype=torch.float64, device="cuda")
        out = net(nn.utils.rnn.pack_padded_sequence(x, [5, 3]) if is_packed else x)[0]
        (out.data if is_packed else out).sum().backward()

    run()
    net.eval()
    with torch.backends.cudnn.flags(enabled=False):
        run()
    with pytest.raises(RuntimeError, match="^cudnn RNN backward can only be called in training mode$"):
        run()
