"""Products of eight-bit floats with scales: what an H200 took and computed, and its refusals word for word."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child
from recorded import find_differences, scaled_products
from recorded.scaled_products import matrix
from torch.nn import functional

from torchdevice_cuda._compat import torch_release


@child(VIRTUAL.with_settings(gpu="h200"))
@pytest.mark.skipif(torch_release(torch.__version__) < (2, 10), reason="fewer kinds of scales were known before")
def test_products_and_refusals() -> None:
    assert find_differences(scaled_products, lambda name: not name.startswith("v2 ")) == {}


@child(VIRTUAL.with_settings(gpu="h200"))
@pytest.mark.skipif(not hasattr(functional, "scaled_mm"), reason="kinds of scales have names since 2.10")
def test_scales_by_name() -> None:
    assert find_differences(scaled_products, lambda name: name.startswith("v2 ")) == {}


@child(VIRTUAL.with_settings(gpu="a100-40"))
def test_older_gpus_have_none() -> None:
    a, one = matrix(16, 16), torch.ones((), device="cuda")
    with pytest.raises(RuntimeError, match="only supported on CUDA devices with compute capability >= 9.0 or 8.9"):
        torch._scaled_mm(a, a.t(), one, one)


@child(VIRTUAL.with_settings(gpu="h200"))
def test_a_product_is_captured() -> None:
    a, b, one = matrix(32, 64), matrix(48, 64).t(), torch.ones((), device="cuda")
    graph, out = torch.cuda.CUDAGraph(), torch.empty(32, 48, device="cuda", dtype=torch.bfloat16)
    with torch.cuda.graph(graph):
        torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, out=out)
    before = torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)
    one.fill_(2)
    graph.replay()
    assert torch.equal(out, before * 4)
