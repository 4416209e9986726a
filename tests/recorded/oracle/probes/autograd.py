"""Gradients on the device: graphs, hooks, checks, functional transforms."""

from __future__ import annotations

import threading
from typing import Any

import torch

from recorded.oracle.probing import numbers, probe, raises, ramp, warned


@probe()
def leaves_and_names() -> Any:
    x = ramp(3).requires_grad_()
    cpu = torch.ones(3, requires_grad=True)
    y = cpu.cuda()
    return [
        x.is_leaf,
        y.is_leaf,
        y.grad_fn.name(),
        (y * 2).cpu().grad_fn.name(),
        (x.half()).grad_fn.name(),
        torch.ones(2, device="cuda", requires_grad=True).is_leaf,
        raises(lambda: ramp(3, dtype=torch.int64).requires_grad_()),
        y.grad is None,
        (x @ x).grad_fn.name(),
        x.sum().grad_fn.name(),
        torch.nn.functional.conv2d(ramp(1, 1, 2, 2), ramp(1, 1, 1, 1).requires_grad_()).grad_fn.name(),
        torch.nn.functional.batch_norm(ramp(2, 2), None, None, x[:2], training=True).grad_fn.name(),
        torch.nn.functional.dropout(x).grad_fn.name(),
        torch.nn.LSTM(3, 2, device="cuda")(ramp(1, 1, 3))[0].grad_fn.name(),
        torch.nn.functional.ctc_loss(
            ramp(4, 1, 3).requires_grad_().log_softmax(2),
            torch.ones(1, 1, dtype=torch.long, device="cuda"),
            (4,),
            (1,),
            reduction="sum",
        ).grad_fn.name(),
        torch.nn.functional.scaled_dot_product_attention(*[ramp(1, 1, 2, 8).requires_grad_()] * 3).grad_fn.name(),
        torch.nn.GRUCell(3, 2, device="cuda")(ramp(1, 3)).grad_fn.name(),
    ]


@probe()
def errors() -> Any:
    x = ramp(3).requires_grad_()
    y = (x * x).sum()
    y.backward()
    z = x * 2
    z2 = (z * z).sum()
    with torch.no_grad():
        z.add_(1)
    return [
        raises(y.backward),
        raises(z2.backward),
        raises((x * 2).backward),
        raises(lambda: ramp(3).sum().backward()),
        raises(lambda: x.add_(1)),
        raises(lambda: torch.autograd.grad(ramp(2).requires_grad_().sum(), x)),
        raises(lambda: (x * 2).backward(torch.ones(2, device="cuda"))),
        raises(lambda: (x * 2).backward(torch.ones(3))),
        raises(lambda: setattr(x, "grad", torch.ones(3))),
        raises(lambda: setattr(x, "grad", torch.ones(2, device="cuda"))),
        raises(lambda: setattr(x, "grad", torch.ones(3, device="cuda").double())),
        raises(lambda: setattr(x, "data", torch.ones(2))),
        x.device,
    ]


@probe()
def gradients_across_devices() -> Any:
    a = torch.ones(2, requires_grad=True)
    b = torch.ones(2, device="cuda", requires_grad=True)
    (a.cuda() * b).sum().backward()
    (a * b.cpu()).sum().backward()
    return [a.grad, b.grad]


@probe()
def anomalies() -> Any:
    x = torch.zeros(2, device="cuda", requires_grad=True)

    def work() -> None:
        with torch.autograd.detect_anomaly(check_nan=True):
            (x / x).sum().backward()

    first = warned(lambda: raises(work))
    return [first[0], [w[0] for w in first[1]]]


@probe()
def hooks() -> Any:
    x = ramp(3).requires_grad_()
    seen: list[Any] = []
    y = x * 2
    y.register_hook(lambda g: seen.append(["y", str(g.device)]))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(["x", str(p.grad.device)]))
    y.grad_fn.register_hook(lambda a, b: seen.append(["node", len(a), len(b)]))
    m = torch.nn.Linear(3, 1, device="cuda")
    m.register_full_backward_hook(lambda *a: seen.append(["module", str(a[2][0].device)]))
    m(y).sum().backward()
    return seen


@probe()
def threads_of_the_engine() -> Any:
    me = threading.get_ident()
    seen: list[Any] = []

    class Where(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(
                [threading.get_ident() == me, torch.cuda.current_device(), str(g.device), torch.is_grad_enabled()]
            )
            return g

    Where.apply(torch.ones(1, device="cuda", requires_grad=True)).backward()
    Where.apply(torch.ones(1, requires_grad=True)).backward()
    return seen


@probe()
def saved_tensors() -> Any:
    seen: list[Any] = []
    x = ramp(3).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (seen.append(str(t.device)), t.cpu())[1], lambda t: t.cuda()
    ):
        y = (x * x).exp().sum()
    y.backward()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        z = (x * x).sum()
    z.backward()
    return [seen, x.grad]


@probe()
def second_derivatives() -> Any:
    x = ramp(3).double().requires_grad_()
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return [
        x.grad,
        torch.autograd.functional.jacobian(lambda v: v * v, x),
        torch.autograd.functional.hessian(lambda v: (v**3).sum(), x),
        torch.autograd.gradcheck(lambda v: (v * v).sin(), x.clone().detach().requires_grad_()),
        torch.autograd.gradgradcheck(lambda v: v**3, x.clone().detach().requires_grad_()),
    ]


@probe()
def functional_transforms() -> Any:
    f = torch.func
    x = ramp(3, 2)
    w = ramp(2)
    return [
        f.grad(lambda v: (v**2).sum())(x),
        f.vmap(torch.dot, (0, None))(x, w),
        f.jacrev(torch.sin)(w),
        f.jacfwd(torch.sin)(w),
        f.vjp(torch.sin, w)[1](w),
        f.jvp(torch.sin, (w,), (w,)),
        f.hessian(lambda v: (v**3).sum())(w),
        raises(lambda: f.vmap(lambda v: v.sum().item())(x)),
        raises(lambda: f.vmap(torch.rand_like)(x)),
        f.vmap(lambda v: torch.rand_like(v), randomness="same")(x).shape,
        f.functional_call(
            torch.nn.Linear(2, 1, device="cuda"), {"weight": w[None], "bias": torch.zeros(1, device="cuda")}, (x,)
        ),
        f.linearize(torch.sin, w)[1](w),
    ]


@probe()
def custom_functions() -> Any:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.mark_non_differentiable()
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.cpu() if g.numel() == 1 else torch.ones(5, device="cuda")

    a = torch.ones(1, device="cuda", requires_grad=True)
    b = torch.ones(2, device="cuda", requires_grad=True)
    return [
        raises(lambda: Twice.apply(a).sum().backward()),
        raises(lambda: Twice.apply(b).sum().backward()),
    ]


@probe()
def accumulation() -> Any:
    x = ramp(3).requires_grad_()
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    same = x.grad is first
    x.grad.zero_()
    (x * ramp(3)).sum().backward(inputs=[x])
    return [
        same,
        x.grad,
        torch.autograd.grad((x * 2).sum(), [x, ramp(1).requires_grad_()], allow_unused=True)[1],
        torch.autograd.grad((x * 2).sum(), x, is_grads_batched=False)[0],
        torch.autograd.grad(x * 2, x, torch.ones(2, 3, device="cuda"), is_grads_batched=True)[0],
    ]


@probe()
def checkpoints() -> Any:
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    x = ramp(4).requires_grad_()
    torch.cuda.manual_seed(3)
    y = checkpoint(lambda v: torch.nn.functional.dropout(v * 2, 0.5), x, use_reentrant=False)
    y.sum().backward()
    ok = torch.equal(x.grad != 0, y != 0)
    z = checkpoint(lambda v: v * 3, x, use_reentrant=True)
    z.sum().backward()
    net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(4)]).cuda()
    out = checkpoint_sequential(net, 2, x, use_reentrant=False)
    return [ok, x.grad.shape, out.shape, raises(lambda: checkpoint(lambda v: v, x, use_reentrant=False, bogus=1))]


@probe()
def forward_mode() -> Any:
    import torch.autograd.forward_ad as fw

    x, t = ramp(3), ramp(3).flip(0)
    with fw.dual_level():
        d = fw.make_dual(x, t)
        y = (d * d).sin()
        out = fw.unpack_dual(y)
        return [
            out.primal,
            out.tangent,
            raises(lambda: fw.make_dual(x, t.cpu())),
            raises(lambda: fw.make_dual(x, t.double())),
        ]


@probe()
def modes() -> Any:
    x = ramp(2).requires_grad_()
    with torch.inference_mode():
        y = x * 2
        inside = [y.is_inference(), y.requires_grad, str(y.device)]
    with torch.no_grad():
        z = x * 2
    return [
        inside,
        raises(lambda: y.add_(1)),
        raises(lambda: (y * x).sum().backward()),
        z.requires_grad,
        raises(lambda: y.requires_grad_()),
        raises(lambda: x.detach().add_(1)),
        raises(lambda: y.clone().requires_grad_().sum().backward()),
    ]


@probe()
def profiles_and_multithreading() -> Any:
    out: list[Any] = []

    def work() -> None:
        x = ramp(3).requires_grad_()
        (x * x).sum().backward()
        out.append(numbers(x.grad))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with torch.autograd.set_multithreading_enabled(False):
        work()
    return out
