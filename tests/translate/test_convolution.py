"""The library and the memory format of a convolution are those of PyTorch on a GPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch._subclasses import FakeTensorMode

pytestmark = child(VIRTUAL)

FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}


def _call(
    dimensions: int, dtype: torch.dtype = torch.float32, *, groups: int = 1, transposed: bool = False, **given: Any
) -> list[Any]:
    """Arguments of a convolution; ``last`` names those whose channels lie together."""
    tensors = {
        "input": torch.randn(2, 4, *[8] * dimensions, device="cuda").to(dtype),
        "weight": torch.randn(4, 4 // groups, *[3] * dimensions, device="cuda").to(dtype),
    }
    for name in given.get("last", ()):
        tensors[name] = tensors[name].contiguous(memory_format=FORMATS[dimensions])
    one, none = [1] * dimensions, [0] * dimensions
    padding = given.get("output_padding", none)
    return [*tensors.values(), None, given.get("stride", one), none, one, transposed, padding, groups]


def _chosen(*args: Any, **kwargs: Any) -> str:
    name: str = torch._C._select_conv_backend(*_call(*args, **kwargs)).name
    return name


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_cudnn_is_chosen(dimensions: int) -> None:
    assert _chosen(dimensions) == "Cudnn"
    assert _chosen(dimensions, torch.float64) == "Cudnn"
    assert _chosen(dimensions, transposed=True) == "CudnnTranspose"


def test_convolutions_without_cudnn() -> None:
    assert _chosen(2, groups=4) == "CudaDepthwise2d"
    assert _chosen(2, groups=4, last=["input"]) == "Cudnn"
    assert _chosen(2, torch.bfloat16) == "Slow2d", "before capability 8.0"
    assert _chosen(2, transposed=True, output_padding=[1, 1], stride=[2]) == "CudnnTranspose"
    assert _chosen(2, transposed=True, output_padding=[0, 1], stride=[1]) == "SlowTranspose2d"
    with torch.backends.cudnn.flags(enabled=False):
        assert _chosen(2) == "Slow2d"
    cpu = [value.cpu() if isinstance(value, torch.Tensor) else value for value in _call(2)]
    assert torch._C._select_conv_backend(*cpu).name in ("Mkldnn", "Slow2d")


@pytest.mark.parametrize("dimensions", FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_results_lie_as_was_said(dimensions: int, dtype: str) -> None:
    last = [[], ["input"], ["weight"], ["input", "weight"]]
    for transposed, groups, which in itertools.product([False, True], [1, 4], last):
        call = _call(dimensions, getattr(torch, dtype), transposed=transposed, groups=groups, last=which)
        mode = FakeTensorMode()
        with mode:
            said = torch.ops.aten.convolution(*(mode.from_tensor(t) for t in call[:2]), *call[2:])
        assert torch.ops.aten.convolution(*call).stride() == said.stride(), (transposed, groups, which)
