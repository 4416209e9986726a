"""Optimizers in their three forms, and the operators over lists of tensors below them."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import about, every, numbers, probe, raises, ramp

O = torch.optim  # noqa: E741


def trained(make: Any, steps: int = 3, **options: Any) -> Any:
    w = torch.nn.Parameter(ramp(2, 3) / 4)
    b = torch.nn.Parameter(ramp(3) / 4)
    opt = make([w, b], **options)
    for _ in range(steps):
        opt.zero_grad()
        ((ramp(4, 2) @ w + b) ** 2).mean().backward()
        opt.step()
    state = opt.state[w]
    return [
        numbers(w),
        numbers(b),
        {k: about(v) if isinstance(v, torch.Tensor) else v for k, v in state.items() if k != "prev"},
    ]


@probe()
def defaults() -> Any:
    return [
        [m.__name__, trained(m, **o)]
        for m, o in (
            (O.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
            (O.Adam, {"lr": 0.1}),
            (O.AdamW, {"lr": 0.1, "amsgrad": True}),
            (O.RMSprop, {"lr": 0.01, "centered": True}),
            (O.Adagrad, {"lr": 0.1}),
            (O.Adadelta, {}),
            (O.Adamax, {"lr": 0.1}),
            (O.NAdam, {"lr": 0.1}),
            (O.RAdam, {"lr": 0.1}),
            (O.ASGD, {"lr": 0.1}),
            (O.Rprop, {"lr": 0.1}),
        )
    ]


@probe()
def forms() -> Any:
    out = []
    for make in (O.SGD, O.Adam, O.AdamW, O.Adagrad, O.RMSprop, O.NAdam):
        for form in ({"foreach": False}, {"foreach": True}, {"fused": True}, {"foreach": True, "fused": True}):
            out.append([make.__name__, form, raises(lambda make=make, form=form: trained(make, lr=0.1, **form))])
    return out


@probe()
def capturable() -> Any:
    return [
        [m.__name__, raises(lambda m=m: trained(m, lr=0.1, capturable=True))]
        for m in (O.Adam, O.AdamW, O.RMSprop, O.Adamax, O.NAdam, O.RAdam, O.ASGD, O.Rprop, O.Adadelta, O.SGD)
    ]


@probe()
def refusals() -> Any:
    w = torch.nn.Parameter(torch.ones(2, device="cuda"))
    c = torch.nn.Parameter(torch.ones(2))
    w.grad, c.grad = torch.ones(2, device="cuda"), torch.ones(2)
    i = torch.ones(2, dtype=torch.int64, device="cuda")
    return [
        raises(f)
        for f in (
            lambda: O.Adam([w], lr=torch.tensor(0.1, device="cuda")),
            lambda: O.Adam([w], lr=torch.tensor(0.1), foreach=True, capturable=False),
            lambda: O.Adam([c], capturable=True).step(),
            lambda: O.Adam([i]),
            lambda: O.SGD([w], lr=-1),
            lambda: O.Adam([w], betas=(1.5, 0.9)),
            lambda: O.SGD([w], lr=0.1, differentiable=True, fused=True),
            lambda: O.Adam([w, c], fused=True).step(),
            lambda: O.Adam([]),
            lambda: O.Adam(w),
            lambda: O.LBFGS([w, w]),
            lambda: O.SparseAdam([w]).step(),
            lambda: O.Adam([torch.nn.Parameter(i.to(torch.complex64))], fused=True),
            lambda: O.Adam([w], lr=torch.tensor(0.1, device="cuda"), capturable=True).step(),
            lambda: O.SGD([w], lr=torch.tensor(0.1, device="cuda"), foreach=True).step(),
            lambda: O.SGD([w], lr=torch.tensor(0.1, device="cuda"), fused=True).step(),
            lambda: O.Muon([w]) if hasattr(O, "Muon") else None,
        )
    ]


@probe()
def half_precision_parameters() -> Any:
    out = []
    for dtype in (torch.float16, torch.bfloat16):
        for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            w = torch.nn.Parameter(ramp(4).to(dtype))
            opt = O.AdamW([w], lr=0.1, **form)
            for _ in range(2):
                w.grad = ramp(4).flip(0).to(dtype)
                opt.step()
            out.append([numbers(w), str(opt.state[w]["exp_avg"].dtype), str(opt.state[w]["step"].dtype)])
    return out


@probe()
def states_reloaded() -> Any:
    w = torch.nn.Parameter(torch.ones(2, device="cuda"))
    opt = O.Adam([w], lr=0.1)
    w.grad = torch.ones(2, device="cuda")
    opt.step()
    state = opt.state_dict()
    c = torch.nn.Parameter(torch.ones(2))
    other = O.Adam([c])
    other.load_state_dict(state)
    f = O.Adam([torch.nn.Parameter(torch.ones(2, device="cuda"))], fused=True)
    f.load_state_dict(state)
    h = O.Adam([torch.nn.Parameter(torch.ones(2, device="cuda", dtype=torch.float16))])
    h.load_state_dict(state)
    return [
        [str(v.device) for v in other.state[c].values()],
        [[str(v.device), str(v.dtype)] for v in next(iter(f.state.values())).values()],
        [[str(v.device), str(v.dtype)] for v in next(iter(h.state.values())).values()],
        [str(v.device) for v in state["state"][0].values()],
        other.param_groups[0]["lr"],
        raises(lambda: O.Adam([w, c]).load_state_dict(state)),
    ]


@probe()
def closures_and_lbfgs() -> Any:
    w = torch.nn.Parameter(torch.tensor([3.0, -2.0], device="cuda"))
    opt = O.LBFGS([w], lr=0.5, max_iter=4)

    def closure() -> Any:
        opt.zero_grad()
        loss = (w**4).sum() + (w - 1).pow(2).sum()
        loss.backward()
        return loss

    first = opt.step(closure)
    return [first, w, raises(lambda: opt.step())]


@probe()
def schedules() -> Any:
    w = torch.nn.Parameter(torch.ones(1, device="cuda"))
    opt = O.SGD([w], lr=1.0)
    s = O.lr_scheduler.CosineAnnealingLR(opt, 4)
    out = []
    for _ in range(3):
        opt.step()
        s.step()
        out.append(opt.param_groups[0]["lr"])
    o = O.Adam([w], lr=torch.tensor(1.0, device="cuda"), capturable=True)
    t = O.lr_scheduler.StepLR(o, 1, 0.5)
    w.grad = torch.ones(1, device="cuda")
    o.step()
    t.step()
    return [out, o.param_groups[0]["lr"], O.lr_scheduler.OneCycleLR(opt, 1.0, 5).get_last_lr()]


@probe()
def sparse_gradients() -> Any:
    out = []
    for make, options in (
        (O.SGD, {"lr": 0.1}),
        (O.SparseAdam, {"lr": 0.1}),
        (O.Adagrad, {"lr": 0.1}),
        (O.Adam, {}),
        (O.RMSprop, {}),
        (O.SGD, {"lr": 0.1, "momentum": 0.9}),
        (O.SGD, {"lr": 0.1, "foreach": True}),
        (O.SGD, {"lr": 0.1, "fused": True}),
    ):
        e = torch.nn.Embedding(4, 2, sparse=True, device="cuda")
        torch.nn.init.ones_(e.weight)
        opt = make(list(e.parameters()), **options)
        e(torch.tensor([1, 1, 2], device="cuda")).sum().backward()
        out.append([make.__name__, raises(opt.step), numbers(e.weight)])
    return out


@probe()
def lists_of_tensors() -> Any:
    xs = [ramp(3), ramp(2)]
    ys = [x + 1 for x in xs]
    f = torch
    return [
        f._foreach_add(xs, ys),
        f._foreach_mul(xs, 2.0),
        f._foreach_norm(xs),
        f._foreach_lerp(xs, ys, 0.5),
        f._foreach_addcdiv(xs, ys, ys, 0.1),
        f._foreach_maximum(xs, ys),
        f._foreach_pow(ys, 2),
        f._foreach_add(xs, [1.0, 2.0]),
        f._foreach_sqrt(f._foreach_abs(xs)),
        f._foreach_mul(xs, torch.tensor(3.0, device="cuda")),
        raises(lambda: f._foreach_mul(xs, torch.tensor(3.0))),
        raises(lambda: f._foreach_add(xs, ys[:1])),
        raises(lambda: f._foreach_add(xs, [y.cpu() for y in ys])),
        raises(lambda: f._foreach_add([], [])),
        raises(lambda: f._foreach_add_(xs, [y[:2] for y in ys])),
        raises(lambda: f._foreach_add(xs, [y.double() for y in ys])),
        raises(lambda: f._foreach_copy_(xs, [y.cpu() for y in ys])),
        raises(lambda: f._foreach_norm([ramp(2, dtype=torch.int64)])),
        f._foreach_max(xs),
        f._foreach_clamp_min(xs, 0.0),
        raises(lambda: f._foreach_lerp(xs, ys, [0.5])),
    ]


@probe()
def fused_operators() -> Any:
    p, g = [ramp(3)], [ramp(3).flip(0)]
    m, v, s = [torch.zeros(3, device="cuda")], [torch.zeros(3, device="cuda")], [torch.tensor(1.0, device="cuda")]
    torch._fused_adamw_(
        p, g, m, v, [], s, lr=0.1, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False
    )
    q = [ramp(3)]
    torch._fused_sgd_(
        q,
        g,
        [torch.zeros(3, device="cuda")],
        weight_decay=0.0,
        momentum=0.9,
        lr=0.1,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    )
    found = torch.zeros(1, device="cuda")
    h = [torch.tensor([2.0, float("inf")], device="cuda")]
    torch._amp_foreach_non_finite_check_and_unscale_(h, found, torch.tensor([0.5], device="cuda"))
    return [
        p,
        m,
        v,
        q,
        h,
        found,
        raises(
            lambda: torch._fused_adamw_(
                p,
                [g[0].cpu()],
                m,
                v,
                [],
                s,
                lr=0.1,
                beta1=0.9,
                beta2=0.999,
                weight_decay=0.01,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )
        ),
        raises(lambda: torch._amp_foreach_non_finite_check_and_unscale_([h[0].cpu()], found, found)),
        raises(lambda: torch._amp_foreach_non_finite_check_and_unscale_(h, torch.zeros(2, device="cuda"), found)),
    ]


@probe()
def groups_and_averages() -> Any:
    net = torch.nn.Linear(2, 1, device="cuda")
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(1.0)
    avg = O.swa_utils.AveragedModel(net)
    ema = O.swa_utils.AveragedModel(net, multi_avg_fn=O.swa_utils.get_ema_multi_avg_fn(0.5))
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(3.0)
    for m in (avg, ema):
        m.update_parameters(net)
        m.update_parameters(net)
    return [
        numbers(avg.module.weight),
        numbers(ema.module.weight),
        str(avg.n_averaged.device),
        int(avg.n_averaged),
        list(every((0.1, torch.tensor(0.1)), lambda lr: O.SGD(net.parameters(), lr=lr).param_groups[0]["lr"])),
    ]
