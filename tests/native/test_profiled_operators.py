"""A profile of the virtual GPU shows device time for the operators that launch kernels on CUDA."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

pytestmark = child(VIRTUAL)
#: Calls, and the operators that own their kernels in a profile of an H200, in alphabetical order.
RECORDED: dict[str, tuple[Callable[[torch.Tensor], object], list[str]]] = {
    "relu": (torch.relu, ["clamp_min"]),
    "relu_": (lambda x: x.relu_(), ["clamp_min_"]),
    "hardtanh": (functional.hardtanh, ["clamp"]),
    "zero_": (lambda x: x.zero_(), ["fill_"]),
    "zeros": (torch.zeros_like, ["fill_"]),
    "clone": (torch.clone, ["copy_"]),
    "isnan": (torch.isnan, ["ne"]),
    "isinf": (torch.isinf, ["abs", "eq"]),
    "celu": (functional.celu, ["elu"]),
    "rsub": (lambda x: 1 - x, ["sub"]),
    "stack": (lambda x: torch.stack([x, x]), ["cat"]),
    "repeat": (lambda x: x.repeat(2, 1), ["copy_"]),
    "pad": (lambda x: functional.pad(x, (1, 1)), ["copy_", "fill_"]),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1.0), ["copy_", "gt", "masked_fill_"]),
    "mv": (lambda x: x.mv(x[0]), ["addmv_"]),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), ["_logcumsumexp"]),
    "rot90": (torch.rot90, ["flip"]),
}


def find_owners(call: Callable[[torch.Tensor], object]) -> tuple[list[str], object]:
    x = torch.rand(8, 8, device="cuda") + 0.5
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        result = call(x)
    return sorted(event.name.removeprefix("aten::") for event in seen.events() if event.kernels), result


@pytest.mark.parametrize("name", list(RECORDED))
def test_kernels_belong_to_cudas_operators(name: str) -> None:
    call, owners = RECORDED[name]
    assert find_owners(call)[0] == owners


def test_a_profile_changes_no_result() -> None:
    """A convolution is one operator: its parts would be computed by other kernels."""
    torch.manual_seed(0)
    image, weight = torch.rand(1, 3, 8, 8, device="cuda"), torch.rand(2, 3, 3, 3, device="cuda")

    def convolve(_: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(image, weight)

    owners, found = find_owners(convolve)
    assert owners == ["convolution"]
    assert convolve(image).equal(found)
