"""Tests of a library for GPUs; run by test_pytest_plugin.py in pytest's own processes."""

import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
MIB = 1 << 20
kept = []


def test_computes() -> None:
    assert torch.ones(MIB, device="cuda").sum().item() == MIB


def test_leaves_memory() -> None:
    kept.append(torch.ones(MIB // 4, device="cuda"))


def test_holds_much() -> None:
    cycle = [torch.ones(8 * MIB, device="cuda")]
    cycle.append(cycle)


@pytest.mark.needs_real_cuda(reason="a kernel of ours")
def test_of_a_kernel() -> None:
    raise AssertionError


def test_devices() -> None:
    assert (torch.cuda.device_count(), torch.cuda.get_device_name()) == (2, "NVIDIA H200")


def test_children_have_them_too() -> None:
    asked = "import torch; print(torch.cuda.get_device_name())"
    assert subprocess.check_output([sys.executable, "-c", asked], text=True) == "NVIDIA H200\n"
