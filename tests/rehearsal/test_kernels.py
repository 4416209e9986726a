"""``--clock gpu``: kernels of other code have no prediction, and say so."""

from __future__ import annotations

import time
import warnings

import pytest
from harness import ChildConfig, child

H200 = ChildConfig("virtual clocked", {"driver": "virtual", "clock": "gpu", "gpu": "h200"})


@child(H200)
def test_a_kernel_of_cuda_cpp_warns_once_and_takes_a_launch() -> None:
    import torch

    import torchdevice_cuda

    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T a) { return 2 * a; }")
    x = torch.ones(1 << 24, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert twice(x)[5].item() == 2
        began = time.perf_counter()
        start.record()
        twice(x)
        end.record()
        here = time.perf_counter() - began
    torch.cuda.synchronize()
    said = [str(one.message) for one in caught if one.category is torchdevice_cuda.UnpredictedKernelWarning]
    assert len(said) == 1 and "is not predicted: it counts as a launch" in said[0]
    # What it took here is not the GPU's time.
    assert start.elapsed_time(end) < 0.7 * here * 1e3


@child(H200)
def test_a_kernel_of_triton_warns() -> None:
    pytest.importorskip("triton")
    import torch
    from triton import jit, language

    import torchdevice_cuda

    @jit
    def double(p, count, BLOCK: language.constexpr):  # type: ignore[no-untyped-def]
        i = language.program_id(0) * BLOCK + language.arange(0, BLOCK)
        language.store(p + i, language.load(p + i, mask=i < count) * 2, mask=i < count)

    x = torch.ones(1000, device="cuda")
    with pytest.warns(torchdevice_cuda.UnpredictedKernelWarning, match="kernel double is not predicted"):
        double[(4,)](x, 1000, 256)
    assert x[999].item() == 2


@child(H200)
def test_a_compiled_function_warns() -> None:
    import torch

    import torchdevice_cuda

    x = torch.ones(1000, device="cuda")
    compiled = torch.compile(lambda x: x * 2 + 1)
    with pytest.warns(torchdevice_cuda.UnpredictedKernelWarning, match="not predicted"):
        assert compiled(x)[0].item() == 3


@child(H200)
def test_operators_of_pytorch_do_not_warn() -> None:
    import torch

    x = torch.ones(1000, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.nn.functional.dropout(x).sum().item()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
        graph.replay()
    assert x[0].item() == 2
