"""What a program can observe besides where tensors live: must be the same under stock torch and while active.

Each case returns what it saw. ``CUDA`` is the device a program names: CUDA where there is one, else the CPU, which is
where stock torch computes the truth for the ``cpu`` driver.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import io
import pickle
import pydoc
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CUDA = "cuda" if torch.cuda.is_available() else "cpu"
FACTORIES = (
    "arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye "
    "frombuffer from_file from_numpy full full_like hamming_window hann_window kaiser_window linspace logspace normal "
    "ones ones_like rand rand_like randint randint_like randn randn_like randperm range scalar_tensor "
    "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
    "sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like"
).split()
METHODS = (
    "cpu cuda is_pinned new_empty new_empty_strided new_full new_ones new_tensor new_zeros numpy pin_memory "
    "record_stream to type"
).split()


def functions() -> dict[str, Any]:
    """Everything of torch that translation stands in front of and a program may hold."""
    found = {f"torch.{name}": getattr(torch, name) for name in FACTORIES}
    found |= {f"Tensor.{name}": getattr(torch.Tensor, name) for name in METHODS}
    found |= {f"fft.{name}": getattr(torch.fft, name) for name in ("fftfreq", "rfftfreq")}
    for name in ("to", "cuda", "cpu", "to_empty"):
        found[f"Module.{name}"] = getattr(torch.nn.Module, name)
    for name in (
        "load save set_default_device set_default_tensor_type get_autocast_dtype is_autocast_enabled "
        "set_autocast_enabled set_autocast_dtype get_rng_state manual_seed"
    ).split():
        found[f"torch.{name}"] = getattr(torch, name)
    found["GradScaler"] = torch.amp.GradScaler
    found["DataParallel"] = torch.nn.DataParallel
    found["nested.nested_tensor"] = torch.nested.nested_tensor
    return found


def steady(text: str) -> str:
    """A text without addresses, and with the device called by one name."""
    return re.sub(r"0x[0-9a-f]+", "0x", text).replace("cuda", "cpu")


def attempt(action: Any) -> str:
    """What an action gives, or the error it raises."""
    try:
        return steady(str(action()))
    except Exception as error:
        return steady(f"{type(error).__name__}: {error}")


def case_signatures() -> dict[str, str]:
    return {name: attempt(lambda f=f: inspect.signature(f)) for name, f in functions().items()}


def case_names() -> dict[str, list[Any]]:
    # Builtins of torch say that they belong to no module; what a program may build on is that pickle finds them.
    return {name: [f.__name__, f.__doc__, callable(f)] for name, f in functions().items()}


def case_qualified_names() -> dict[str, list[Any]]:
    # Functions of C are pickled in another way than Python's: their qualified names are where pickle must find them.
    in_python = {name: f for name, f in functions().items() if name.split(".")[0] in ("Module", "GradScaler", "nested")}
    return {name: [f.__module__, f.__qualname__] for name, f in in_python.items()}


def case_help_shows_the_documentation() -> dict[str, bool]:
    return {name: (f.__doc__ or "").strip()[:40] in pydoc.render_doc(f) for name, f in functions().items()}


def case_help_of_classes() -> list[bool]:
    return [word in pydoc.render_doc(torch.Generator) for word in ("manual_seed", "get_state")]


def case_pickled_functions_come_back() -> dict[str, str]:
    seen = {}
    for name, f in functions().items():
        seen[name] = attempt(lambda f=f: pickle.loads(pickle.dumps(f)) is f)
    return seen


def case_copies_of_functions_are_the_function() -> dict[str, bool]:
    return {name: copy.deepcopy(f) is f and copy.copy(f) is f for name, f in functions().items()}


def case_deepcopy_of_tensors_and_modules() -> list[Any]:
    x = torch.ones(2, device=CUDA, requires_grad=True)
    twin = copy.deepcopy(x)
    model = torch.nn.Linear(2, 2).to(CUDA)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.weight.zero_()
    return [twin is x, twin.requires_grad, twin.tolist(), bool(model.weight.abs().sum() > 0), x.__dict__ == {}]


def case_pickled_tensors_have_the_same_bytes() -> list[Any]:
    x = torch.arange(4.0).to(CUDA)
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    return [len(pickle.dumps(x)), pickle.loads(pickle.dumps(x)).tolist(), loaded.tolist(), vars(x)]


# ------------------------------------------------------------------------ TorchScript
def _scripted(x: torch.Tensor, n: int):
    y = torch.zeros(n, dtype=torch.float32, device=x.device)
    z = torch.ones_like(x).to(torch.float64).to(x.device)
    w = torch.full([n], 2.0) + torch.arange(n)
    return y, z, w, x.cpu(), x.to("cpu", non_blocking=True), x.new_zeros([2])


def case_script() -> list[Any]:
    f = torch.jit.script(_scripted)
    return [steady(str(f.graph)), [t.tolist() for t in f(torch.ones(3), 3)], steady(f.code)]


class _Scriptable(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[0], 2, device=x.device)
        return self.layer(x) + mask + torch.tensor([1.0, 2.0]) + torch.rand(1).to(x) * 0


def case_script_of_a_module() -> list[Any]:
    model = torch.jit.script(_Scriptable().to(CUDA))
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer, map_location=CUDA)
    x = torch.ones(2, 3, device=CUDA)
    return [steady(model.code), torch.equal(loaded(x), model(x))]


def case_trace() -> list[Any]:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.to(CUDA) + torch.zeros(3, device=CUDA) + torch.ones_like(x) + x.new_full((3,), 2.0)

    traced = torch.jit.trace(f, torch.ones(3, device=CUDA))
    kinds = [node.kind() for node in traced.graph.nodes() if "prim" not in node.kind()]
    return [kinds, traced(torch.ones(3, device=CUDA)).tolist()]


# -------------------------------------------------------------------------- torch.fx
class _Traced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x) + x.to("cpu").to(torch.float32)
        return y + torch.zeros(2) + torch.full_like(x, 2.0) + x.new_ones(2) + x.cpu()


def case_symbolic_trace() -> list[Any]:
    traced = torch.fx.symbolic_trace(_Traced())
    targets = [[n.op, n.target if isinstance(n.target, str) else n.target.__name__] for n in traced.graph.nodes]
    twin = copy.deepcopy(traced)
    x = torch.ones(2)
    same = [node.target is torch.zeros_like for node in traced.graph.nodes if node.name == "zeros_like"]
    return [traced.code, targets, traced(x).tolist(), twin(x).tolist(), same]


def case_symbolic_trace_with_a_device() -> list[Any]:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.to(device=CUDA) + torch.ones_like(x, device=CUDA) + x.to(CUDA, torch.float32)

    traced = torch.fx.symbolic_trace(f)
    return [steady(traced.code), traced(torch.ones(2)).tolist()]


def case_make_fx() -> list[Any]:
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x) + torch.ones(3, device=CUDA) + x.new_full((3,), 2.0) + torch.arange(3, device=CUDA)

    seen = []
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(f, tracing_mode=mode)(torch.ones(3, device=CUDA))
        seen += [steady(traced.code), traced(torch.ones(3)).tolist()]
    return seen


class _Exported(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + torch.zeros(3, device=x.device) + torch.ones(3, device=CUDA) + torch.zeros_like(x)


def case_export() -> list[Any]:
    model = _Exported().to(CUDA)
    x = torch.ones(2, 3, device=CUDA)
    exported = torch.export.export(model, (x,))
    strict = torch.export.export(model, (x,), strict=True)
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    return [
        [str(n.target) for n in exported.graph.nodes if n.op == "call_function"],
        [str(n.target) for n in strict.graph.nodes if n.op == "call_function"],
        torch.equal(exported.module()(x), model(x)),
        torch.equal(loaded.module()(x), model(x)),
    ]


# --------------------------------------------------------------------- torch.compile
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


def _with_context(x: torch.Tensor) -> torch.Tensor:
    with torch.device(CUDA):
        return x + torch.zeros(3)


COMPILED = [f for name, f in list(globals().items()) if name.startswith("_with_")]


def _compile(f: Any, backend: str) -> list[Any]:
    importlib.import_module("torch._dynamo")
    torch._dynamo.reset()
    x = torch.arange(3.0, device=CUDA)
    broken = torch._dynamo.explain(f)(x)
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend=backend)
    first = compiled(x)
    torch._dynamo.utils.counters.clear()
    second = compiled(x + 0)
    again = sum(torch._dynamo.utils.counters["frames"].values())  # another compilation would mean a guard that fails
    return [
        [broken.graph_break_count, broken.graph_count],
        first.tolist(),
        str(first.dtype),
        torch.equal(second, first),
        again,
    ]


def case_compile_eager() -> dict[str, Any]:
    return {f.__name__: attempt(lambda f=f: _compile(f, "eager")) for f in COMPILED}


def case_compile_aot_eager() -> dict[str, Any]:
    return {f.__name__: attempt(lambda f=f: _compile(f, "aot_eager")) for f in COMPILED}


def case_compile_a_training_step() -> list[Any]:
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


def case_compiled_graph_names_the_functions() -> list[Any]:
    torch._dynamo.reset()
    targets = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        targets.extend([n.op, n.target if isinstance(n.target, str) else n.target.__name__] for n in graph.graph.nodes)
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(3, device=CUDA) + torch.ones_like(x) + x.to(torch.float64)

    torch.compile(f, backend=backend, fullgraph=True)(torch.ones(3, device=CUDA))
    return targets


def case_allow_in_graph_and_disable() -> list[Any]:
    torch._dynamo.reset()

    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x.to(CUDA) + torch.zeros(3, device=CUDA)

    f = torch.compile(lambda x: outside(x * 2) + 1, backend="eager")
    return f(torch.ones(3, device=CUDA)).tolist()


# ------------------------------------------------------------------------- torch.func
def case_vmap() -> list[Any]:
    x = torch.arange(6.0, device=CUDA).reshape(2, 3)
    plain = torch.func.vmap(lambda r: torch.zeros_like(r) + r.to(CUDA) + torch.ones(3, device=CUDA) + r.new_ones(3))
    random = torch.func.vmap(lambda r: torch.rand(3, device=CUDA) * 0 + r, randomness="different")
    refused = attempt(lambda: torch.func.vmap(lambda r: r + torch.rand(3, device=CUDA))(x))
    return [plain(x).tolist(), random(x).tolist(), refused[:60]]


def case_grad_and_functional_call() -> list[Any]:
    x = torch.ones(3, device=CUDA)
    first = torch.func.grad(lambda t: (t.to(CUDA) * torch.full_like(t, 3.0)).sum())(x)
    jac = torch.func.jacrev(lambda t: t.to(CUDA, torch.float64) * 2)(x)
    tangent = torch.func.jvp(lambda t: t.to(CUDA) * 2, (x,), (torch.ones_like(x),))[1]
    return [first.tolist(), jac.tolist(), tangent.tolist()]


def case_autograd_through_moves() -> list[Any]:
    x = torch.ones(3, device=CUDA, requires_grad=True)
    (x.to(CUDA).cpu().to(CUDA, torch.float64) * 2).sum().backward()
    return [x.grad.tolist(), str(x.grad.dtype), x.is_leaf, x.to(CUDA) is x]


def case_fake_tensors() -> list[Any]:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode() as mode:
        made = [
            torch.zeros(3, device=CUDA),
            torch.zeros(3),
            torch.zeros(3).to(CUDA),
            torch.rand(3, device=CUDA),
            torch.ones_like(torch.empty(2, device=CUDA)),
            torch.tensor([1.0, 2.0], device=CUDA),
            torch.empty(10**13, device=CUDA),
            torch.zeros(3, device=CUDA).cpu(),
        ]
        model = torch.nn.Linear(4, 4, device=CUDA)
        made.append(model(torch.ones(1, 4, device=CUDA)))
    real = torch.ones(2, device=CUDA)
    made.append(mode.from_tensor(real))
    return [[type(t) is FakeTensor, list(t.shape), steady(str(t.device)), str(t.dtype)] for t in made]


def case_meta_tensors() -> list[Any]:
    with torch.device("meta"):
        model = torch.nn.Linear(3, 3)
        made = [torch.zeros(2), torch.rand(2), torch.tensor([1.0]), torch.arange(3), torch.zeros(2, device="cpu")]
    made += [torch.zeros(2, device="meta"), torch.zeros(2).to("meta"), torch.ones_like(made[0]), made[0].to("meta")]
    made += [model.weight, torch.zeros_like(torch.ones(2), device="meta"), torch.ones(1).new_zeros(2, device="meta")]
    refused = attempt(lambda: torch.zeros(2, device="meta").to(CUDA))
    filled = model.to_empty(device=CUDA)
    return [[str(t.device) for t in made], steady(str(filled.weight.device)), refused]


# --------------------------------------------------------------- torch functions, modes
def _named(func: Any) -> str:
    """A function by the attribute of torch that it is: the identity that programs compare with."""
    for owner, prefix in ((torch, "torch"), (torch.Tensor, "Tensor"), (torch.fft, "fft"), (torch.nn.functional, "F")):
        name = getattr(func, "__name__", "")
        if getattr(owner, name, None) is func:
            return f"{prefix}.{name}"
    return "something else"


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _shape(entry) for key, entry in value.items()}
    return "tensor" if isinstance(value, torch.Tensor) else steady(str(value))


SEEN: list[Any] = []


class _Recording(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append([_named(func), [t.__name__ for t in types], _shape(args), _shape(kwargs or {})])
        return super().__torch_function__(func, types, args, kwargs)


class _Alike:
    """Not a tensor, but answers torch's functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return f"{_named(func)} {len(args)} {sorted(kwargs or {})}"


def _calls(x: torch.Tensor, moves: bool = True) -> list[Any]:
    results = [
        torch.zeros_like(x),
        torch.rand_like(x, dtype=torch.float64),
        x.to(torch.float64),
        x.to(torch.zeros(1)),
        x.new_zeros(2),
        x.new_tensor([1.0]),
        x.cpu(),
        x.type("torch.DoubleTensor"),
        torch.as_tensor(x),
        torch.normal(x, 1.0),
        torch.asarray(x),
    ]
    if moves:
        results += [x.to(CUDA), x.to(device=CUDA, non_blocking=True)]
    return [[type(r).__name__, list(r.shape)] for r in results]


def case_subclass_sees_the_functions() -> list[Any]:
    x = torch.ones(2).as_subclass(_Recording)
    SEEN.clear()
    results = _calls(x)
    return [results, SEEN[:]]


def case_subclass_sees_cuda() -> list[Any]:
    x = torch.ones(2).as_subclass(_Recording)
    SEEN.clear()
    move = x.cuda if CUDA == "cuda" else x.cpu
    kinds = [type(r).__name__ for r in (move(), move())]
    return [kinds, [[types, args, kwargs] for _, types, args, kwargs in SEEN]]


def case_subclass_without_torch_function() -> list[Any]:
    class Plain(torch.Tensor):
        pass

    class Disabled(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    x, y = torch.ones(2).as_subclass(Plain), torch.ones(2).as_subclass(Disabled)
    # Between like devices stock torch gives the tensor itself; between CUDA and the CPU there is a copy.
    return [_calls(x), _calls(y, moves=False), type(x.detach().to(CUDA)).__name__]


def case_parameters_and_buffers() -> list[Any]:
    p, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Buffer(torch.ones(2))
    model = torch.nn.Module()
    model.p, model.b = p, b
    # Before the move: a parameter on CUDA has a copy on the CPU, which is no parameter.
    calls = [_calls(p, moves=False), _calls(b, moves=False)]
    model.to(CUDA)
    kinds = [type(model.p).__name__, type(model.b).__name__, list(model._buffers), model.p is p, p.is_leaf]
    return [*calls, kinds]


def case_tensor_likes() -> list[Any]:
    x = _Alike()
    return [
        torch.zeros_like(x),
        torch.ones_like(x, device=CUDA),
        torch.full_like(x, 2.0, dtype=torch.float32),
    ]


class _Mode(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append([_named(func), _shape(args), _shape(kwargs or {})])
        return func(*args, **(kwargs or {}))


def case_function_mode_sees_the_functions() -> list[Any]:
    x = torch.ones(2)
    with _Mode() as mode:
        torch.zeros(3)
        torch.zeros(3, device=CUDA)
        torch.rand(2, 3, device=CUDA, dtype=torch.float64)
        torch.tensor([1.0], device=CUDA)
        torch.as_tensor([1.0])
        torch.fft.fftfreq(4)
        torch.arange(0, 3, 1)
        _calls(x)
    before = len(mode.seen)
    torch.zeros(3)
    return [mode.seen, len(mode.seen) == before]


def case_nested_function_modes() -> list[Any]:
    with _Mode() as outer, _Mode() as inner, torch.device("meta"):
        torch.zeros(3)
    with contextlib.suppress(ZeroDivisionError), _Mode():
        raise ZeroDivisionError
    with _Mode() as again, torch._C.DisableTorchFunction():
        torch.zeros(3)
    with _Mode() as subclassed, torch._C.DisableTorchFunctionSubclass():
        torch.zeros(3)
    return [outer.seen, inner.seen, again.seen, subclassed.seen]


def case_function_mode_replaces_results() -> list[Any]:
    class Replace(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.zeros:
                return "replaced"
            if func is torch.Tensor.to:
                return "moved"
            return func(*args, **(kwargs or {}))

    with Replace():
        return [torch.zeros(3), torch.ones(1).to(CUDA), torch.zeros(3, device=CUDA), torch.ones(1).tolist()]


def case_overrides_know_the_functions() -> list[Any]:
    overridable = torch.overrides.get_overridable_functions()
    testing = torch.overrides.get_testing_overrides()
    return [
        torch.zeros_like in overridable[torch],
        torch.Tensor.to in overridable[torch.Tensor],
        torch.zeros_like in testing,
        torch.Tensor.to in testing,
        torch.overrides.is_tensor_method_or_property(torch.Tensor.to),
        torch.overrides.resolve_name(torch.Tensor.to),
        torch.overrides.resolve_name(torch.zeros_like),
        torch.zeros in torch.overrides.get_ignored_functions(),
    ]


def case_dispatch_modes() -> list[str]:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        torch.zeros(3, device=CUDA)
        torch.ones_like(torch.empty(2, device=CUDA))
        torch.ones(2).to(torch.float64)
    return seen


def case_default_device() -> list[Any]:
    seen: list[Any] = [str(torch.get_default_device())]
    torch.set_default_device(CUDA)
    try:
        made = [torch.zeros(2), torch.tensor([1.0]), torch.nn.Linear(2, 2).weight, torch.rand(2), torch.eye(2)]
        made += [torch.zeros(2, device="cpu"), torch.from_numpy(torch.ones(2).cpu().numpy()), torch.randperm(3)]
        with torch.device("meta"):
            made.append(torch.zeros(2))
        made.append(torch.zeros(2))
        seen += [steady(str(t.device)) for t in made]
    finally:
        torch.set_default_device(None)
    return [*seen, str(torch.get_default_device()), str(torch.zeros(1).device)]


def case_bad_calls_raise_torchs_errors() -> list[str]:
    x = torch.ones(2)
    # The beginnings: builtins print their overloads behind it.
    return [
        attempt(call)[:45]
        for call in (
            lambda: torch.zeros(),
            lambda: torch.zeros("a"),
            lambda: torch.zeros(2, device=1.5),
            lambda: torch.zeros(2, device=[]),
            lambda: torch.zeros(2, device="gpu"),
            lambda: torch.zeros(2, nonsense=1),
            lambda: torch.zeros_like(),
            lambda: torch.zeros_like(3),
            lambda: x.to(),
            lambda: x.to("nowhere"),
            lambda: x.to(1.5),
            lambda: x.to(device="cpu", nonsense=1),
            lambda: x.to(None),
            lambda: x.to([]),
            lambda: x.new_zeros(),
            lambda: x.new_zeros(2, device="gpu"),
            lambda: torch.as_tensor(),
            lambda: torch.zeros(-1),
            lambda: torch.tensor([1.0], device={}),
            lambda: torch.empty(2, device="cpu", out=3),
            lambda: torch.Tensor.to(3, "cpu"),
            lambda: x.cpu(1),
            lambda: x.cpu(3, 4),
        )
    ]


def case_nothing_is_not_a_device() -> list[Any]:
    x = torch.ones(2)
    made = [
        torch.zeros(2, device=None),
        x.to(None, torch.float64),
        x.to(device=None, dtype=torch.float64),
        x.to(None, None),
        torch.zeros_like(x, device=None),
        x.new_zeros(2, device=None),
        torch.as_tensor([1], device=None),
        torch.tensor([1], device=None, dtype=None),
    ]
    return [[str(t.device), str(t.dtype)] for t in made]


def case_paths_are_paths() -> list[Any]:
    """A folder called "cuda" stays one."""
    seen = []
    with tempfile.TemporaryDirectory(prefix="cuda") as folder:
        path = Path(folder, "cuda:0")
        path.mkdir()
        torch.save({"cuda": "cuda:0", "path": str(path)}, path / "cuda.pt")
        seen.append({k: v.replace(folder, "") for k, v in torch.load(path / "cuda.pt").items()})
        seen.append({k: v.replace(folder, "") for k, v in torch.load(str(path / "cuda.pt"), mmap=True).items()})
        (path / "cuda").write_bytes(bytes(8))
        seen.append(torch.from_file(str(path / "cuda"), size=2).tolist())
        storage = torch.UntypedStorage.from_file(str(path / "cuda"), shared=False, nbytes=8)
        seen.append(storage.nbytes())
        torch.jit.save(torch.jit.script(_Scriptable()), str(path / "cuda.jit"))
        seen.append(type(torch.jit.load(str(path / "cuda.jit"))).__name__)
    return seen


def case_weights_only_default() -> list[Any]:
    buffer = io.BytesIO()
    torch.save(Path("cuda"), buffer)
    buffer.seek(0)
    refused = attempt(lambda: torch.load(buffer)).split(":")[0]
    return [refused, str(inspect.signature(torch.load))]


def case_devices_are_torchs() -> list[Any]:
    match torch.device("cuda:0"):
        case torch.device(type="cuda", index=index):
            matched = index
        case _:
            matched = None
    return [
        type(torch.device) is type,
        repr(torch.device("cuda:0")),
        pickle.loads(pickle.dumps(torch.device("cuda", 1))) == torch.device("cuda:1"),
        isinstance(torch.device("cuda"), torch.device),
        str(torch.device | None),
        matched,
    ]


def case_formats_and_strides_are_kept() -> list[Any]:
    x = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    wide = torch.arange(6.0).reshape(2, 3).t()
    made = [
        x.to(CUDA),
        x.to(CUDA, memory_format=torch.contiguous_format),
        x.to(CUDA, torch.float64, False, True),
        x.to(CUDA, copy=True),
        wide.to(CUDA),
        wide.to(CUDA, torch.float64),
        torch.empty(2, 3, 4, 5, device=CUDA, memory_format=torch.channels_last),
        torch.empty_strided((2, 3), (1, 2), device=CUDA),
        torch.ones_like(x, memory_format=torch.contiguous_format),
    ]
    return [list(t.stride()) for t in made]


def case_requires_grad_and_out() -> list[Any]:
    out = torch.empty(3, device=CUDA)
    torch.zeros(3, out=out)
    torch.arange(3, out=out)
    made = torch.ones(2, device=CUDA, requires_grad=True)
    return [
        out.tolist(),
        made.requires_grad,
        made.is_leaf,
        torch.ones(2, device=CUDA, dtype=None).dtype is torch.float32,
    ]


def case_threads() -> list[Any]:
    import threading

    made: list[Any] = []
    with _Mode() as mode:
        thread = threading.Thread(target=lambda: made.append(torch.zeros(2, device=CUDA).tolist()))
        thread.start()
        thread.join()
    return [made, mode.seen]
