"""Devices that a program sees and has used: both are fixed by the first use, as on CUDA."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from harness import CPU, VIRTUAL, child

TWO = tuple(place.with_settings(devices=2) for place in (CPU, VIRTUAL))


def _hide(devices: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = devices


@child(*TWO, alone=True)
def test_devices_can_be_hidden_until_the_first_use() -> None:
    assert torch.cuda.device_count() == 2
    _hide("1")
    assert torch.cuda.device_count() == 1
    assert torch.zeros(1, device="cuda").tolist() == [0]
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(1, device="cuda:1")
    _hide("0,1")
    assert torch.cuda.device_count() == 1


@child(*(place.within(CUDA_VISIBLE_DEVICES="0") for place in TWO), alone=True)
def test_hidden_devices_can_be_shown_until_the_first_use() -> None:
    assert torch.cuda.device_count() == 1
    _hide("0,1")
    assert torch.zeros(1, device="cuda:1").tolist() == [0]
    assert torch.cuda.device_count() == 2


@child(*TWO, alone=True)
def test_all_devices_can_be_hidden_until_the_first_use() -> None:
    _hide("")
    assert not torch.cuda.is_available()
    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        torch.zeros(1, device="cuda")


def _used() -> list[bool]:
    return [torch._C._cuda_hasPrimaryContext(device) for device in range(2)]


@child(VIRTUAL.with_settings(devices=2), alone=True)
def test_a_device_has_a_context_when_it_was_used() -> None:
    torch.cuda.init()
    torch.cuda.manual_seed_all(1)
    assert torch.cuda.current_device() == 0
    assert _used() == [False, False]
    x = torch.randn(1, device="cuda:1")
    assert _used() == [False, True]
    assert repr(x)
    torch.randn(1).copy_(x)
    x.requires_grad_().sum().backward()
    assert _used() == [False, True]
    torch.cuda.set_device(0)
    assert _used() == [True, True]


#: What makes a context of the current device, and what does not, as an H200 answered.
USES: dict[str, tuple[Callable[[], object], bool]] = {
    "stream": (torch.cuda.Stream, True),
    "current stream": (lambda: torch.cuda.current_stream(), True),
    "mem_get_info": (lambda: torch.cuda.mem_get_info(), True),
    "pin_memory": (lambda: torch.ones(3).pin_memory(), True),
    "event": (lambda: torch.cuda.Event(), False),
    "empty_cache": (lambda: torch.cuda.empty_cache(), False),
    "memory_allocated": (lambda: torch.cuda.memory_allocated(), False),
    "is_pinned": (lambda: torch.ones(3).is_pinned(), False),
    "the device that is current": (lambda: torch.cuda.device(0).__enter__(), False),
}


@pytest.mark.parametrize("use", USES)
@child(VIRTUAL, alone=True)
def test_calls_that_create_a_context(use: str) -> None:
    function, makes = USES[use]
    torch.cuda.init()
    assert not torch._C._cuda_hasPrimaryContext(0)
    function()
    assert torch._C._cuda_hasPrimaryContext(0) is makes
