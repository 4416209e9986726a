"""Memory that a GPU takes beside a program's tensors: the workspaces of cuBLAS and of recurrent networks."""

from __future__ import annotations

import sys

import pytest
import torch
from harness import ChildConfig, child, python
from harness.places import VIRTUAL, must_be_ready
from harness.processes import ROOT

ON = ChildConfig("virtual rehearsed", {"driver": "virtual", "gpu": "h200", "rehearse": "on"})
TIMED = ChildConfig("virtual with a GPU's clock", {"driver": "virtual", "gpu": "t4", "clock": "gpu"})
PLAIN = ChildConfig("virtual with a GPU's name", {"driver": "virtual", "gpu": "h200"})
#: What PyTorch asks for on GPUs before Hopper.
WORKSPACE = 8519680
STEPS = (
    "mlp step 1024 amp=False",
    "gpt step 16x128 d256 h4 n4 amp=True",
    "resnet18 step 8 amp=True",
    "lstm step 32x50 d256 amp=True",
    "lstm step 16x200 d1024 amp=False",
)


@pytest.mark.native
@pytest.mark.slow
def test_workspaces_are_those_of_a_gpu() -> None:
    must_be_ready(VIRTUAL)
    done = python(ROOT / "tools" / "record", "compare", "workspaces", "--driver", "virtual", check=False, timeout=600)
    assert done.status == 0, done


@child(ON)
def test_peaks_of_steps_are_within_two_percent_of_a_gpus() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    from timing.peaks import rehearse

    wrong = [row for row in rehearse(STEPS) if abs(row[1] / row[2] - 1) > 0.02]
    assert not wrong


def multiply() -> int:
    x = torch.ones(256, 256, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.mm(x, x)
    return torch.cuda.memory_allocated() - before


@child(TIMED)
def test_a_gpu_with_a_clock_has_workspaces_of_its_size() -> None:
    assert multiply() == WORKSPACE
    assert multiply() == 0
    torch._C._cuda_clearCublasWorkspaces()
    assert multiply() == WORKSPACE


@child(TIMED)
def test_the_size_of_workspaces_can_be_set() -> None:
    multiply()
    torch._C._cuda_setCublasWorkspaceSize(16 << 20)
    assert multiply() == (16 << 20) - WORKSPACE  # the larger one replaces it
    torch._C._cuda_resetCublasWorkspaceSize()
    assert multiply() == 0


@child(PLAIN)
def test_a_gpu_without_its_clock_has_none() -> None:
    assert multiply() == 0


@child(ChildConfig("virtual for deactivation", {"driver": "virtual", "gpu": "h200", "clock": "gpu"}))
def test_deactivation_frees_them() -> None:
    import torchdevice_cuda
    from torchdevice_cuda.drivers import active

    multiply()
    device = active().native
    assert device is not None and device.count_workspaces() == 1
    torchdevice_cuda.deactivate()
    assert device.count_workspaces() == 0
