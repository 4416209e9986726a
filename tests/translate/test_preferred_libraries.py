"""``torch.backends.cuda.preferred_linalg_library`` and its like take what a CUDA build takes."""

from __future__ import annotations

import pytest
import torch
from harness import EVERYWHERE, child

import torchdevice_cuda


@child(*EVERYWHERE)
def test_libraries_of_cuda_are_taken() -> None:
    prefer, blas = torch.backends.cuda.preferred_linalg_library, torch.backends.cuda.preferred_blas_library
    before = prefer()
    for name in ("cusolver", "magma"):
        assert str(prefer(name)).lower().endswith(name)
        assert prefer() == prefer(name)
    assert prefer("default") == before
    assert str(blas("cublaslt")) == "_BlasBackend.Cublaslt"
    with pytest.raises(RuntimeError, match="Unknown input value"):
        blas("bogus")
    assert str(blas()) == "_BlasBackend.Cublaslt"
    torchdevice_cuda.deactivate()
