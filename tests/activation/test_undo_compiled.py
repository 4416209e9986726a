"""After deactivation: compiled functions, what was changed in the compiler, and tensors that are still there."""

from __future__ import annotations

from typing import Any

import pytest
from harness import MPS_FAITHFUL, STOCK, child

import torchdevice_cuda

VIRTUAL_LATE = STOCK.when("after dynamo")


def _changed_names() -> list[Any]:
    """List the compiler's names that activation changes at the first compilation."""
    import torch
    import torch._functorch.config
    import torch._inductor.compile_fx as module
    import torch._inductor.scheduler as scheduler
    from torch._inductor.lowering import lowerings

    return [
        module.compile_fx,
        module.compile_fx_inner,
        module.compile_fx_aot,
        scheduler.Scheduler.codegen_extern_call,
        torch._TorchCompileInductorWrapper.__call__,
        torch._functorch.config.enable_autograd_cache,
        [operator for operator in lowerings if getattr(operator, "namespace", "") != "torchdevice_cuda"],
    ]


def _compute(x: Any) -> Any:
    return (x * 2 + 1).sum()


@pytest.mark.native
@pytest.mark.slow
@child(VIRTUAL_LATE, alone=True, seconds=300)
def test_the_compiler_is_stocks_and_compiled_functions_go_on() -> None:
    import torch

    library = torch.library.Library("undone", "DEF")
    library.define("add(Tensor x) -> Tensor")
    library.impl("add", lambda x: x + (1 if x.is_cuda else 100), "CompositeExplicitAutograd")
    torch.library.register_fake("undone::add", torch.empty_like, lib=library)
    add: Any = torch.ops.undone.add
    stock = _changed_names()
    torchdevice_cuda.activate(driver="virtual")
    x, plain, calling = torch.ones(4, device="cuda"), torch.compile(_compute), torch.compile(lambda x: add(x * 2))
    assert plain(x).item() == 12 and calling(x).tolist() == [3.0] * 4
    during = _changed_names()
    assert during[0] is not stock[0] and during[5] is False
    torchdevice_cuda.deactivate()
    assert _changed_names() == stock

    assert plain(x).item() == 12 and calling(x).tolist() == [3.0] * 4  # the code is there, and so is the memory
    assert plain(torch.ones(4)).item() == 12 and calling(torch.ones(4)).tolist() == [102.0] * 4
    torch._dynamo.reset()
    assert plain(torch.ones(4)).item() == 12 and calling(torch.ones(4)).tolist() == [102.0] * 4
    assert torch.compile(lambda x: x.sin() + 1)(torch.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Torch not compiled with CUDA enabled"):
        plain(x)

    torchdevice_cuda.activate(driver="virtual")
    torch._dynamo.reset()
    assert plain(x).item() == 12 and calling(x).tolist() == [3.0] * 4


@pytest.mark.native
@child(VIRTUAL_LATE, STOCK.when("before"), alone=True)
def test_tensors_that_are_left_compute_and_come_home() -> None:
    torchdevice_cuda.activate(driver="virtual")
    import torch

    x = torch.arange(4.0, device="cuda")
    w = torch.ones(4, 4, device="cuda", requires_grad=True)
    loss = (w @ x).sum()
    torchdevice_cuda.deactivate()
    assert not torch.cuda.is_available()
    assert str(x) == "tensor([0., 1., 2., 3.], device='cuda:0')"
    assert (x + 1).cpu().tolist() == [1, 2, 3, 4] and x.sum().item() == 6
    loss.backward()
    assert w.grad is not None and w.grad.cpu().tolist() == [[0.0, 1, 2, 3]] * 4
    x.copy_(torch.ones(4))
    assert x.tolist() == [1.0] * 4 and x.clone().is_cuda
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(4)
    # A CUDA build looks for NVIDIA's driver once in a process: that was while another GPU answered.
    words = "invalid argument to exchangeDevice" if torch.version.cuda else "Torch not compiled with CUDA enabled"
    with pytest.raises((AssertionError, RuntimeError), match=words):
        torch.cuda.synchronize()


@child(MPS_FAITHFUL, alone=True)
def test_tensors_of_an_apple_gpu_are_left_as_its_own() -> None:
    import torch

    x = torch.arange(4.0, device="cuda")
    assert x.is_cuda
    torchdevice_cuda.deactivate()
    assert x.device.type == "mps" and not x.is_cuda
    assert (x + 1).cpu().tolist() == [1, 2, 3, 4]
