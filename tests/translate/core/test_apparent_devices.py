"""Devices that tensors report on a GPU to which requests for the CPU go, too."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core.apparent_devices import ApparentDevices, Memories

_is_meta: Any = vars(torch._C.TensorBase)["is_meta"].__get__


def on_gpu(size: int = 2) -> torch.Tensor:
    """Return a tensor on what stands for the GPU here: torch's meta device."""
    return torch.ones(size, device="meta")


@pytest.fixture
def apparent_devices() -> ApparentDevices:
    return ApparentDevices(_is_meta)


class Plain(torch.Tensor):
    """A subclass that wants to hear of every function."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{function} was called")


def test_memory_is_known_through_whatever_shares_it() -> None:
    known, one = Memories(), on_gpu(4)
    assert one not in known
    assert known.add(one) is one
    for other in (one, one.detach(), one[1:], torch.nn.Parameter(one), one.as_subclass(Plain)):
        assert other in known
    assert on_gpu(4) not in known
    sparse = torch.eye(2).to_sparse()
    assert known.add(sparse) is sparse
    assert sparse in known
    assert torch.eye(2).to_sparse() not in known


def test_dead_tensors_are_dropped() -> None:
    known = Memories()
    known.limit = 3
    kept = on_gpu()
    known.add(kept)
    for _ in range(3):
        one = on_gpu()
        known.add(one)
        del one
        gc.collect()
    one, other = on_gpu(), on_gpu()
    known.limit = len(known.refs)
    known.add(one)
    known.add(other)
    assert kept in known
    assert known.limit >= 4096, "it was swept"


def test_all_is_the_cpus_until_the_program_asks_for_cuda(apparent_devices: ApparentDevices) -> None:
    result, asked = on_gpu(), on_gpu()
    assert not apparent_devices.cuda_named
    assert apparent_devices.is_cpu(result) is True
    assert apparent_devices.is_cpu_memory(result.untyped_storage()) is True
    host, sub = torch.ones(2), on_gpu().as_subclass(Plain)  # which is not asked anything
    assert apparent_devices.add_cuda(asked) is asked
    assert apparent_devices.cuda_named
    assert apparent_devices.is_cpu(asked) is False
    assert apparent_devices.is_known_cuda(asked) is True
    assert apparent_devices.is_known_cuda(result) is False
    for of_before in (result, result[1:], sub):
        assert apparent_devices.is_cpu(of_before) is True
    assert host not in apparent_devices.known_cpu, "it is not on the GPU"
    later = on_gpu()
    assert apparent_devices.is_cpu(later) is False, "results of operators are CUDA's from now on"
    assert apparent_devices.is_known_cuda(later) is False
    wanted = on_gpu()
    assert apparent_devices.add_cpu(wanted) is wanted
    assert apparent_devices.is_cpu(wanted) is True
    assert apparent_devices.is_cpu_memory(wanted.untyped_storage()) is True
    assert apparent_devices.is_cpu_memory(later.untyped_storage()) is False


def test_settled_once(apparent_devices: ApparentDevices) -> None:
    apparent_devices.add_cuda(on_gpu())
    later = on_gpu()
    apparent_devices.add_cuda(on_gpu())
    apparent_devices.add_cuda_memory(on_gpu().untyped_storage())
    assert apparent_devices.is_cpu(later) is False


def test_memory_that_is_asked_for(apparent_devices: ApparentDevices) -> None:
    before, one = on_gpu(), on_gpu()
    apparent_devices.add_cuda_memory(one.untyped_storage())
    assert apparent_devices.cuda_named
    assert apparent_devices.is_known_cuda(one)
    assert not apparent_devices.is_cpu(one)
    assert apparent_devices.is_cpu(before)


def test_results_report_their_inputs_device(apparent_devices: ApparentDevices) -> None:
    cuda, cpu = apparent_devices.add_cuda(on_gpu()), apparent_devices.add_cpu(on_gpu())
    made = [on_gpu() for _ in range(3)]
    assert apparent_devices.carry(cuda, made[0]) is made[0]
    assert (apparent_devices.is_known_cuda(made[0]), apparent_devices.is_cpu(made[0])) == (True, False)
    assert apparent_devices.carry(cpu, made[1]) is made[1]
    assert (apparent_devices.is_known_cuda(made[1]), apparent_devices.is_cpu(made[1])) == (False, True)
    unknown = on_gpu()
    assert apparent_devices.carry(unknown, made[2]) is made[2]
    assert (apparent_devices.is_known_cuda(made[2]), apparent_devices.is_cpu(made[2])) == (False, False)
    host = torch.ones(1)
    assert apparent_devices.carry(cpu, host) is host
    assert host not in apparent_devices.known_cpu
    assert apparent_devices.carry(unknown, unknown) is unknown
    assert unknown not in apparent_devices.known_cpu
