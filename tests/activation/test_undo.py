"""Deactivation, and activation that fails half way, put back every attribute of torch."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from harness import CPU, MPS, STOCK, VIRTUAL, child, cuda_of_build

import torchdevice_cuda
from torchdevice_cuda.activation import ActivationError

from .scanning import autocast_kernels, changes, scan

AFTER, AFTER_DYNAMO = STOCK.when("after"), STOCK.when("after dynamo")


def cuda_answers() -> bool:
    import torch

    try:
        torch.zeros(1, device="cuda")
    except (AssertionError, NotImplementedError, RuntimeError):
        return False
    return True


def use_cuda() -> None:
    import torch

    torch.zeros(3, device="cuda").cpu()
    with torch.autocast("cuda", dtype=torch.float16):
        torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")


#: Attributes of which it is known that activation changes them: the scan must see it.
CHANGED = [
    ("torch", "zeros"),
    ("torch.fft", "fftfreq"),
    ("Tensor", "to"),
    ("Tensor", "cuda"),
    ("torch.cuda", "FloatTensor"),
    ("TorchFunctionMode", "__enter__"),
]


@child(AFTER, AFTER_DYNAMO, alone=True)
def test_every_attribute_is_the_original() -> None:
    import torch.cuda.comm
    import torch.cuda.sparse
    import torch.profiler  # noqa: F401

    if "torch._dynamo" in sys.modules:
        import torch._inductor.compile_fx  # noqa: F401
    scan()  # what torch loads lazily when looked at is loaded now
    before = scan()
    for _ in range(2):
        torchdevice_cuda.activate(driver="cpu")
        during = changes(before, scan())
        assert [name for name in CHANGED if name not in during] == []
        use_cuda()
        torchdevice_cuda.deactivate()
        left = changes(before, scan())
        assert left == []


@child(AFTER, alone=True)
def test_kernels_of_autocast_are_the_original() -> None:
    import torch

    before = autocast_kernels()
    for _ in range(2):
        torchdevice_cuda.activate(driver="cpu")
        assert autocast_kernels() - before, "there are kernels for CUDA's rules meanwhile"
        use_cuda()
        torchdevice_cuda.deactivate()
        assert autocast_kernels() == before
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
        assert torch.nn.functional.mse_loss(torch.ones(2), torch.zeros(2)).dtype is torch.float32


@child(AFTER, alone=True)
def test_torch_is_stock_again() -> None:
    import torch

    torchdevice_cuda.activate(driver="cpu")
    torchdevice_cuda.deactivate()
    x = torch.ones(2)
    assert x.to("cpu") is x
    assert torch.zeros_like in torch.overrides.get_overridable_functions()[torch]
    assert not cuda_answers()


@child(AFTER, AFTER_DYNAMO, alone=True)
def test_names_bound_before_follow_and_go_back() -> None:
    import torch

    from . import bound

    torchdevice_cuda.activate(driver="cpu", devices=2)
    assert bound.is_available()
    assert bound.device_count() == 2
    assert isinstance(bound.Stream(), torch.cuda.Stream)
    assert isinstance(torch.cuda.Event(), bound.Event)
    assert bound.nvtx.range_push("x") is not None
    bound.set_device(1)
    assert torch.cuda.current_device() == 1
    torchdevice_cuda.deactivate()
    assert not bound.is_available()
    assert bound.device_count() == 0
    assert not torchdevice_cuda.is_active()


@child(AFTER, alone=True)
def test_factories_bound_before_follow_and_go_back() -> None:
    import torch

    from . import bound

    stock = {name: getattr(bound, name) for name in bound.FACTORIES}
    torchdevice_cuda.activate(driver="cpu")
    assert [name for name in bound.FACTORIES if getattr(bound, name) is stock[name]] == []
    assert bound.zeros is torch.zeros
    assert bound.fftfreq is torch.fft.fftfreq
    assert bound.load is torch.load
    assert bound.is_autocast_enabled is torch.is_autocast_enabled
    for made in (
        bound.zeros(2, device="cuda"),
        bound.arange(2, device="cuda:0"),
        bound.rand(2, device=0),
        bound.tensor(1, device="cuda"),
        bound.zeros_like(torch.zeros(1), device="cuda"),
        bound.fftfreq(4, device="cuda"),
        bound.full((2,), 1.0, device="cuda"),
    ):
        assert made.device.type == "cpu"
        assert made.cuda() is made
    torchdevice_cuda.deactivate()
    assert [name for name in bound.FACTORIES if getattr(bound, name) is not stock[name]] == []
    assert bound.load is torch.load
    assert bound.is_autocast_enabled is torch.is_autocast_enabled
    for make, arguments in ((bound.zeros, (2,)), (bound.full, ((2,), 1.0))):
        with pytest.raises((AssertionError, NotImplementedError, RuntimeError)):
            make(*arguments, device="cuda")


@child(STOCK, alone=True)
def test_deactivation_after_early_activation_gives_stock_torch() -> None:
    torchdevice_cuda.activate(driver="cpu")
    import torch
    from torch.cuda import is_available

    assert is_available()
    torchdevice_cuda.deactivate()
    assert not is_available()
    assert not torch.cuda.is_available()
    assert torch.version.cuda == cuda_of_build()
    assert "torchdevice_cuda" not in str(torch.cuda.__file__)
    assert hasattr(torch._C, "_cuda_getDeviceCount") == bool(torch.version.cuda)
    assert not torch.accelerator.is_available()
    assert type(torch.Stream) is type
    assert not cuda_answers()


@child(STOCK, alone=True)
def test_activation_after_deactivation_after_early_activation() -> None:
    torchdevice_cuda.activate(driver="cpu")
    import torch
    from torch.cuda import is_available

    torchdevice_cuda.deactivate()
    torchdevice_cuda.activate(driver="cpu")
    assert is_available()
    assert torch.cuda.Stream().query()


@child(AFTER, alone=True, seconds=300)
def test_cycles_leak_nothing() -> None:
    import torch

    def cycle() -> None:
        torchdevice_cuda.activate(driver="cpu")
        torch.cuda.Stream().synchronize()
        torchdevice_cuda.deactivate()

    def count() -> int:
        gc.collect()
        return len(gc.get_objects())

    for _ in range(5):
        cycle()
    before = count()
    for _ in range(40):
        cycle()
    assert count() - before < 200, "objects more after 40 cycles"


# ------------------------------------------------------------------------ failure half way
class HalfWay(Exception):
    """The error that the steps of activation are made to raise."""


def _failing_after(owner: Any, name: str) -> Callable[[], None]:
    """Let a step of activation fail when it is done; what repairs it."""
    genuine = getattr(owner, name)

    def step(*args: Any, **kwargs: Any) -> None:
        genuine(*args, **kwargs)
        raise HalfWay

    setattr(owner, name, step)
    return lambda: setattr(owner, name, genuine)


def _failing_last_patch() -> Callable[[], None]:
    """Let a patch fail that is applied after all others; what repairs it."""
    from torchdevice_cuda.drivers.traits import NONE
    from torchdevice_cuda.translate.core import registry
    from torchdevice_cuda.translate.patches import registered

    def fail(context: object) -> None:
        raise HalfWay

    module = registered()[-1].module
    registry._registry[module].append(registry.Patch("zz.last", module, (), fail, "", NONE))
    return lambda: str(registry._registry[module].pop())


def _break(step: str) -> Callable[[], None]:
    """Break a step of activation; what repairs it. Here alone the tests know the parts of the package."""
    from torchdevice_cuda import activation, shadow
    from torchdevice_cuda.importing import inplace

    steps: dict[str, Callable[[], Callable[[], None]]] = {
        "the choice of a driver": lambda: _failing_after(activation, "select"),
        "the names of torch._C": lambda: _failing_after(shadow.Bindings, "apply"),
        "the modules of torch.cuda": lambda: _failing_after(inplace.Rewrite, "apply"),
        "the patches": _failing_last_patch,
    }
    return steps[step]()


@child(AFTER, alone=True)
@pytest.mark.parametrize(
    "step", ["the choice of a driver", "the names of torch._C", "the modules of torch.cuda", "the patches"]
)
def test_failure_half_way_leaves_torch_untouched(step: str) -> None:
    import torch

    scan()
    before = scan()
    repair = _break(step)
    for _ in range(2):
        with pytest.raises(ActivationError, match="could not start") as raised:
            torchdevice_cuda.activate(driver="cpu")
        assert isinstance(raised.value.__cause__, HalfWay)
        assert not torchdevice_cuda.is_active()
        left = changes(before, scan())
        assert left == []
    repair()
    torchdevice_cuda.activate(driver="cpu")
    assert torch.cuda.is_available()


@child(VIRTUAL, CPU, MPS, alone=True)
def test_a_capture_is_ended_first() -> None:
    import torch

    x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        with pytest.raises(ActivationError, match="while a CUDA graph is captured"):
            torchdevice_cuda.deactivate()
    graph.replay()
    assert torchdevice_cuda.is_active() and y.tolist() == [2.0] * 3
    torchdevice_cuda.deactivate()
    assert not torchdevice_cuda.is_active() and not torch.cuda.is_available()
