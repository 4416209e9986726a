"""Triton beside a GPU that it cannot compile for: a CUDA build brings it along."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import torch
from harness import CPU, STOCK, VIRTUAL, child, in_every_order

FAKES = Path(__file__).parent / "fakes"
#: Activation before torch is imported, after it and after dynamo is: it takes a compiler each time.
ORDERS = in_every_order(CPU.rarely(), VIRTUAL, rarely=True)


def nvidia() -> type:
    """Triton's driver for NVIDIA's GPUs, the real one where it is installed."""
    if importlib.util.find_spec("triton") is None:
        sys.path.insert(0, str(FAKES))
    return importlib.import_module("triton.backends").backends["nvidia"].driver


@child(*ORDERS, alone=True)
def test_torch_has_no_triton_for_the_device() -> None:
    import torch._dynamo
    from torch.utils import _triton

    nvidia()
    for kept in (_triton.has_triton_package, _triton.has_triton):  # answers from before there was a triton
        kept.cache_clear()
    assert _triton.has_triton_package()
    assert torch.cuda.is_available()
    assert _triton.has_triton()  # whose kernels the program can run
    assert not eval("_triton.has_triton()", {"_triton": _triton, "__name__": "torch._inductor.scheduler"})
    assert eval("_triton.has_triton()", {"_triton": _triton, "__name__": "torch._dynamo.variables.builder"})


@child(STOCK.when("after dynamo"), alone=True)
def test_deactivation_leaves_triton_as_it_was() -> None:
    from torch.utils import _triton

    import torchdevice_cuda

    driver = nvidia()
    before = _triton.has_triton, _triton.has_triton.__wrapped__.__code__, driver.__init__
    torchdevice_cuda.activate(driver="cpu")
    assert _triton.has_triton is not before[0]
    assert driver.__init__ is not before[2]
    torchdevice_cuda.deactivate()
    assert (_triton.has_triton, _triton.has_triton.__wrapped__.__code__, driver.__init__) == before


@child(*ORDERS, seconds=300)
def test_code_for_the_host_compiles() -> None:
    """Stock compiles it on this machine, whatever triton says."""
    x = torch.linspace(0, 1, 64)
    torch.testing.assert_close(torch.compile(lambda a: a.sin() * 2 + a)(x), x.sin() * 2 + x)


@child(*ORDERS)
def test_traced_code_asks_for_the_stream_that_the_driver_has() -> None:
    def twice(a: torch.Tensor) -> torch.Tensor:
        return a + a

    with torch.cuda.stream(torch.cuda.Stream()):
        assert torch.compile(twice, backend="eager")(torch.ones(3, device="cuda")).tolist() == [2, 2, 2]
