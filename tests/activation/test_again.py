"""Activation after a deactivation: what the process has by then stays, and nobody is given something else instead."""

from __future__ import annotations

from typing import Any

import pytest
from harness import CPU, MPS_FAITHFUL, VIRTUAL, child

import torchdevice_cuda
from torchdevice_cuda.activation import DriverUnavailable

DEVICES = {"driver": "virtual", "devices": 2, "memory": "64MiB"}
#: What is asked for after those, and how the answer ends.
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "more": ({"devices": 3}, "cannot have 3 virtual GPUs of 67,108,864 bytes"),
    "fewer": ({"devices": 1}, "cannot have 1 virtual GPU of 67,108,864 bytes"),
    "none is visible": ({"visible_devices": ""}, "cannot have 0 virtual GPUs"),
    "larger": ({"memory": "128MiB"}, "cannot have 2 virtual GPUs of 134,217,728 bytes"),
    "more, by auto": ({"driver": "auto", "devices": 3}, "cannot have 3 virtual GPUs of 67,108,864 bytes"),
}


def _again(**settings: Any) -> None:
    torchdevice_cuda.deactivate()
    torchdevice_cuda.activate(**settings)


@child(VIRTUAL.with_settings(devices=2, memory="64MiB"), alone=True)
@pytest.mark.parametrize("name", OTHERS)
def test_other_devices_than_the_process_has_are_refused(name: str) -> None:
    import torch

    changed, words = OTHERS[name]
    with pytest.raises(DriverUnavailable, match=f"this process has 2 virtual GPUs of 67,108,864 bytes, .*{words}"):
        _again(**{**DEVICES, **changed})
    assert not torchdevice_cuda.is_active()
    torchdevice_cuda.activate(**DEVICES)
    assert torch.cuda.device_count() == 2
    assert torch.ones(2, device="cuda:1").sum().item() == 2


@child(VIRTUAL.with_settings(devices=2, memory="64MiB"), alone=True)
def test_fewer_of_them_can_be_visible() -> None:
    import torch

    _again(**DEVICES, visible_devices="1")
    assert torch.cuda.device_count() == 1
    _again(**DEVICES)
    assert torch.ones(2, device="cuda:1").sum().item() == 2


@child(VIRTUAL.with_settings(visible_devices=""), alone=True)
def test_devices_that_were_not_visible_can_be_had() -> None:
    import torch

    assert torch.cuda.device_count() == 0
    _again(driver="virtual", devices=3, visible_devices="0,2")
    assert torch.cuda.device_count() == 2
    assert torch.ones(2, device="cuda:1").sum().item() == 2


@child(CPU, alone=True)
def test_the_cpu_driver_has_as_many_as_are_asked_for() -> None:
    import torch

    assert torch.cuda.device_count() == 1
    _again(driver="cpu", devices=3, memory="1GiB")
    assert torch.cuda.device_count() == 3
    assert torch.cuda.get_device_properties(2).total_memory == 1 << 30


@child(MPS_FAITHFUL.with_settings(memory="64MiB"), alone=True)
def test_the_emulated_apple_gpu_keeps_its_size() -> None:
    import torch

    assert torch.cuda.get_device_properties(0).total_memory == 64 << 20
    with pytest.raises(DriverUnavailable, match=r"this process has 1 emulated Apple GPU of 67,108,864 bytes"):
        _again(driver="mps", memory="128MiB")
