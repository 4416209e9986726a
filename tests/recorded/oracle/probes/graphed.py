"""Callables made into CUDA graphs, and what a graph keeps."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import numbers, probe, raises, ramp
from recorded.oracle.scenes import during


@probe()
def training_by_hand() -> Any:
    w = torch.nn.Parameter(torch.ones(3, device="cuda"))
    x = torch.ones(3, device="cuda")
    opt = torch.optim.SGD([w], lr=0.5)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(2):
            opt.zero_grad(set_to_none=True)
            (w * x).sum().backward()
    torch.cuda.current_stream().wait_stream(s)
    graph = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = (w * x).sum()
        loss.backward()
        opt.step()
    out = []
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        out.append([float(loss), numbers(w)])
    return out


@probe()
def adam_needs_capturable() -> Any:
    w = torch.nn.Parameter(torch.ones(3, device="cuda"))
    out = []
    for capturable in (True, False):
        opt = torch.optim.Adam([w], lr=0.1, capturable=capturable)
        w.grad = torch.ones_like(w)
        opt.step()
        out.append(during(opt.step))
    return out


@probe()
def make_graphed_callables_of_a_function() -> Any:
    def f(a: Any, b: Any) -> Any:
        return (a * b).sum(), a + b

    x, y = ramp(3).requires_grad_(), ramp(3)
    g = torch.cuda.make_graphed_callables(f, (x, y))
    p, q = ramp(3).flip(0).requires_grad_(), ramp(3) * 2
    total, both = g(p, q)
    total.backward()
    return [total, both, p.grad, raises(lambda: torch.cuda.make_graphed_callables(f, (3, y)))]


@probe()
def make_graphed_callables_refusals() -> Any:
    lin = torch.nn.Linear(3, 3, device="cuda")
    hooked = torch.nn.Linear(3, 3, device="cuda")
    hooked.register_forward_hook(lambda *a: None)
    buffered = torch.nn.BatchNorm1d(3, device="cuda")
    buffered.running_mean.requires_grad_()
    x = torch.ones(2, 3, device="cuda")
    out = [
        raises(lambda: torch.cuda.make_graphed_callables(hooked, (x,))),
        raises(lambda: torch.cuda.make_graphed_callables(buffered, (x,))),
        raises(lambda: torch.cuda.make_graphed_callables((lin, lin), (x,))),
    ]
    with torch.amp.autocast("cuda"):
        out.append(raises(lambda: torch.cuda.make_graphed_callables(lin, (x,))))
    return out


@probe()
def make_graphed_callables_of_modules() -> Any:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).cuda()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(ramp(*p.shape) / 4)
    x = ramp(2, 3)
    want = net(x).detach()
    graphed = torch.cuda.make_graphed_callables(net, (torch.zeros(2, 3, device="cuda"),))
    same = graphed is net
    got = net(x)
    got.sum().backward()
    return [
        same,
        torch.allclose(want, got),
        [numbers(p.grad) for p in net.parameters()][-1],
        type(net.forward).__name__,
    ]
