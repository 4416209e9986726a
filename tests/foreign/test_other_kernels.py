"""numba.cuda and ``__cuda_array_interface__``, over the device's memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from harness import STORED, VIRTUAL, ChildConfig, child, python
from harness.places import must_be_ready

PROGRAMS = Path(__file__).parent / "programs"
SAID = """in place True
as_cuda_array 7.0 True False
strided 5.0 (3, 4)
as_tensor cuda:0 [[9.0, 1.0, 2.0], [3.0, 4.0, 5.0]] [[9.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
[0, 1, 2, 3, 4]
[3.0, 4.0, 5.0] 3
reduce 64.0
numpy [2.0, 2.0, 2.0, 2.0]
*obj* doesn't implement the cuda array interface.
<class 'TypeError'> *obj* doesn't implement the cuda array interface.
imported in a function [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]"""


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="not installed: numba (extra 'clients')")
def test_numba_shares_memory_with_tensors() -> None:
    must_be_ready(VIRTUAL)
    done = python("-m", "torchdevice_cuda", "--driver", "virtual", PROGRAMS / "numba_exchange.py", timeout=300)
    assert done.out.strip() == SAID


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("mode", STORED, ids=str)
@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="not installed: numba (extra 'clients')")
def test_a_gpu_lends_its_memory_to_numbas_kernels(mode: ChildConfig) -> None:
    must_be_ready(mode)
    done = python(
        "-m", "torchdevice_cuda", "--driver", "mps", PROGRAMS / "numba_lent.py", environment=mode.full_environment()
    )
    assert done.out.strip().splitlines() == ["64.0", "[16, 2, 1]", "False"]


class Of:
    """Something that describes memory of the GPU."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {"shape": (3, 4), "typestr": "<f4", "data": (address, False), "version": 3}


@child(VIRTUAL)
def test_pinned_memory_is_at_hand_to_the_gpu() -> None:
    """An H200 makes a tensor over it, too, and refuses memory that is not pinned."""
    pinned = torch.arange(12, dtype=torch.float32).pin_memory()
    made = torch.as_tensor(Of(pinned.data_ptr()), device="cuda")
    assert made.data_ptr() == pinned.data_ptr()
    assert made.tolist() == pinned.reshape(3, 4).tolist()
    plain = torch.arange(12, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="resides on host memory and is not registered with any CUDA device"):
        torch.as_tensor(Of(plain.data_ptr()), device="cuda")
