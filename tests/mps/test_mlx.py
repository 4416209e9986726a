"""The MLX table against the CPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from conftest import ROOT, clean_environment

pytest.importorskip("mlx.core")
from torchdevice_cuda.fallback import mlx_ops, thresholds  # noqa: E402

# Operators that no sample of torch leads to, with arguments for them.
UNSAMPLED = {
    "_linalg_eigvals": lambda: (torch.tensor([[2.0, 1.0], [0.0, 3.0]]),),
    "all.dim": lambda: (torch.tensor([[True, False], [True, True]]), 1),
    "clamp_max": lambda: (torch.tensor([-1.0, 2.0]), 0.5),
    "conj_physical": lambda: (torch.tensor([1 + 2j]),),
    "count_nonzero.dim_IntList": lambda: (torch.tensor([[1, 0], [2, 3]]), [1]),
    "gt.Scalar": lambda: (torch.tensor([1.0, 3.0]), 2.0),
    "pow.Scalar": lambda: (2.0, torch.tensor([1.0, 3.0])),
    "remainder.Scalar": lambda: (torch.tensor([-1.0, 3.5]), 2.0),
    "searchsorted.Tensor": lambda: (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 2.5])),
}


def test_the_table_is_large_enough() -> None:
    assert len(mlx_ops.TABLE) >= 120


@pytest.mark.parametrize("name", sorted(UNSAMPLED))
def test_operators_without_samples(name: str) -> None:
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    args = UNSAMPLED[name]()
    entry = mlx_ops.TABLE[name]
    assert mlx_ops.fits(entry, args, {})
    expected, got = op(*args), mlx_ops.run(entry, *args)
    assert got.dtype is expected.dtype
    if name == "_linalg_eigvals":  # in no particular order
        got, expected = got.real.sort()[0], expected.real.sort()[0]
    torch.testing.assert_close(got, expected)


def test_over_torchs_own_samples() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "mlx_numerics.py"), "--samples", "5"],
        capture_output=True,
        text=True,
        env=clean_environment(OMP_NUM_THREADS="1"),
    )
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines() if not line.endswith("verified")]
    assert len(rows) == len(mlx_ops.TABLE), done.stderr
    wrong = [row for row in rows if not row[-1].endswith(("ok", "NOT SEEN"))]
    unseen = {row[0] for row in rows if row[-1].endswith("NOT SEEN")}
    assert wrong == [] and unseen <= set(UNSAMPLED)


def test_what_mlx_does_otherwise_is_left_out() -> None:
    fits = lambda name, *args: mlx_ops.fits(mlx_ops.TABLE[name], args, {})  # noqa: E731
    x = torch.ones(2)
    assert fits("add.Tensor", x, x)
    assert not fits("add.Tensor", x, x.double()) and not fits("sin", x.double())
    assert not fits("add.Tensor", torch.ones(2, dtype=torch.int64), 0.5)
    assert not fits("sort", torch.tensor([1.0, float("nan")]))
    assert not fits("sin", torch.ones(0)) and not fits("sin", x.to_sparse())


def test_thresholds_are_those_of_this_machine(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path))
    thresholds._measured.cache_clear()
    assert thresholds.least("mm") is None
    thresholds.store({"mm": 100})
    entry, small, large = mlx_ops.TABLE["mm"], torch.ones(3, 3), torch.ones(10, 10)
    assert thresholds.least("mm") == 100 and thresholds.least("sin") is None
    assert not mlx_ops.wins(entry, (small, small), {}) and mlx_ops.wins(entry, (large, large), {})
    monkeypatch.setattr(thresholds, "machine", lambda: "another")
    thresholds._measured.cache_clear()
    assert thresholds.least("mm") is None
    thresholds._measured.cache_clear()
