"""The MLX table against the CPU, and operators of the GPU that MLX computes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import ROOT, clean_environment

pytest.importorskip("mlx.core")
from torchdevice_cuda.fallback import mlx_ops  # noqa: E402


def test_the_table_is_large_enough() -> None:
    assert len(mlx_ops.TABLE) >= 120


def test_every_entry_is_an_operator() -> None:
    known = set(torch._C._dispatch_get_all_op_names())
    assert [name for name in mlx_ops.TABLE if f"aten::{name}" not in known] == []


def test_over_torchs_own_samples() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "mlx_numerics.py"), "--samples", "5"],
        capture_output=True,
        text=True,
        env=clean_environment(OMP_NUM_THREADS="1"),
    )
    rows = [line.split(maxsplit=6) for line in done.stdout.splitlines()[:-1]]
    assert len(rows) == len(mlx_ops.TABLE), done.stderr
    assert [row for row in rows if row[-1] != "ok"] == [] and done.returncode == 0


def test_what_mlx_does_otherwise_is_left_out() -> None:
    fits = lambda name, *args: mlx_ops.fits(mlx_ops.TABLE[name], args, {})  # noqa: E731
    x = torch.ones(2)
    assert fits("add.Tensor", x, x)
    assert not fits("add.Tensor", x, x.double()) and not fits("sin", x.double())
    assert not fits("add.Tensor", torch.ones(2, dtype=torch.int64), 0.5)
    assert not fits("sin", torch.ones(0)) and not fits("sin", x.to_sparse())


NAN = torch.tensor([1.0, float("nan")])
VALUES = {
    "sort": (NAN,),
    "topk": (NAN, 1),
    "kthvalue": (torch.ones(2), 3),
    "take": (torch.ones(2), torch.tensor([2])),
    "index_select": (torch.ones(2), 0, torch.tensor([-1])),
    "gather": (torch.ones(2), 0, torch.tensor([2, 0])),
    "embedding": (torch.ones(2, 2), torch.tensor([5])),
    "linalg_eig": (torch.diag(NAN),),
    "linalg_cholesky_ex": (torch.tensor([[1.0, 2.0], [2.0, 1.0]]),),
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_values_that_mlx_would_get_wrong_without_a_word(name: str) -> None:
    with pytest.raises(mlx_ops.UnfitError):
        mlx_ops.run(mlx_ops.TABLE[name], *VALUES[name])


# ------------------------------------------------------------------------ on the GPU, all through MLX
WHERE = """
from torchdevice_cuda.report.departures import departures
def through(call):
    departures.clear(); given = call(); return given, sorted({row[2] for row in departures.rows()})
"""


def test_gradients_flow(on_mps: Callable) -> None:
    body = """
    def gradient(f, x, device):
        x = x.detach().to(device).requires_grad_()
        y = f(x)
        (y * torch.linspace(1, 2, y.numel(), device=device).reshape(y.shape)).sum().backward()
        return x.grad.cpu()
    torch.manual_seed(0)
    square = torch.randn(4, 4); index = torch.tensor([1, 1, 3])
    cases = {
        "eigvalsh": lambda x: torch.linalg.eigvalsh(x + x.T), "eigh": lambda x: torch.linalg.eigh(x + x.T)[1].abs(),
        "eig": lambda x: torch.linalg.eig(x)[0].abs().sort()[0], "take": lambda x: x.take(index.to(x.device)),
        "logit_": lambda x: (x.sigmoid() * 1).logit_(),
        "pool": lambda x: torch.nn.functional.adaptive_avg_pool3d(x.reshape(1, 1, 4, 2, 2), (2, 1, 2)),
        "shuffle": lambda x: torch.nn.functional.channel_shuffle(x[None], 2),
    }
    result = {}
    for name, f in cases.items():
        on_gpu, where = through(lambda: gradient(f, square, "cuda"))
        result[name] = [torch.allclose(on_gpu, gradient(f, square, "cpu"), atol=1e-4), where]
    """
    seen = on_mps(WHERE + body.replace("\n    ", "\n"), mlx="always")
    assert [name for name, (right, _) in seen.items() if not right] == []
    assert [name for name, (_, where) in seen.items() if "MLX" not in where] == []


def test_types_are_kept(on_mps: Callable) -> None:
    body = """
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    calls = {
        "eigh": torch.linalg.eigh, "eig": torch.linalg.eig, "half": lambda x: torch.heaviside(x.half(), x.half()),
        "bfloat16": lambda x: torch.heaviside(x.bfloat16(), x.bfloat16()),
        "int8": lambda x: torch.heaviside(x.to(torch.int8), x.to(torch.int8)), "eigvals": torch.linalg.eigvals,
        "list": lambda x: list(torch.linalg.eigh(x[None].expand(3, 2, 2))[0].unbind()),
    }
    def kind(value):
        if isinstance(value, torch.Tensor):
            return [str(value.dtype), list(value.shape)]
        return [type(value).__name__, [kind(item) for item in value]]
    result = {}
    for name, f in calls.items():
        given, where = through(lambda: f(x.cuda()))
        result[name] = [kind(given), kind(f(x)), where, torch.utils._pytree.tree_leaves(given)[0].is_cuda]
    """
    for name, (got, expected, where, on_gpu) in on_mps(WHERE + body.replace("\n    ", "\n"), mlx="always").items():
        assert got == expected and where == ["MLX"] and on_gpu, name


def test_writing_where_it_should(on_mps: Callable) -> None:
    body = """
    x = torch.tensor([-1.0, 0.0, 2.0], device="cuda"); h = torch.full((3,), 0.5, device="cuda")
    m = torch.tensor([[2.0, 1.0], [1.0, 3.0]], device="cuda")
    result = {}
    def check(name, call):
        given, where = through(call)
        result[name] = [given, where]
    same = x.clone()
    check("in place", lambda: [same.heaviside_(h) is same, same.tolist()])
    base = torch.zeros(6, device="cuda"); view = base[::2]
    check("view", lambda: [torch.heaviside(x, h, out=view) is view, base.tolist()])
    empty = torch.empty(0, device="cuda")
    check("empty", lambda: [torch.heaviside(x, h, out=empty) is empty, empty.tolist()])
    w, v = torch.empty(0, dtype=torch.complex64, device="cuda"), torch.empty(2, 2, dtype=torch.complex64, device="cuda")
    def eig():
        pair = torch.linalg.eig(m, out=(w, v))
        right = torch.allclose((v @ torch.diag(w) @ v.inverse()).real.cpu(), m.cpu(), atol=1e-4)
        stock = torch.linalg.eig(m.cpu(), out=(torch.empty_like(w, device="cpu"), torch.empty_like(v, device="cpu")))
        return [type(pair) is type(stock), pair[0] is w, pair[1] is v, right]
    check("two", eig)
    taken = torch.empty(2, device="cuda")
    check("take", lambda: [torch.take(x, torch.tensor([2, -3], device="cuda"), out=taken) is taken, taken.tolist()])
    p = torch.full((3,), 0.5, device="cuda")
    check("logit_", lambda: [p.logit_() is p, p.tolist()])
    s = torch.empty(2, device="cuda")
    check("std", lambda: [torch.std(m, dim=1, correction=1, out=s) is s, torch.allclose(s.cpu(), m.cpu().std(1))])
    """
    steps = [0.0, 0.5, 1.0]
    seen = on_mps(WHERE + body.replace("\n    ", "\n"), mlx="always")
    assert {name: given for name, (given, _) in seen.items()} == {
        "in place": [True, steps],
        "view": [True, [0.0, 0.0, 0.5, 0.0, 1.0, 0.0]],
        "empty": [True, steps],
        "two": [True] * 4,
        "take": [True, [2.0, -1.0]],
        "logit_": [True, [0.0] * 3],
        "std": [True, True],
    }
    assert [name for name, (_, where) in seen.items() if "MLX" not in where] == []


def test_what_mlx_cannot_do_the_cpu_does(on_mps: Callable) -> None:
    body = """
    def error(f):
        try:
            f()
        except Exception as raised:
            return [type(raised).__name__, str(raised)]
    def on(device):
        x, nan = torch.ones(2, device=device), torch.tensor([[float("nan"), 1], [1, 1]], device=device)
        wrong = torch.empty(2, dtype=torch.int64, device=device)
        return [error(lambda: torch.take(x, torch.tensor([9], device=device))), error(lambda: torch.linalg.eig(nan)),
                error(lambda: torch.heaviside(x, x, out=wrong)), error(lambda: x[:1].clone().heaviside_(x))]
    on_gpu, where = through(lambda: on("cuda"))
    rows = [row for row in departures.rows() if row[2] == "CPU"]
    result = [on("cpu"), on_gpu, where, rows]
    """
    cpu, cuda, where, rows = on_mps(WHERE + body.replace("\n    ", "\n"), mlx="always")
    assert cpu == cuda and None not in cpu and where == ["CPU", "MLX"]
    assert [1, "aten::take", "CPU", "MLX could not compute it"] in rows


@pytest.mark.parametrize("setting, where", [("off", ["CPU"]), ("always", ["MLX"])])
def test_the_setting(on_mps: Callable, setting: str, where: list[str]) -> None:
    body = "result = through(lambda: torch.heaviside(*[torch.ones(3, device='cuda')] * 2).tolist())"
    assert on_mps(WHERE + body, mlx=setting) == [[1.0] * 3, where]


def test_without_an_mlx_that_works_the_cpu_computes(on_mps: Callable, tmp_path: Path) -> None:
    (tmp_path / "mlx.py").write_text("raise ImportError('no Metal here')")
    body = "result = through(lambda: torch.heaviside(*[torch.ones(3, device='cuda')] * 2).tolist())"
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    assert on_mps(WHERE + body, mlx="always", env=path) == [[1.0] * 3, ["CPU"]]
