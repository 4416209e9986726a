"""Scaling of gradients for half precision."""

from __future__ import annotations

from typing import Any

import torch
from torch.amp import GradScaler

from recorded.oracle.probing import about, numbers, probe, raises


def dtypes(*functions: Any) -> list[Any]:
    return [raises(lambda f=f: str(f().dtype)) for f in functions]


@probe()
def scaler_grows_and_backs_off() -> Any:
    w = torch.nn.Parameter(torch.ones(2, device="cuda"))
    opt = torch.optim.SGD([w], lr=0.1)
    scaler = GradScaler("cuda", init_scale=8.0, growth_interval=2, growth_factor=4.0, backoff_factor=0.25)
    out = []
    for bad in (False, False, True, False, False):
        opt.zero_grad()
        scaler.scale((w * (float("inf") if bad else 1.0)).sum()).backward()
        done = scaler.step(opt)
        scaler.update()
        out.append([scaler.get_scale(), scaler._get_growth_tracker(), done is None, numbers(w)])
    return out


@probe()
def scaler_several_optimizers() -> Any:
    a, b = (torch.nn.Parameter(torch.ones(2, device="cuda")) for _ in range(2))
    oa, ob = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([b], lr=0.1)
    scaler = GradScaler("cuda", init_scale=4.0)
    scaler.scale(a.sum() + (b * float("nan")).sum()).backward()
    scaler.step(oa)
    scaler.step(ob)
    scaler.update()
    return [a, b, scaler.get_scale()]


@probe()
def scaler_refusals() -> Any:
    w = torch.nn.Parameter(torch.ones(2, device="cuda"))
    opt = torch.optim.SGD([w], lr=0.1)
    scaler = GradScaler("cuda")
    return [
        raises(lambda: scaler.step(opt)),
        raises(lambda: scaler.update()),
        raises(lambda: scaler.scale("x")),
        raises(lambda: scaler.scale(torch.ones(1))),
        raises(lambda: scaler.update("x")),
        raises(lambda: GradScaler("cuda", growth_factor=0.5)),
        raises(lambda: GradScaler("cuda", backoff_factor=2.0)),
        raises(lambda: scaler.step(opt, closure=lambda: 1)),
        raises(lambda: GradScaler("cuda", enabled=False).scale(3)),
        GradScaler("cuda", enabled=False).get_scale(),
        raises(lambda: scaler.load_state_dict({})),
    ]


@probe()
def scaler_of_sparse_and_mixed_gradients() -> Any:
    e = torch.nn.Embedding(4, 2, sparse=True, device="cuda")
    with torch.no_grad():
        e.weight.fill_(1)
    opt = torch.optim.SparseAdam(list(e.parameters()), lr=0.1)
    scaler = GradScaler("cuda", init_scale=16.0)
    scaler.scale(e(torch.tensor([1, 1, 3], device="cuda")).sum()).backward()
    scaler.unscale_(opt)
    grad = e.weight.grad
    scaler.step(opt)
    scaler.update()
    return [about(grad), numbers(grad), numbers(e.weight), scaler.state_dict()]
