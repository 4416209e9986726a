"""Scans on the virtual GPU combine elements in the order of CUDA's kernels, in their own type."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child
from recorded import bits, case_sets, store

pytestmark = child(VIRTUAL)
RECORDED = store.read_answers(case_sets.load_set("bits").record)
SCANS = [case for case in RECORDED if case.startswith(("cum", "logcumsumexp float16", "logcumsumexp bfloat16"))]


@pytest.mark.parametrize("operator", ["cumsum", "cumprod", "logcumsumexp"])
def test_same_bits_as_an_h200(operator: str) -> None:
    cases = [case for case in SCANS if case.split()[0] == operator]
    assert len(cases) > 30
    assert {case: bits.find_digest(case) for case in cases} == {case: RECORDED[case] for case in cases}


@pytest.mark.parametrize(
    ("name", "last", "rows", "columns"),
    [("float16", 2972.0, [2998.0, 2998.0], [2048.0, 2048.0]), ("bfloat16", 2976.0, [2976.0, 2976.0], [256.0, 256.0])],
)
def test_sums_of_ones_stop_growing(name: str, last: float, rows: list[float], columns: list[float]) -> None:
    """A tile's threads add 30 elements each; CUDA's other kernels stop elsewhere."""
    dtype = getattr(torch, name)
    ones = torch.ones(3000, dtype=dtype, device="cuda")
    assert ones.cumsum(0)[-1] == last
    in_place, out = ones.clone().cumsum_(0), torch.empty(0, dtype=dtype, device="cuda")
    torch.cumsum(ones, 0, out=out)
    assert in_place.equal(ones.cumsum(0))
    assert out.equal(in_place)
    assert ones.expand(2, 3000).cumsum(1)[:, -1].tolist() == rows
    assert ones.view(3000, 1).expand(3000, 2).cumsum(0)[-1].tolist() == columns
    assert ones.cumsum(0, dtype=torch.float32)[-1] == 3000


def test_rounding_of_every_half() -> None:
    """Adding zero in order keeps each value; a product with one does, too."""
    patterns = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        x = patterns.view(dtype)
        x = x[x.isfinite()].cuda()
        pairs = torch.stack([x, torch.ones_like(x)])
        assert pairs.cumprod(0)[1].view(torch.int16).equal(x.view(torch.int16))
        sums = torch.stack([x, x]).cumsum(0)[1]
        assert sums.cpu().equal((x.cpu().float() + x.cpu().float()).to(dtype))


def test_logs_of_sums_stop_growing_in_half_precision() -> None:
    x = torch.zeros(4, 3000, dtype=torch.bfloat16, device="cuda")
    assert x.t().logcumsumexp(0)[-1].tolist() == [4.15625, 4.15625, 4.15625, 4.15625]
    assert x.new_full((3,), -torch.inf).logcumsumexp(0).tolist() == [-torch.inf] * 3
    assert x.new_tensor([0.0, torch.nan, 0.0]).logcumsumexp(0).isnan().tolist() == [False, True, True]


def test_a_captured_scan_is_replayed() -> None:
    x, graph = torch.ones(5, device="cuda"), torch.cuda.CUDAGraph()
    x.cumsum(0)
    with torch.cuda.graph(graph):
        found = x.cumsum(0)
    x.fill_(2)
    graph.replay()
    assert found.tolist() == [2, 4, 6, 8, 10]


def test_unusual_arguments() -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(IndexError):
        x.cumsum(1)
    assert torch.ones((), device="cuda").cumsum(0) == 1
    assert x[:0].cumsum(0).shape == (0,)
    assert x.int().cumsum(0).dtype == torch.int64
