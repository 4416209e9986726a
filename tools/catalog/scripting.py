"""Objects of TorchScript's compiler, which Python programs see but do not make."""

from __future__ import annotations

import enum
import functools
from typing import Any

import torch
import values
from values import Maker, numbers


class Scripted(torch.nn.Module):
    """A module that TorchScript takes, with something of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.utils.skip_init(torch.nn.Linear, 3, 3)  # draws nothing
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.seen


def scripted(d: str) -> Any:
    made = Scripted().to(d)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(numbers("cpu", *p.shape))
    return torch.jit.script(made)


#: What has to live on: objects of TorchScript's do not keep alive what they are parts of.
KEPT: list[Any] = []


def graph(d: str) -> Any:
    KEPT.append(torch.jit.script(values.typed).graph.copy())
    return KEPT[-1]


def node(d: str) -> Any:
    return next(n for n in graph(d).nodes() if n.kind() == "aten::mul")


def compiled(d: str) -> Any:
    """Return a function that TorchScript has run, so that it has a plan for it."""
    made = torch.jit.script(values.typed)
    for _ in range(3):  # it looks on first
        made(numbers(d, 3))
    return made


class Kind(enum.Enum):
    """A kind that TorchScript knows too."""

    ONE = 1


@functools.cache
def interface() -> Any:
    """Return an interface of TorchScript's: what a class that says it has it must have."""

    class Applied:
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[empty-body]
            pass

    return torch.jit.interface(Applied)


def archive(d: str) -> Any:
    values.written("archive.pt")
    return torch._C.PyTorchFileReader("archive.pt")


def future(d: str) -> Any:
    made = torch.futures.Future()
    made.set_result(torch.ones(3))
    return made


def kinds() -> dict[str, Maker]:
    """TorchScript's types, by name."""
    c = torch._C
    tensor = c.TensorType.get()
    return {
        "Type": lambda d: tensor, "TensorType": lambda d: tensor, "AnyType": lambda d: c.AnyType.get(),
        "ListType": lambda d: c.ListType(tensor), "OptionalType": lambda d: c.OptionalType(tensor),
        "DictType": lambda d: c.DictType(c.StringType.get(), tensor), "TupleType": lambda d: c.TupleType([tensor]),
        "FutureType": lambda d: c.FutureType(tensor), "RRefType": lambda d: c.RRefType(tensor),
        "AwaitType": lambda d: c.AwaitType(tensor), "UnionType": lambda d: c.UnionType([tensor, c.IntType.get()]),
        "ClassType": lambda d: scripted(d)._c._type(), "InferredType": lambda d: c.InferredType(tensor),
        "InterfaceType": lambda d: c.InterfaceType(torch._jit_internal._qualified_name(interface())),
        **{name: functools.partial(lambda name, d: getattr(c, name).get(), name) for name in (
            "BoolType ComplexType DeviceObjType FloatType IntType NoneType NumberType PyObjectType StreamObjType "
            "StringType SymBoolType SymIntType").split()},
    }  # fmt: skip


def of_torchscript() -> dict[str, Maker]:
    """Objects of TorchScript's compiler."""
    c = torch._C
    return {
        "Graph": graph, "Node": node, "Value": lambda d: node(d).output(),
        "Block": lambda d: graph(d).return_node().owningBlock(),
        "Use": lambda d: next(iter(graph(d).inputs())).uses()[0], "AliasDb": lambda d: graph(d).alias_db(),
        "ScriptModule": lambda d: scripted(d)._c, "ScriptObject": lambda d: scripted(d)._c,
        "ScriptMethod": lambda d: scripted(d)._c._get_method("forward"),
        "ScriptFunction": compiled,
        "ModuleDict": lambda d: c.ModuleDict(scripted(d)._c),
        "ParameterDict": lambda d: c.ParameterDict(scripted(d).inner._c),
        "BufferDict": lambda d: c.BufferDict(scripted(d)._c),
        "FunctionSchema": lambda d: schema(),
        "Argument": lambda d: schema().arguments[0],
        "ScriptDict": lambda d: c.ScriptDict({"a": 1}), "ScriptList": lambda d: c.ScriptList([1, 2]),
        "PyTorchFileReader": archive, "PyTorchFileWriter": lambda d: c.PyTorchFileWriter("written.pt"),
        "ConcreteModuleTypeBuilder": lambda d: c.ConcreteModuleTypeBuilder(torch.nn.Linear),
        "ConcreteModuleType": lambda d: torch.jit._recursive.get_module_concrete_type(values.net(d)),
        "CompilationUnit": lambda d: c.CompilationUnit("def f(x):\n    return x\n"),
        "Code": lambda d: next(iter(compiled(d).get_debug_state().execution_plans.values())).code,
        "DispatchKeySet": lambda d: c.DispatchKeySet(c.DispatchKey.CPU), "Future": future,
        "Generator": lambda d: torch.Generator(d).manual_seed(3), "Stream": lambda d: torch.Stream(device=d),
        "Event": lambda d: torch.Event(device=d, enable_timing=True),
        "ErrorReport": lambda d: c.ErrorReport(torch.jit.frontend.get_jit_def(values.typed, "f").name().range()),
        "LiteScriptModule": lambda d: lite(d), "Tag": lambda d: torch.Tag.core,
        "TypedStorage": lambda d: numbers(d, 3).storage(), "UntypedStorage": lambda d: numbers(d, 3).untyped_storage(),
        "ThroughputBenchmark": lambda d: throughput(d),
        "GradScaler": lambda d: torch.amp.GradScaler(torch.device(d).type),
        "SymInt": lambda d: torch.SymInt(symbolic().node),
        "iinfo": lambda d: torch.iinfo(torch.int8),
        "SerializationStorageContext": lambda d: c.SerializationStorageContext(),
        "DeserializationStorageContext": lambda d: c.DeserializationStorageContext(),
    }  # fmt: skip


def schema() -> Any:
    KEPT.append(torch._C.parse_schema("f(Tensor x, int y=1) -> Tensor"))
    return KEPT[-1]


def symbolic() -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    KEPT.append(ShapeEnv())
    source = torch._dynamo.source.ConstantSource("x")
    symbol = KEPT[-1].create_symbol(5, source, DimDynamic.DYNAMIC)
    return KEPT[-1].create_symintnode(symbol, hint=5, source=source)


def lite(d: str) -> Any:
    from torch.jit.mobile import _load_for_lite_interpreter

    scripted(d)._save_for_lite_interpreter("lite.ptl")
    return _load_for_lite_interpreter("lite.ptl")._c


def throughput(d: str) -> Any:
    made = torch._C.ThroughputBenchmark(scripted(d)._c)
    made.add_input(numbers(d, 3, 3))
    return made


def symbolic_float() -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    KEPT.append(ShapeEnv())
    source = torch._dynamo.source.ConstantSource("x")
    symbol = KEPT[-1].create_symbol(2, source, DimDynamic.DYNAMIC)
    return torch.sym_float(KEPT[-1].create_symintnode(symbol, hint=2, source=source))
