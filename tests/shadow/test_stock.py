"""Names of a torch release that the shadow modules lack are stock's own code, over our torch._C."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, STOCK, child, in_every_order

import torchdevice_cuda
from torchdevice_cuda.shadow import absent, stock

from .answers import error

#: A module of a release to come.
LATER = """
from torch._C import _cuda_getDevice, _cuda_fromTheFuture
import torch

__all__ = ["Later", "now", "later"]


class Later(torch._C._CudaBaseOfTheFuture):
    pass


def now():
    return _cuda_getDevice()


def later():
    return _cuda_fromTheFuture(3)
"""


@contextmanager
def release_to_come() -> Iterator[None]:
    """Return a stock ``torch.cuda`` with the module above."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "torch", "cuda")
        root.mkdir(parents=True)
        (root / "later.py").write_text(LATER)
        real, stock.root = stock.root, lambda: root
        try:
            yield
        finally:
            stock.root = real


def refusal(name: str) -> tuple[str, str]:
    return "NotImplementedError", (
        f"torch {torch.__version__} asks for torch._C.{name}, which this version of torchdevice_cuda does not have; "
        "please report it with the program's call"
    )


@child(CPU)
def test_a_missing_torch_c_name_of_a_later_module_fails_when_used() -> None:
    module: dict[str, Any] = {"__name__": "torch.cuda.later"}
    try:
        with release_to_come():
            stock.execute(module)
        assert module["now"]() == 0
        assert error(module["later"]) == refusal("_cuda_fromTheFuture")
        assert error(module["Later"]) == refusal("_CudaBaseOfTheFuture")
    finally:
        absent.forget()
    assert not hasattr(torch._C, "_cuda_fromTheFuture")


@child(STOCK, alone=True)
def test_functions_of_a_cuda_build_that_nobody_answers_are_not_called() -> None:
    """They would ask NVIDIA's driver."""
    torch._C._cuda_fromTheFuture = lambda: "NVIDIA's"
    torchdevice_cuda.activate(driver="cpu")
    assert error(torch._C._cuda_fromTheFuture) == refusal("_cuda_fromTheFuture")
    torchdevice_cuda.deactivate()
    assert torch._C._cuda_fromTheFuture() == "NVIDIA's"


@child(*in_every_order(CPU))
@pytest.mark.parametrize("name", ["_transform_uuid_to_ordinals", "_raw_device_uuid_nvml", "_cached_device_count"])
def test_private_names_of_stock(name: str) -> None:
    """Programs may use private names that our modules do not need."""
    found = getattr(torch.cuda, name)
    assert getattr(found, "__module__", "torch.cuda") == "torch.cuda"
    assert getattr(torch.cuda, name) is found


@child(CPU, alone=True)
def test_after_deactivation_the_module_is_stocks() -> None:
    torchdevice_cuda.deactivate()
    assert torch.cuda._lazy_call.__code__.co_filename == str(stock.file_of("torch.cuda"))
    assert torch.cuda.device_count.__code__.co_filename == str(stock.file_of("torch.cuda"))
    assert torch.cuda.amp.autocast.__module__ == "torch.cuda.amp.autocast_mode"


PRIVATE = (
    "_HAS_PYNVML",
    "_device_count_nvml",
    "_raw_device_count_nvml",
    "_transform_uuid_to_ordinals",
    "_code_compatible_with_device",
    "_host_arch_key",
    "_device_limits",
)


@child(*in_every_order(CPU), as_in=STOCK)
def test_private_names_that_torchs_tests_read() -> list[list[str]]:
    """Names that are assigned in one case only, and submodules, exist, too."""
    return [[name, type(getattr(torch.cuda, name, None)).__name__] for name in PRIVATE]
