"""Operators the GPU lacks run elsewhere and come back; errors that are not about that go on unchanged."""

from __future__ import annotations

import warnings

import pytest
import torch
from harness import MPS_FAITHFUL, child
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from torchdevice_cuda.fallback.capabilities import missing
from torchdevice_cuda.report.departures import departures

from .seeing import left, raised

on_mps = child(MPS_FAITHFUL)
STEPS = [0.0, 0.5, 1.0]


def _symmetric() -> torch.Tensor:
    return torch.tensor([[2.0, 1.0], [1.0, 3.0]], device="cuda")


def _steps() -> tuple[torch.Tensor, torch.Tensor]:
    """Call ``heaviside``, which the GPU lacks, on STEPS."""
    return torch.tensor([-1.0, 0.0, 2.0], device="cuda"), torch.full((3,), 0.5, device="cuda")


@on_mps
def test_named_results_keep_their_names() -> None:
    assert type(torch.linalg.eigh(_symmetric())).__name__ == "linalg_eigh"
    assert type(torch.mode(torch.tensor([1, 2, 2], device="cuda"))).__name__ == "mode"


@on_mps
def test_results_come_back() -> None:
    w, v = torch.linalg.eigh(_symmetric())
    assert w.is_cuda
    assert v.is_cuda
    assert torch.mode(torch.tensor([1, 2, 2], device="cuda")).indices.is_cuda


@on_mps
def test_results_are_right() -> None:
    x = _symmetric()
    w, v = torch.linalg.eigh(x)
    assert w.tolist() == pytest.approx([1.382, 3.618], abs=1e-4)
    assert torch.allclose(v @ torch.diag(w) @ v.T, x, atol=1e-5)


@on_mps
def test_departures_are_counted() -> None:
    departures.clear()
    torch.linalg.eigh(_symmetric())
    assert [1, "aten::_linalg_eigh", "CPU", "the GPU's backend has no kernel"] in left()


#: Of a matrix of 3 x 5 and of three classes.
DEFAULTS = {
    "multi_margin_loss": lambda x, t: functional.multi_margin_loss(x, t),
    "multi_margin_loss, sum": lambda x, t: functional.multi_margin_loss(x, t, reduction="sum"),
    "multi_margin_loss, none": lambda x, t: functional.multi_margin_loss(x, t, reduction="none"),
    "multilabel_margin_loss": lambda x, t: functional.multilabel_margin_loss(x[0, :3], t),
    "mode": lambda x, t: torch.mode(x),
    "frexp": lambda x, t: torch.frexp(x),
    "ldl_factor": lambda x, t: torch.linalg.ldl_factor(x[:, :3] + x[:, :3].T),
    "ormqr": lambda x, t: torch.ormqr(x.T, x[0, :3], x.T),
}


@on_mps
@pytest.mark.parametrize("operator", DEFAULTS)
def test_arguments_that_have_their_defaults(operator: str) -> None:
    """The dispatcher leaves them out; what computes in the operator's place must read the same defaults."""
    x, t = torch.linspace(0, 1, 15).reshape(3, 5), torch.tensor([1, 2, 0])
    there, here = DEFAULTS[operator](x.cuda(), t.cuda()), DEFAULTS[operator](x, t)
    assert tree_leaves(here)
    for got, wanted in zip(tree_leaves(there), tree_leaves(here), strict=True):
        assert got.shape == wanted.shape
        assert torch.allclose(got.cpu(), wanted)


@on_mps
def test_writing_in_place() -> None:
    x, h = _steps()
    assert x.heaviside_(h) is x
    assert x.tolist() == STEPS


@on_mps
def test_writing_to_an_output_that_grows() -> None:
    x, h = _steps()
    out = torch.empty(0, device="cuda")
    assert torch.heaviside(x, h, out=out) is out
    assert out.tolist() == STEPS


@on_mps
def test_writing_to_a_view() -> None:
    x, h = _steps()
    base = torch.zeros(6, device="cuda")
    torch.heaviside(x, h, out=base[::2])
    assert base.tolist() == [0.0, 0.0, 0.5, 0.0, 1.0, 0.0]


@on_mps
def test_writing_to_some_elements() -> None:
    x = torch.zeros(3, device="cuda")
    x.put_(torch.tensor([2], device="cuda"), torch.tensor([5.0], device="cuda"))
    assert x.tolist() == [0, 0, 5]
    assert x.is_cuda


#: Of a matrix of 4 x 4.
DIFFERENTIABLE = {
    "eigh": lambda x: torch.linalg.eigvalsh(x + x.T),
    "svd": torch.linalg.svdvals,
    "svd vectors": lambda x: torch.linalg.svd(x)[1],
    "pool": lambda x: functional.adaptive_avg_pool3d(torch.stack([x + n for n in range(8)]).reshape(1, 2, 4, 4, 4), 2),
    "take": lambda x: x.take(torch.tensor([1, 1, 3], device=x.device)),
    "matrix_exp": torch.linalg.matrix_exp,
    "pdist": functional.pdist,
    "ctc": lambda x: functional.ctc_loss(x.log_softmax(1)[:, None], torch.tensor([[1, 2]], device=x.device), [4], [2]),
}


@on_mps
@pytest.mark.parametrize("operator", DIFFERENTIABLE)
def test_gradients_flow(operator: str) -> None:
    torch.manual_seed(0)
    here = torch.randn(4, 4).requires_grad_()
    there = here.detach().cuda().requires_grad_()
    for x in (here, there):
        DIFFERENTIABLE[operator](x).sum().backward()
    assert there.grad.is_cuda
    assert torch.allclose(there.grad.cpu(), here.grad, atol=1e-4)


def _poisson(generator: torch.Generator | None = None) -> list[float]:
    return torch.poisson(torch.full((64,), 5.0, device="cuda"), generator=generator).tolist()


@on_mps
def test_random_operators_follow_the_devices_seed() -> None:
    torch.cuda.manual_seed(1)
    first, second = _poisson(), _poisson()
    torch.cuda.manual_seed(1)
    assert _poisson() == first
    assert first != second


@on_mps
def test_random_operators_follow_a_generator() -> None:
    generator = torch.Generator("cuda").manual_seed(3)
    drawn = _poisson(generator)
    assert _poisson(generator.manual_seed(3)) == drawn


@on_mps
def test_random_operators_leave_the_cpus_generator_alone() -> None:
    state = torch.get_rng_state()
    _poisson()
    assert torch.equal(state, torch.get_rng_state())


@on_mps
def test_operators_the_gpu_has_are_left_alone() -> None:
    departures.clear()
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 8),
        nn.Unflatten(1, (4, 2)),
        nn.TransformerEncoderLayer(2, 1, 4, batch_first=True),
    ).cuda()
    model(torch.randn(2, 3, 8, 8, device="cuda")).sum().backward()
    lstm = nn.LSTM(4, 5).cuda()
    lstm(torch.randn(3, 2, 4, device="cuda"))[0].sum().backward()
    assert left() == []


@on_mps
def test_no_operator_is_missing() -> None:
    assert list(missing("MPS")) == []


@child(MPS_FAITHFUL.with_settings(fallback="warn"))
def test_warn() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.heaviside(*_steps())
    (warning,) = caught
    assert str(warning.message) == "aten::heaviside runs on CPU: the GPU's backend has no kernel"
    assert warning.filename == __file__


FORBIDDEN = MPS_FAITHFUL.with_settings(fallback="error")


@child(FORBIDDEN)
def test_error() -> None:
    with pytest.raises(NotImplementedError) as caught:
        torch.heaviside(*_steps())
    assert str(caught.value).startswith(f"{__file__}:")
    assert "aten::heaviside would leave the accelerator" in str(caught.value)


@child(FORBIDDEN)
def test_supported_operators_run_under_fallback_error() -> None:
    assert (torch.ones(2, device="cuda") + 1).tolist() == [2, 2]


WRONG = {
    "eigh of what is not square": lambda device: torch.linalg.eigh(torch.ones(2, 3, device=device)),
    "an index out of range": lambda device: torch.take(torch.ones(2, device=device), torch.tensor([9], device=device)),
    "a dimension out of range": lambda device: torch.sort(torch.ones(2, device=device), 5),
}


@on_mps
@pytest.mark.parametrize("wrong", WRONG)
def test_general_errors_go_on_unchanged(wrong: str) -> None:
    here = raised(lambda: WRONG[wrong]("cpu"))
    assert here is not None
    assert raised(lambda: WRONG[wrong]("cuda")) == here
