"""Forty kernels, as programs write them, give what a real GPU gave (`tests/data/kernels-h200.json`)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness import CPU, STORED, VIRTUAL, child
from recorded import kernels as forty
from recorded import read_record
from recorded.kernels import compiled

import torchdevice_cuda

GOLDEN = read_record(forty.RECORD)
# Functions that are rounded otherwise, by so much of the largest element. A GPU's compiler makes one operation of a
# product and a sum of half precision, which rounds once where the host rounds twice.
CLOSE = {"mathematics": 1e-6, "softmax_rows": 1e-6, "layer_norm": 1e-6, "half_axpy": 2e-3}
EXACT = {case.name for case in forty.CASES} - set(CLOSE)


def compare(name: str, made: dict[str, Any], golden: dict[str, Any]) -> None:
    if name in EXACT:
        assert made["digest"] == golden["digest"], (name, made["head"], golden["head"])
        return
    scale = max(1.0, max(abs(v) for v in golden["head"]))
    assert made["head"] == pytest.approx(golden["head"], abs=CLOSE[name] * scale), name
    for sum_, weight in (("sum", 1), ("magnitude", 1), ("placed", 97)):
        assert made[sum_] == pytest.approx(golden[sum_], abs=CLOSE[name] * golden["magnitude"] * weight), (name, sum_)


@child(VIRTUAL, CPU, *STORED)
def test_every_kernel_gives_what_a_gpu_gave() -> None:
    found = compiled()
    assert set(GOLDEN) == {case.name for case in forty.CASES}
    lacks_double = torchdevice_cuda.driver().name == "mps"
    for case in forty.CASES:
        if lacks_double and torch.float64 in {getattr(argument, "dtype", None) for argument in case.arguments()}:
            continue
        compare(case.name, forty.run(case, found[case.name]), GOLDEN[case.name])


@child(VIRTUAL, *STORED)
def test_launches_follow_each_other_on_streams_and_in_graphs() -> None:
    kernel = compiled()["axpy_strided"]
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    stream = torch.cuda.Stream()
    for times in (1.0, 2.0):
        kernel(grid=(4, 1, 1), block=(128, 1, 1), args=[x, y, times, 1000], stream=stream)
    stream.synchronize()
    assert y.unique().tolist() == [3.0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(grid=(4, 1, 1), block=(128, 1, 1), args=[x, y, 10.0, 1000])
        z = y * 2
    assert y.unique().tolist() == [3.0]  # nothing has run yet
    for expected in (13.0, 23.0):
        graph.replay()
        assert (y.unique().tolist(), z.unique().tolist()) == ([expected], [2 * expected])


@child(VIRTUAL, CPU, *STORED)
def test_a_launch_that_cannot_be_is_refused_as_by_the_driver() -> None:
    kernel = compiled()["guarded_return"]
    x = torch.zeros(4, dtype=torch.int32, device="cuda")
    for grid, block in [((1, 1, 1), (2048, 1, 1)), ((0, 1, 1), (1, 1, 1)), ((1, 70000, 1), (1, 1, 1))]:
        with pytest.raises(RuntimeError, match="CUDA error: invalid argument"):
            kernel(grid=grid, block=block, args=[x, x, 4])
    if x.is_cuda:  # on `cpu` every tensor is the host's
        with pytest.raises(ValueError, match="All tensor arguments must be CUDA tensors"):
            kernel(args=[torch.zeros(3), x, 4])


@child(VIRTUAL, CPU, *STORED)
def test_functions_of_the_jiterator() -> None:
    add = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T f(T x, T y, T alpha) { return -x + alpha * y; }", alpha=1.0
    )
    x, y = torch.arange(6.0, device="cuda").reshape(2, 3).t(), torch.ones(2, dtype=torch.int64, device="cuda")
    made = add(x, y, alpha=3)
    assert torch.equal(made, 3 * y - x)
    assert made.stride() == (x + y).stride()
    both = torch.cuda.jiterator._create_multi_output_jit_fn(
        "template <typename T> void g(T x, T y, T& a, T& b) { a = x + y; b = x - y; }", num_outputs=2
    )
    first, second = both(x, y)
    assert torch.equal(first, x + y) and torch.equal(second, x - y)
