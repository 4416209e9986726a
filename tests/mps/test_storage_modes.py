"""Memory of the Apple GPU, lent to code of the host: shared buffers in place, private ones as copies."""

from __future__ import annotations

import ctypes

import pytest
import torch
from harness import MPS_FAITHFUL, STORED, child, in_child

import torchdevice_cuda
from torchdevice_cuda.drivers.loans import Loan

SHARED, PRIVATE = STORED


def _numbers() -> tuple[torch.Tensor, Loan]:
    return torch.arange(8.0, device="cuda"), torchdevice_cuda.driver().loan()


@child(*STORED)
def test_the_host_writes_into_a_tensor() -> None:
    x, loan = _numbers()
    first, last = loan.tensor(x[:4]), loan.address(x[6:])
    with loan:
        first.mul_(10)
        (ctypes.c_float * 2).from_address(last)[:] = [-1, -2]
    assert x.tolist() == [0, 10, 20, 30, 4, 5, -1, -2]


@child(*STORED)
def test_tensors_of_one_storage_share_it_on_the_host() -> None:
    x, loan = _numbers()
    whole, turned = loan.tensor(x), loan.tensor(x.view(2, 4).t())
    assert turned.stride() == (1, 4) and len(loan.ranges()) == 1
    with loan:
        whole[1] = 50
        assert turned[1, 0] == 50


@child(*STORED)
def test_memory_that_is_only_read_is_not_copied_back() -> None:
    x, loan = _numbers()
    host = loan.tensor(x, is_written=False)
    with loan:
        host.zero_()
    is_shared = torchdevice_cuda.drivers.mps.storages.find_alias(x.untyped_storage()) is not None
    assert x.any().item() is not is_shared


@child(*STORED)
def test_what_was_written_before_an_error_stays() -> None:
    x, loan = _numbers()
    host = loan.tensor(x)
    with pytest.raises(ZeroDivisionError), loan:
        host[0] = 7
        raise ZeroDivisionError
    assert x[0] == 7


@child(SHARED)
def test_a_shared_buffer_is_lent_in_place() -> None:
    x, loan = _numbers()
    assert loan.address(x[2:]) == x.untyped_storage().data_ptr() + 8


@child(*STORED)
def test_an_empty_tensor_is_lent() -> None:
    _, loan = _numbers()
    assert loan.tensor(torch.zeros(0, 3, device="cuda")).shape == (0, 3) and loan.ranges() == []


def read_after_work(wait: bool) -> float:
    x = torch.arange(8.0, device="cuda") + 1
    if wait:
        torch.mps.synchronize()
    return float(ctypes.c_float.from_address(x.data_ptr()).value)


def test_the_emulated_gpu_ends_wrong_accesses() -> None:
    """Only shared memory is accessible, once the host has waited; unset, nothing is protected."""
    assert in_child(read_after_work, MPS_FAITHFUL, False) == 1.0
    assert in_child(read_after_work, SHARED, True) == 1.0
    for place, wait in ((SHARED, False), (PRIVATE, True), (PRIVATE, False)):
        with pytest.raises(pytest.fail.Exception, match="exit status -11"):
            in_child(read_after_work, place, wait)
