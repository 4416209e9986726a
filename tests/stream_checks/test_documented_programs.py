"""Programs of PyTorch's documentation that order their streams: nothing is reported."""

from __future__ import annotations

import pytest
from harness import ChildConfig, child

CHECKED = ChildConfig("virtual checked", {"driver": "virtual", "check_streams": "error", "devices": 2})


@child(CHECKED)
@pytest.mark.parametrize("where", ["same stream", "waited for", "given gradient"])
def test_backward_on_a_stream(where: str) -> None:
    """From the notes on CUDA semantics, "Stream semantics of backward passes"."""
    import torch

    torch.cuda.synchronize()
    side, model = torch.cuda.Stream(), torch.nn.Linear(32, 32).cuda()
    loss = model(torch.randn(8, 32, device="cuda")).sum()
    gradient = torch.ones_like(loss)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss.backward(gradient=gradient if where == "given gradient" else None)
        if where == "same stream":
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.mul_(2)
    torch.cuda.current_stream().wait_stream(side)
    assert sum(p.grad.sum().item() for p in model.parameters() if p.grad is not None) != 0
    torch.cuda.synchronize()


@child(CHECKED)
def test_a_model_on_two_streams() -> None:
    import torch

    torch.cuda.synchronize()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.randn(5, 5, device="cuda", requires_grad=True)
    for _ in range(3):
        for side in (first, second):
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(first):
            y = x * 2
        with torch.cuda.stream(second):
            z = x * 3
            second.wait_stream(first)
            out = y + z
        torch.cuda.current_stream().wait_stream(second)
        out.sum().backward()
    assert x.grad is not None
    assert x.grad.sum().item() == 375
    torch.cuda.synchronize()


@child(CHECKED)
def test_whole_network_capture() -> None:
    import torch

    torch.cuda.synchronize()
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 16, device="cuda"), torch.randn(8, 4, device="cuda")

    def step() -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(4):
        x.copy_(torch.rand_like(x))
        graph.replay()
    assert loss.item() > 0


@child(CHECKED)
def test_graphed_callables_and_saved_tensors_on_the_host() -> None:
    import torch

    torch.cuda.synchronize()
    x = torch.randn(8, 16, device="cuda", requires_grad=True)
    model = torch.cuda.make_graphed_callables(torch.nn.Linear(16, 4).cuda(), (x,))
    for _ in range(3):
        model(x).sum().backward()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad.isfinite().all().item()


@child(CHECKED)
def test_several_devices() -> None:
    import torch

    torch.cuda.synchronize()
    model = torch.nn.Linear(16, 16).cuda()
    torch.nn.DataParallel(model, [0, 1])(torch.randn(8, 16, device="cuda")).sum().backward()
    there = torch.nn.Linear(16, 4).to("cuda:1")
    there(model(torch.randn(8, 16, device="cuda")).to("cuda:1", non_blocking=True)).sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.isfinite().all().item()
