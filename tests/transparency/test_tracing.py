"""TorchScript, torch.fx, torch.export, torch.compile and torch.func: what they make of a program."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, STOCK, child
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from .seeing import CUDA, attempt, steady

pytestmark = child(CPU, CPU.when("after dynamo").rarely(), as_in=STOCK)


_Many = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _scripted(x: torch.Tensor, n: int) -> _Many:
    y = torch.zeros(n, dtype=torch.float32, device=x.device)
    z = torch.ones_like(x).to(torch.float64).to(x.device)
    w = torch.full([n], 2.0) + torch.arange(n)
    return y, z, w, x.cpu(), x.to("cpu", non_blocking=True), x.new_zeros([2])


def test_script() -> dict[str, Any]:
    f = torch.jit.script(_scripted)
    results = [made.tolist() for made in f(torch.ones(3), 3)]
    return {"graph": steady(str(f.graph)), "results": results, "code": steady(f.code)}


class _Scriptable(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[0], 2, device=x.device)
        return self.layer(x) + mask + torch.tensor([1.0, 2.0]) + torch.rand(1).to(x) * 0


def test_script_of_a_module() -> dict[str, Any]:
    model = torch.jit.script(_Scriptable().to(CUDA))
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer, map_location=CUDA)
    x = torch.ones(2, 3, device=CUDA)
    return {"code": steady(model.code), "saved and loaded": torch.equal(loaded(x), model(x))}


def test_trace() -> dict[str, Any]:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.to(CUDA) + torch.zeros(3, device=CUDA) + torch.ones_like(x) + x.new_full((3,), 2.0)

    traced = torch.jit.trace(f, torch.ones(3, device=CUDA))
    kinds = [node.kind() for node in traced.graph.nodes() if "prim" not in node.kind()]
    return {"kinds": kinds, "result": traced(torch.ones(3, device=CUDA)).tolist()}


# -------------------------------------------------------------------------- torch.fx
class _Traced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x) + x.to("cpu").to(torch.float32)
        return y + torch.zeros(2) + torch.full_like(x, 2.0) + x.new_ones(2) + x.cpu()


def test_symbolic_trace() -> dict[str, Any]:
    traced = torch.fx.symbolic_trace(_Traced())
    targets = [[n.op, n.target if isinstance(n.target, str) else n.target.__name__] for n in traced.graph.nodes]
    twin = copy.deepcopy(traced)
    x = torch.ones(2)
    same = [node.target is torch.zeros_like for node in traced.graph.nodes if node.name == "zeros_like"]
    return {
        "code": traced.code,
        "targets": targets,
        "result": traced(x).tolist(),
        "result of a copy": twin(x).tolist(),
        "the function itself": same,
    }


def test_symbolic_trace_with_a_device() -> dict[str, Any]:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.to(device=CUDA) + torch.ones_like(x, device=CUDA) + x.to(CUDA, torch.float32)

    traced = torch.fx.symbolic_trace(f)
    return {"code": steady(traced.code), "result": traced(torch.ones(2)).tolist()}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str) -> dict[str, Any]:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x) + torch.ones(3, device=CUDA) + x.new_full((3,), 2.0) + torch.arange(3, device=CUDA)

    traced = make_fx(f, tracing_mode=mode)(torch.ones(3, device=CUDA))
    return {"code": steady(traced.code), "result": traced(torch.ones(3)).tolist()}


class _Exported(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + torch.zeros(3, device=x.device) + torch.ones(3, device=CUDA) + torch.zeros_like(x)


def test_export() -> dict[str, Any]:
    model = _Exported().to(CUDA)
    x = torch.ones(2, 3, device=CUDA)
    exported = torch.export.export(model, (x,))
    strict = torch.export.export(model, (x,), strict=True)
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    return {
        "calls": [str(n.target) for n in exported.graph.nodes if n.op == "call_function"],
        "calls, strictly": [str(n.target) for n in strict.graph.nodes if n.op == "call_function"],
        "result": torch.equal(exported.module()(x), model(x)),
        "saved and loaded": torch.equal(loaded.module()(x), model(x)),
    }


# ---------------------------------------------------------------------- torch.compile
def _with_factory(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + torch.zeros(3, device=CUDA)


def _with_factory_keywords(x: torch.Tensor) -> torch.Tensor:
    return x + torch.full((3,), 2.0, dtype=torch.float32, device=torch.device(CUDA))


def _with_to(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).to(CUDA) + 1


def _with_to_keyword(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).to(device=CUDA, dtype=torch.float64, non_blocking=True) + 1


def _with_to_dtype(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).to(torch.float64) + 1


def _with_cuda(x: torch.Tensor) -> torch.Tensor:
    return (x.cuda() if CUDA == "cuda" else x.cpu()) * 2


def _with_cpu(x: torch.Tensor) -> torch.Tensor:
    return x.cpu() * 2


def _with_rand(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(3, device=CUDA) * 0


def _with_like(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones_like(x) + torch.zeros_like(x, device=CUDA) + torch.randn_like(x) * 0


def _with_new(x: torch.Tensor) -> torch.Tensor:
    return x + x.new_ones(3) + x.new_zeros(3, device=CUDA) + x.new_full((3,), 2.0)


def _with_tensor(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([1.0, 2.0, 3.0], device=CUDA) + torch.as_tensor([1.0], device=CUDA)


def _with_no_device(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros(3) + torch.arange(3) + torch.eye(3)[0] + torch.linspace(0, 1, 3)


def _with_questions(x: torch.Tensor) -> torch.Tensor:
    if torch.cuda.is_available() == (CUDA == "cuda") and torch.is_autocast_enabled() is False:
        return x + 1
    return x


def _with_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast(CUDA, dtype=torch.bfloat16):
        return torch.outer(x, x) @ torch.outer(x, x)


def _with_device_of_tensor(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros(x.shape, dtype=x.dtype, device=x.device)


COMPILED = {name.removeprefix("_with_"): f for name, f in list(globals().items()) if name.startswith("_with_")}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str, backend: str) -> dict[str, Any]:
    f = COMPILED[name]
    torch._dynamo.reset()
    x = torch.arange(3.0, device=CUDA)
    broken = torch._dynamo.explain(f)(x)
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend=backend)
    first = compiled(x)
    torch._dynamo.utils.counters.clear()
    second = compiled(x + 0)
    return {
        "graph breaks": broken.graph_break_count,
        "graphs": broken.graph_count,
        "result": first.tolist(),
        "dtype": str(first.dtype),
        "the same again": torch.equal(second, first),
        # Another one would mean a guard that fails.
        "compilations": sum(torch._dynamo.utils.counters["frames"].values()),
    }


def test_a_device_context_is_refused_as_ever() -> str:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.device(CUDA):
            return x + torch.zeros(3)

    torch._dynamo.reset()
    return attempt(lambda: torch.compile(f, fullgraph=True, backend="eager")(torch.arange(3.0, device=CUDA)))


def test_a_training_step() -> list[float]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0), torch.nn.Linear(4, 1)).to(CUDA)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compiled(torch.ones(2, 4, device=CUDA)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 6))
    return losses


def test_the_graph_names_the_functions() -> list[Any]:
    torch._dynamo.reset()
    targets = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        targets.extend([n.op, n.target if isinstance(n.target, str) else n.target.__name__] for n in graph.graph.nodes)
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(3, device=CUDA) + torch.ones_like(x) + x.to(torch.float64)

    torch.compile(f, backend=backend, fullgraph=True)(torch.ones(3, device=CUDA))
    return targets


def test_uncompiled_functions() -> list[float]:
    torch._dynamo.reset()

    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x.to(CUDA) + torch.zeros(3, device=CUDA)

    f = torch.compile(lambda x: outside(x * 2) + 1, backend="eager")
    return f(torch.ones(3, device=CUDA)).tolist()


# ------------------------------------------------------------------------- torch.func
def test_vmap() -> dict[str, Any]:
    x = torch.arange(6.0, device=CUDA).reshape(2, 3)
    plain = torch.func.vmap(lambda r: torch.zeros_like(r) + r.to(CUDA) + torch.ones(3, device=CUDA) + r.new_ones(3))
    random = torch.func.vmap(lambda r: torch.rand(3, device=CUDA) * 0 + r, randomness="different")
    refused = attempt(lambda: torch.func.vmap(lambda r: r + torch.rand(3, device=CUDA))(x))
    return {"plain": plain(x).tolist(), "random": random(x).tolist(), "refused": refused[:60]}


def test_derivatives() -> dict[str, Any]:
    x = torch.ones(3, device=CUDA)
    first = torch.func.grad(lambda t: (t.to(CUDA) * torch.full_like(t, 3.0)).sum())(x)
    jac = torch.func.jacrev(lambda t: t.to(CUDA, torch.float64) * 2)(x)
    tangent = torch.func.jvp(lambda t: t.to(CUDA) * 2, (x,), (torch.ones_like(x),))[1]
    return {"grad": first.tolist(), "jacrev": jac.tolist(), "jvp": tangent.tolist()}


def test_autograd_through_moves() -> dict[str, Any]:
    x = torch.ones(3, device=CUDA, requires_grad=True)
    (x.to(CUDA).cpu().to(CUDA, torch.float64) * 2).sum().backward()
    return {"grad": x.grad.tolist(), "dtype": str(x.grad.dtype), "a leaf": x.is_leaf, "stays": x.to(CUDA) is x}


FAKES: dict[str, Callable[[], torch.Tensor]] = {
    "zeros on CUDA": lambda: torch.zeros(3, device=CUDA),
    "zeros": lambda: torch.zeros(3),
    "zeros, moved": lambda: torch.zeros(3).to(CUDA),
    "rand": lambda: torch.rand(3, device=CUDA),
    "ones_like": lambda: torch.ones_like(torch.empty(2, device=CUDA)),
    "tensor": lambda: torch.tensor([1.0, 2.0], device=CUDA),
    "larger than memory": lambda: torch.empty(10**13, device=CUDA),
    "to the CPU": lambda: torch.zeros(3, device=CUDA).cpu(),
    "of a module": lambda: torch.nn.Linear(4, 4, device=CUDA)(torch.ones(1, 4, device=CUDA)),
}


def _described(made: torch.Tensor) -> list[Any]:
    return [type(made) is FakeTensor, list(made.shape), steady(str(made.device)), str(made.dtype)]


@pytest.mark.parametrize("name", FAKES)
def test_fake_tensors(name: str) -> list[Any]:
    with FakeTensorMode():
        return _described(FAKES[name]())


def test_fakes_of_real_tensors() -> list[Any]:
    return _described(FakeTensorMode().from_tensor(torch.ones(2, device=CUDA)))


def test_meta_tensors() -> dict[str, Any]:
    with torch.device("meta"):
        model = torch.nn.Linear(3, 3)
        made = [torch.zeros(2), torch.rand(2), torch.tensor([1.0]), torch.arange(3), torch.zeros(2, device="cpu")]
    made += [torch.zeros(2, device="meta"), torch.zeros(2).to("meta"), torch.ones_like(made[0]), made[0].to("meta")]
    made += [model.weight, torch.zeros_like(torch.ones(2), device="meta"), torch.ones(1).new_zeros(2, device="meta")]
    refused = attempt(lambda: torch.zeros(2, device="meta").to(CUDA))
    filled = model.to_empty(device=CUDA)
    return {
        "devices": [str(one.device) for one in made],
        "to_empty": steady(str(filled.weight.device)),
        "refused": refused,
    }
