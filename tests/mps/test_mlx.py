"""The MLX table against the CPU, and operators of the GPU that MLX computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, child, in_child, python
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from torchdevice_cuda.fallback import mlx_ops, mlx_routes
from torchdevice_cuda.report.departures import departures

from .seeing import left, raised, routes

pytestmark = pytest.mark.skipif(not mlx_routes.installed(), reason="MLX is not installed")
ROOT = Path(__file__).resolve().parents[2]
ALWAYS = MPS_FAITHFUL.with_settings(mlx="always")
through_mlx = child(ALWAYS)
STEPS = [0.0, 0.5, 1.0]


def test_the_table_is_large_enough() -> None:
    assert len(mlx_ops.TABLE) >= 120


def test_every_entry_is_an_operator() -> None:
    known = set(torch._C._dispatch_get_all_op_names())
    assert [name for name in mlx_ops.TABLE if f"aten::{name}" not in known] == []


@pytest.mark.slow
def test_over_torchs_own_samples() -> None:
    done = python(ROOT / "tools" / "mlx_numerics.py", "--samples", "5", check=False)
    rows = [line.split(maxsplit=6) for line in done.out.splitlines()[:-1]]
    assert len(rows) == len(mlx_ops.TABLE), done.err
    assert [row for row in rows if row[-1] != "ok"] == []
    assert done.status == 0


def _fits(name: str, *args: Any) -> bool:
    return mlx_ops.fits(mlx_ops.TABLE[name], args, {})


def test_operators_of_mlx() -> None:
    assert _fits("add.Tensor", torch.ones(2), torch.ones(2))


UNFIT: dict[str, Callable[[], tuple[Any, ...]]] = {
    "a double among floats": lambda: ("add.Tensor", torch.ones(2), torch.ones(2).double()),
    "doubles": lambda: ("sin", torch.ones(2).double()),
    "integers and a float": lambda: ("add.Tensor", torch.ones(2, dtype=torch.int64), 0.5),
    "nothing": lambda: ("sin", torch.ones(0)),
    "a sparse layout": lambda: ("sin", torch.ones(2).to_sparse()),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_operators_that_differ_in_mlx_are_left_out(unfit: str) -> None:
    assert not _fits(*UNFIT[unfit]())


def _nan() -> torch.Tensor:
    return torch.tensor([1.0, float("nan")])


VALUES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "sort": lambda: (_nan(),),
    "topk": lambda: (_nan(), 1),
    "kthvalue": lambda: (torch.ones(2), 3),
    "take": lambda: (torch.ones(2), torch.tensor([2])),
    "index_select": lambda: (torch.ones(2), 0, torch.tensor([-1])),
    "gather": lambda: (torch.ones(2), 0, torch.tensor([2, 0])),
    "embedding": lambda: (torch.ones(2, 2), torch.tensor([5])),
    "linalg_eig": lambda: (torch.diag(_nan()),),
    "linalg_cholesky_ex": lambda: (torch.tensor([[1.0, 2.0], [2.0, 1.0]]),),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_mlx_would_get_wrong_without_a_word(name: str) -> None:
    with pytest.raises(mlx_ops.UnfitError):
        mlx_ops.run(mlx_ops.TABLE[name], *VALUES[name]())


# ------------------------------------------------------------------------ on the GPU, all through MLX

#: Of a matrix of 4 x 4.
DIFFERENTIABLE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x + x.T),
    "eigh": lambda x: torch.linalg.eigh(x + x.T)[1].abs(),
    "eig": lambda x: torch.linalg.eig(x)[0].abs().sort()[0],
    "take": lambda x: x.take(torch.tensor([1, 1, 3], device=x.device)),
    "logit_": lambda x: (x.sigmoid() * 1).logit_(),
    "pool": lambda x: functional.adaptive_avg_pool3d(x.reshape(1, 1, 4, 2, 2), (2, 1, 2)),
    "shuffle": lambda x: functional.channel_shuffle(x[None], 2),
}


def _gradient(operator: str, device: str) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(4, 4).to(device).requires_grad_()
    y = DIFFERENTIABLE[operator](x)
    (y * torch.linspace(1, 2, y.numel(), device=device).reshape(y.shape)).sum().backward()
    return x.grad.cpu()


@through_mlx
@pytest.mark.parametrize("operator", DIFFERENTIABLE)
def test_gradients_flow(operator: str) -> None:
    there, where = routes(lambda: _gradient(operator, "cuda"))
    assert "MLX" in where
    assert torch.allclose(there, _gradient(operator, "cpu"), atol=1e-4)


#: Of a symmetric matrix of 2 x 2.
TYPES: dict[str, Callable[[torch.Tensor], Any]] = {
    "eigh": lambda x: torch.linalg.eigh(x),
    "eig": lambda x: torch.linalg.eig(x),
    "half": lambda x: torch.heaviside(x.half(), x.half()),
    "bfloat16": lambda x: torch.heaviside(x.bfloat16(), x.bfloat16()),
    "int8": lambda x: torch.heaviside(x.to(torch.int8), x.to(torch.int8)),
    "eigvals": lambda x: torch.linalg.eigvals(x),
    "list": lambda x: list(torch.linalg.eigh(x[None].expand(3, 2, 2))[0].unbind()),
}


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape
    return type(value).__name__, [_kind(item) for item in value]


def _symmetric() -> torch.Tensor:
    return torch.tensor([[2.0, 1.0], [1.0, 3.0]])


@through_mlx
@pytest.mark.parametrize("operator", TYPES)
def test_types_are_kept(operator: str) -> None:
    there, where = routes(lambda: TYPES[operator](_symmetric().cuda()))
    assert where == ["MLX"]
    assert all(leaf.is_cuda for leaf in tree_leaves(there))
    assert _kind(there) == _kind(TYPES[operator](_symmetric()))


def _steps() -> tuple[torch.Tensor, torch.Tensor]:
    """Call ``heaviside``, which the GPU lacks, on STEPS."""
    return torch.tensor([-1.0, 0.0, 2.0], device="cuda"), torch.full((3,), 0.5, device="cuda")


@through_mlx
def test_writing_in_place() -> None:
    x, h = _steps()
    given, where = routes(lambda: x.heaviside_(h))
    assert given is x
    assert x.tolist() == STEPS
    assert "MLX" in where


@through_mlx
def test_writing_to_a_view() -> None:
    base = torch.zeros(6, device="cuda")
    view = base[::2]
    given, where = routes(lambda: torch.heaviside(*_steps(), out=view))
    assert given is view
    assert base.tolist() == [0.0, 0.0, 0.5, 0.0, 1.0, 0.0]
    assert "MLX" in where


@through_mlx
def test_writing_to_an_output_that_grows() -> None:
    out = torch.empty(0, device="cuda")
    given, where = routes(lambda: torch.heaviside(*_steps(), out=out))
    assert given is out
    assert out.tolist() == STEPS
    assert "MLX" in where


def _outputs(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(0, dtype=torch.complex64, device=device), torch.empty(2, 2, dtype=torch.complex64, device=device)


@through_mlx
def test_writing_to_two_outputs() -> None:
    m, (w, v) = _symmetric(), _outputs("cuda")
    pair, where = routes(lambda: torch.linalg.eig(m.cuda(), out=(w, v)))
    assert "MLX" in where
    assert type(pair) is type(torch.linalg.eig(m, out=_outputs("cpu")))
    assert pair[0] is w
    assert pair[1] is v
    assert torch.allclose((v @ torch.diag(w) @ v.inverse()).real.cpu(), m, atol=1e-4)


@through_mlx
def test_writing_what_was_taken() -> None:
    x, taken = _steps()[0], torch.empty(2, device="cuda")
    given, where = routes(lambda: torch.take(x, torch.tensor([2, -3], device="cuda"), out=taken))
    assert given is taken
    assert taken.tolist() == [2.0, -1.0]
    assert "MLX" in where


@through_mlx
def test_writing_an_operator_that_has_no_other_form() -> None:
    p = torch.full((3,), 0.5, device="cuda")
    given, where = routes(lambda: p.logit_())
    assert given is p
    assert p.tolist() == [0.0] * 3
    assert "MLX" in where


@through_mlx
def test_writing_a_deviation() -> None:
    m, s = _symmetric(), torch.empty(2, device="cuda")
    given, where = routes(lambda: torch.std(m.cuda(), dim=1, correction=1, out=s))
    assert given is s
    assert torch.allclose(s.cpu(), m.std(1))
    assert "MLX" in where


def _unfit_matrix(device: str) -> torch.Tensor:
    return torch.tensor([[float("nan"), 1], [1, 1]], device=device)


def _into_integers(device: str) -> torch.Tensor:
    x = torch.ones(2, device=device)
    return torch.heaviside(x, x, out=torch.empty(2, dtype=torch.int64, device=device))


WRONG: dict[str, Callable[[str], Any]] = {
    "take": lambda device: torch.take(torch.ones(2, device=device), torch.tensor([9], device=device)),
    "eig": lambda device: torch.linalg.eig(_unfit_matrix(device)),
    "dtype": _into_integers,
    "shape": lambda device: torch.ones(1, device=device).heaviside_(torch.ones(2, device=device)),
}


@through_mlx
@pytest.mark.parametrize("wrong", WRONG)
def test_calls_that_mlx_rejects_fail_as_on_the_cpu(wrong: str) -> None:
    here = raised(lambda: WRONG[wrong]("cpu"))
    assert here is not None
    assert raised(lambda: WRONG[wrong]("cuda")) == here


@through_mlx
def test_the_cpu_computes_calls_that_mlx_lacks() -> None:
    departures.clear()
    raised(lambda: WRONG["take"]("cuda"))
    assert [1, "aten::take", "CPU", "MLX could not compute it"] in left()
    assert "MLX" in [where for _, _, where, _ in left()]


def heaviside() -> tuple[list[float], list[str]]:
    return routes(lambda: torch.heaviside(*_steps()).tolist())


@child(MPS_FAITHFUL.with_settings(mlx="off"))
def test_off() -> None:
    assert heaviside() == (STEPS, ["CPU"])


@through_mlx
def test_always() -> None:
    assert heaviside() == (STEPS, ["MLX"])


@pytest.mark.native
@pytest.mark.mps
def test_without_an_mlx_that_works_the_cpu_computes(tmp_path: Path) -> None:
    (tmp_path / "mlx.py").write_text("raise ImportError('no Metal here')")
    place = ALWAYS.within(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert in_child(heaviside, place) == [STEPS, ["CPU"]]
