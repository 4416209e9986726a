"""Generators, where torch makes only those of devices that it was built for: 2.6, or any release that is told so."""

from __future__ import annotations

import pytest
from harness import MPS_FAITHFUL, STOCK, VIRTUAL, ChildConfig, child

PLACES = [
    ChildConfig(f"stock, for {place}", order="after", environment=place.full_environment(), needs=place.native)
    for place in (VIRTUAL, MPS_FAITHFUL)
]


@child(*PLACES, alone=True)
def test_generators_that_torch_cannot_make() -> None:
    import os

    import torch

    import torchdevice_cuda
    from torchdevice_cuda.translate.patches import random

    random.generators_are_built_in = lambda: True
    emulated = "TORCHDEVICE_EMULATE_MPS" in os.environ
    torchdevice_cuda.activate(driver="mps" if emulated else "virtual", policy="faithful")
    assert torch.Generator is not torch._C.Generator
    made, cpu = torch.Generator("cuda"), torch.Generator()
    assert (made.device.type, cpu.device.type) == ("cuda", "cpu")
    assert isinstance(made, torch.Generator)
    assert made.initial_seed() == cpu.initial_seed()
    drawn = torch.rand(3, device="cuda", generator=made.manual_seed(5))
    torch.cuda.manual_seed(5)
    assert torch.equal(torch.rand(3, device="cuda"), drawn)
    assert not torch.equal(torch.rand(3, device="cuda", generator=made), drawn)
    with pytest.raises(RuntimeError, match="invalid device ordinal|Invalid device"):
        torch.Generator("cuda:9")
    torchdevice_cuda.deactivate()
    assert torch.Generator is torch._C.Generator


@child(STOCK.when("after"))
def test_this_release_is_asked() -> None:
    import torch

    from torchdevice_cuda._compat import generators_are_built_in, torch_release

    assert generators_are_built_in() == (torch_release(torch.__version__) < (2, 7))
