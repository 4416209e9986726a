"""torch.compile, export and TorchScript with tensors on the device; without a compiler of kernels."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import about, kind, numbers, probe, raises, ramp

BACKENDS = ("eager", "aot_eager")


@probe()
def functions() -> Any:
    out = []
    for backend in BACKENDS:
        f = torch.compile(lambda x: (x * 2).sin().sum(), backend=backend, fullgraph=True)
        x = ramp(4).requires_grad_()
        y = f(x)
        y.backward()
        out.append([y, x.grad])
    return out


@probe()
def modules_trained() -> Any:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).cuda()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(ramp(*p.shape) / 8)
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    step = torch.compile(net, backend="aot_eager")
    losses = []
    for _ in range(3):
        opt.zero_grad()
        loss = (step(ramp(5, 3)) ** 2).mean()
        loss.backward()
        opt.step()
        losses.append(float(loss))
    return losses


@probe()
def devices_in_graphs() -> Any:
    def f(x: Any) -> Any:
        y = torch.ones(3, device="cuda") + x.to("cuda")
        if y.is_cuda and torch.cuda.is_available():
            y = y + torch.zeros(3, device=y.device)
        return y.cpu(), torch.cuda.device_count() > 0, str(y.device)

    return [raises(lambda b=b: torch.compile(f, backend=b, fullgraph=True)(torch.ones(3))) for b in BACKENDS]


@probe()
def breaks_of_graphs() -> Any:
    import torch._dynamo as dynamo

    def f(x: Any) -> Any:
        y = x + 1
        if y.sum().item() > 0:
            y = y * 2
        torch.cuda.synchronize()
        return y

    e = dynamo.explain(f)(ramp(3))
    dynamo.reset()
    return [
        e.graph_count,
        e.graph_break_count,
        kind(lambda: torch.compile(f, backend="eager", fullgraph=True)(ramp(3))),
    ]


@probe()
def streams_in_graphs() -> Any:
    s = torch.cuda.Stream()

    def f(x: Any) -> Any:
        with torch.cuda.stream(s):
            y = x * 2
        torch.cuda.current_stream().wait_stream(s)
        return y + 1

    return [raises(lambda: torch.compile(f, backend="eager")(ramp(3)))]


@probe()
def random_numbers_in_graphs() -> Any:
    f = torch.compile(lambda: torch.rand(3, device="cuda"), backend="aot_eager")
    g = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="aot_eager")
    torch.cuda.manual_seed(3)
    a = f()
    b = g(torch.ones(8, device="cuda"))
    return [a, b]


@probe()
def autocast_in_graphs() -> Any:
    @torch.compile(backend="aot_eager", fullgraph=True)
    def f(x: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return x @ x

    with torch.autocast("cuda"):
        outer = torch.compile(lambda x: x @ x, backend="eager")(ramp(4, 4))
    return [about(f(ramp(4, 4))), about(outer)]


@probe()
def errors_in_graphs() -> Any:
    f = torch.compile(lambda a, b: a @ b, backend="eager", fullgraph=True)
    return [
        kind(lambda: f(ramp(2, 3), ramp(2, 3))),
        kind(lambda: f(ramp(2, 2), torch.ones(2, 2))),
        kind(lambda: torch.compile(lambda x: x + 1, backend="bogus")(ramp(1))),
        sorted(torch._dynamo.list_backends()),
    ]


@probe()
def fake_tensors() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.ones(3, 4, device="cuda")
        y = x.t() @ x
        z = torch.nn.functional.conv2d(torch.ones(1, 2, 4, 4, device="cuda"), torch.ones(2, 2, 3, 3, device="cuda"))
        out = [
            repr(y),
            str(z.device),
            raises(lambda: x + torch.ones(3, 4)),
            raises(lambda: x.sum().item()),
            about(torch.linalg.svd(x)[0]),
            about(torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 8, device="cuda")] * 3)),
            str((x + torch.tensor(1.0)).device),
            str(x.cpu().device),
        ]
    return [*out, repr(mode.from_tensor(ramp(2)))]


@probe()
def traces_of_fx() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    g = make_fx(lambda x: torch.nn.functional.softmax(x.to("cuda") @ torch.ones(3, 2, device="cuda"), 1))(ramp(2, 3))
    return [
        [str(n.target) for n in g.graph.nodes],
        [str(n.kwargs.get("device")) for n in g.graph.nodes if "device" in n.kwargs],
        numbers(g(ramp(2, 3)).sum(1)),
    ]


@probe()
def exports() -> Any:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(ramp(3))

        def forward(self, x: Any) -> Any:
            return (x * self.w + torch.arange(3, device=x.device)).relu()

    p = torch.export.export(Net(), (ramp(2, 3),))
    return [
        [str(n.target) for n in p.graph.nodes],
        [str(n.kwargs["device"]) for n in p.graph.nodes if "device" in n.kwargs],
        p.module()(ramp(2, 3)),
    ]


@probe()
def scripts() -> Any:
    @torch.jit.script
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros([2], device=torch.device("cuda"))
        if x.is_cuda:
            y = y + x.to("cuda")
        return y.cuda() + torch.rand([2], device=x.device) * 0.0

    @torch.jit.script
    def g(n: int) -> torch.Tensor:
        return torch.ones([n], device="cuda:0", dtype=torch.half)

    return [f(ramp(2)), g(2), raises(lambda: f(torch.ones(2)))]


@probe()
def custom_operators() -> Any:
    @torch.library.custom_op("oracle::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op("oracle::only_cpu", mutates_args=(), device_types="cpu")
    def only(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op("oracle::only_cuda", mutates_args=(), device_types="cuda")
    def there(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    lib = torch.library.Library("oracle", "FRAGMENT")
    lib.define("low(Tensor x) -> Tensor")
    lib.impl("low", lambda x: x + 5, "CUDA")
    return [
        twice(ramp(2)),
        raises(lambda: only(ramp(2))),
        there(ramp(2)),
        raises(lambda: there(torch.ones(2))),
        torch.ops.oracle.low(ramp(2)),
        raises(lambda: torch.ops.oracle.low(torch.ones(2))),
        raises(lambda: torch.ops.oracle.twice(3)),
        kind(lambda: torch.library.opcheck(twice, (ramp(2),)) and None),
    ]


@probe()
def dispatching() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class See(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = ramp(4, 4)
    with See():
        torch.ones(2).cuda()
        x.to(torch.float16)
        torch.nn.functional.layer_norm(x, (4,))
        torch.nn.functional.scaled_dot_product_attention(*[x[None, None]] * 3)
        torch.nn.functional.conv2d(x[None, None], x[None, None])
        x.cpu()
        x.sum().item()
        torch.nn.functional.linear(x, x, x[0])
        torch.nn.functional.batch_norm(x, None, None, training=True)
        torch.nn.functional.dropout(x)
        torch.svd(x)
        torch.nn.functional.cross_entropy(x, torch.zeros(4, dtype=torch.long, device="cuda"))
        x.pin_memory() if False else None
        torch.full((2,), 1.0, device="cuda")
        torch.tensor([1.0], device="cuda")
        x[x > 0]
        torch.matmul(x[None], x)
    return seen


@probe()
def keys_of_dispatch() -> Any:
    x = ramp(2)
    keys = torch._C._dispatch_keys
    return [
        str(keys(x)),
        str(keys(x.to_sparse())),
        str(keys(x[None].to_sparse_csr())),
        str(keys(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8))),
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", "CUDA"),
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", "CUDA"),
        torch._C._dispatch_key_name(torch._C._parse_dispatch_key("CUDA")),
        str(torch._C._dispatch_key_for_device("cuda")),
    ]
