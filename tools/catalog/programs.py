"""Calls of what takes programs apart: TorchScript, fx, export, packages, libraries of operators, and trees."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import scripting
import torch
import values
from values import Given, numbers

Call = Callable[[str], Any]


def with_file(write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Any:
    """Write a file and return its contents."""
    buffer = io.BytesIO()
    write(buffer)
    buffer.seek(0)
    return read(buffer)


def traced(d: str) -> Any:
    return torch.fx.symbolic_trace(values.sequence(d))


def nodes(d: str) -> list[Any]:
    scripting.KEPT.append(traced(d))
    return list(scripting.KEPT[-1].graph.nodes)


def erased(d: str) -> Any:
    graph = traced(d).graph
    lone = graph.call_function(torch.sin, tuple(graph.nodes)[:1])
    graph.erase_node(lone)
    return len(graph.nodes)


def interpreted(call: Callable[[Any, Any], Any]) -> Call:
    """Something of an interpreter that is about to run its second node."""

    def run(d: str) -> Any:
        made = torch.fx.Interpreter(traced(d))
        first, second = list(made.module.graph.nodes)[:2]
        made.args_iter = iter([numbers(d, 3, 3)])
        made.env[first] = numbers(d, 3, 3)
        return call(made, second)

    return run


def tracer(d: str) -> tuple[Any, Any]:
    """Return a tracer with what it traced."""
    made, root = torch.fx.Tracer(), values.sequence(d)
    scripting.KEPT.append(made.trace(root))
    return made, root


def transformed(d: str) -> Any:
    made = torch.fx.Transformer(traced(d))
    return type(made.call_module("0", (made.placeholder("x", (), {}),), {})).__name__


def linked(method: str) -> Call:
    def call(d: str) -> Any:
        graph = traced(d).graph
        first = next(iter(graph.nodes))
        getattr(first, method)(graph.call_function(torch.sin, (first,)))
        return [node.op for node in graph.nodes]

    return call


def named(kind: str) -> str:
    """Return a name of an operator that is new."""
    scripting.KEPT.append(kind)
    return f"catalog_{kind}{len(scripting.KEPT)}"


def operator(d: str) -> Any:
    return torch.library.custom_op(f"{named('op')}::twice", typed, mutates_args=())


def typed(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def batched(d: str) -> Any:
    made = operator(d)
    torch.library.register_vmap(made, lambda info, dims, x: (x * 2, dims[0]))
    return torch.vmap(made)(numbers(d, 3, 3))


def cast(d: str) -> Any:
    made, kind = operator(d), torch.device(d).type
    torch.library.register_autocast(made, kind, torch.bfloat16)
    with torch.autocast(kind, torch.bfloat16):
        return made(numbers(d, 3))


def fallen_back(d: str) -> Any:
    made = torch.library.Library("_", "IMPL")
    try:
        return made.fallback(lambda *args, **kwargs: None, "PrivateUse3")
    finally:
        made._destroy()  # type: ignore[no-untyped-call]


def in_triton(d: str) -> Any:
    import triton

    @triton.jit
    def kernel(x) -> None:  # type: ignore[no-untyped-def]
        pass

    return type(torch.library.wrap_triton(kernel)).__name__


def defined(d: str) -> Any:
    name = named("op")
    torch.library.define(f"{name}::f", "(Tensor x) -> Tensor")
    return str(getattr(torch.ops, name).f.default._schema).partition("::")[2]


def exported(d: str) -> Any:
    return torch.export.export(values.net(d), (numbers(d, 3, 3),))


def more_inputs(d: str) -> Any:
    made = torch.export.AdditionalInputs()
    made.add((numbers(d, 4, 3),))
    return made


def verified(d: str) -> Any:
    x = numbers(d, 3, 3)
    program = torch.export.export(values.net(d), (x,), dynamic_shapes=more_inputs(d))
    return more_inputs(d).verify(program)


def collected(d: str) -> Any:
    made, x = torch.export.ShapesCollection(), numbers(d, 3, 3)
    made[x] = (torch.export.Dim("rows"), None)
    return [type(part).__name__ for part in made.dynamic_shapes(values.net(d), (x,))["input"]]


def registered(d: str) -> Any:
    kind = dataclasses.make_dataclass(named("Kind"), [("x", Any)])
    torch.export.register_dataclass(kind)
    return torch.utils._pytree.tree_map(lambda x: x * 2, kind(numbers(d, 3))).x


def package(d: str) -> Any:
    with torch.package.PackageExporter("programs.pt") as made:
        made.save_source_string("module_of_a_package", "x = 1\n")
        made.save_binary("a", "bytes", b"x")
        made.save_text("a", "text", "words")
        made.save_pickle("a", "pickle", {"x": numbers(d, 3)})
    return torch.package.PackageImporter("programs.pt")


def packing(d: str) -> Any:
    return torch.package.PackageExporter(io.BytesIO())


def sources(d: str) -> Any:
    made = packing(d)
    made.save_source_string("a", "x = 1\n")
    return made.all_paths("a", "a")


TREE = {"a": [1, 2], "b": 3}


def spec() -> Any:
    return torch.utils._pytree.tree_structure(TREE)


def strategy(d: str) -> Any:
    before = torch.jit.set_fusion_strategy([("STATIC", 2)])
    return [list(each) for each in torch.jit.set_fusion_strategy(before)]


def extended(d: str) -> Any:
    """A module of TorchScript with a method more: of a class of its own, since modules of a class share their type."""

    class Lone(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    made = torch.jit.script(Lone())
    made.define("def twice(self, x):\n    return x * 2\n")
    return made.twice(numbers(d, 3))


def failed(d: str) -> Any:
    made = torch.jit.Future()
    made.set_exception(ValueError("as asked"))
    try:
        return made.wait()
    except ValueError as error:
        return str(error)


def started(d: str) -> Any:
    torch.multiprocessing.set_start_method(torch.multiprocessing.get_start_method(), force=True)
    return torch.multiprocessing.get_start_method()


def shared(d: str) -> Any:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        return torch.multiprocessing.get_sharing_strategy()
    finally:
        torch.multiprocessing.set_sharing_strategy(before)


OBJECTS: dict[str, values.Maker] = {"torch.package.PackageImporter": package}
GIVEN: dict[str, Given] = {
    **{f"torch.package.PackageImporter.{name}": lambda x, d: ["module_of_a_package"] for name in ("get_source",
        "import_module")},
    "torch.package.PackageImporter.load_binary": lambda x, d: ["a", "bytes"],
    "torch.package.PackageImporter.load_text": lambda x, d: ["a", "text"],
    "torch.package.PackageImporter.load_pickle": lambda x, d: ["a", "pickle"],
}  # fmt: skip
CALLS: dict[str, Call] = {
    "torch.jit.Future.set_exception": failed,
    "torch.jit.ScriptModule.define": extended,
    "torch.jit.ScriptModule.get_debug_state": lambda d: (lambda m: ([m(numbers(d, 3, 3)) for _ in range(3)],
        m.get_debug_state())[1])(scripting.scripted(d)),
    "torch.jit.export_opnames": lambda d: torch.jit.export_opnames(scripting.scripted(d)),
    "torch.jit.freeze": lambda d: torch.jit.freeze(scripting.scripted(d).eval())(numbers(d, 3, 3)),
    "torch.jit.load": lambda d: with_file(lambda f: torch.jit.save(scripting.scripted(d), f),
        lambda f: torch.jit.load(f, map_location=d))(numbers(d, 3, 3)),
    "torch.jit.save": lambda d: torch.jit.save(scripting.scripted(d), io.BytesIO()),
    "torch.jit.set_fusion_strategy": strategy,
    "torch.jit.trace_module": lambda d: torch.jit.trace_module(values.net(d), {"forward": (numbers(d, 3, 3),)})(
        numbers(d, 3, 3)),
    "torch.jit.wait": lambda d: torch.jit.wait(torch.jit.fork(values.typed, numbers(d, 3))),
    "torch.fx.Graph.erase_node": erased,
    "torch.fx.Graph.on_generate_code": lambda d: traced(d).graph.on_generate_code(
        lambda before: before or (lambda body: body)),
    "torch.fx.Interpreter.call_method": interpreted(lambda x, n: x.call_method("sin", (next(x.args_iter),), {})),
    "torch.fx.Interpreter.call_module": interpreted(lambda x, n: x.call_module("0", (next(x.args_iter),), {})),
    "torch.fx.Interpreter.fetch_args_kwargs_from_env": interpreted(lambda x, n: x.fetch_args_kwargs_from_env(n)),
    "torch.fx.Interpreter.placeholder": interpreted(lambda x, n: x.placeholder("input", (), {})),
    "torch.fx.Interpreter.run_node": interpreted(lambda x, n: x.run_node(n)),
    "torch.fx.passes.shape_prop.ShapeProp.run_node": lambda d: torch.fx.passes.shape_prop.ShapeProp(traced(d)).run(
        numbers(d, 3, 3)),
    "torch.fx.Node.append": linked("append"), "torch.fx.Node.prepend": linked("prepend"),
    "torch.fx.Tracer.path_of_module": lambda d: (lambda t: t[0].path_of_module(t[1][0]))(tracer(d)),
    "torch.fx.Tracer.call_module": lambda d: (lambda t: type(t[0].call_module(t[1][0], t[1][0].forward,
        (t[0].create_proxy("placeholder", "x", (), {}),), {})).__name__)(tracer(d)),
    "torch.fx.Transformer.call_module": transformed,
    "torch.masked.cumprod": lambda d: torch.masked.cumprod(numbers(d, 3, 3), 0, mask=numbers(d, 3, 3) > 1),
    "torch.library.Library.fallback": fallen_back, "torch.library.define": defined,
    "torch.library.get_kernel": lambda d: torch.library.get_kernel("aten::sin", torch.device(d).type.upper()),
    "torch.library.infer_schema": lambda d: torch.library.infer_schema(typed, mutates_args=()),
    "torch.library.wrap_triton": in_triton, "torch.library.register_vmap": batched,
    "torch.library.register_autocast": cast,
    "torch.export.AdditionalInputs.dynamic_shapes": lambda d: more_inputs(d).dynamic_shapes(values.net(d),
        (numbers(d, 3, 3),)),
    "torch.export.AdditionalInputs.verify": verified,
    "torch.export.ShapesCollection.dynamic_shapes": collected,
    "torch.export.load": lambda d: with_file(lambda f: torch.export.save(exported(d), f), torch.export.load).module()(
        numbers(d, 3, 3)),
    "torch.export.register_dataclass": registered,
    "torch.package.OrderedImporter.get_name": lambda d: torch.package.OrderedImporter(
        torch.package.sys_importer).get_name(torch.nn.Linear),
    "torch.package.OrderedImporter.import_module": lambda d: torch.package.OrderedImporter(
        torch.package.sys_importer).import_module("torch.nn").__name__,
    "torch.package.PackageExporter.all_paths": sources,
    "torch.package.PackageExporter.save_module": lambda d: packing(d).save_module("colorsys", dependencies=False),
    "torch.utils._pytree.PyTreeSpec.child": lambda d: str(spec().child(0)),
    "torch.utils._pytree.PyTreeSpec.flatten_up_to": lambda d: spec().flatten_up_to(TREE),
    "torch.utils._pytree.PyTreeSpec.unflatten": lambda d: spec().unflatten([numbers(d, 3)] * 3),
    "torch.utils._pytree.tree_unflatten": lambda d: torch.utils._pytree.tree_unflatten([numbers(d, 3)] * 3, spec()),
    "torch.utils._pytree.treespec_loads": lambda d: str(torch.utils._pytree.treespec_loads(
        torch.utils._pytree.treespec_dumps(spec()))),
    "torch.utils._pytree.treespec_pprint": lambda d: torch.utils._pytree.treespec_pprint(spec()),
    "torch.func.stack_module_state": lambda d: torch.func.stack_module_state([values.net(d), values.net(d)]),
    "torch.multiprocessing.set_start_method": started, "torch.multiprocessing.set_sharing_strategy": shared,
    **{f"torch.multiprocessing.{name}": lambda d, name=name: list(getattr(torch.multiprocessing, name)("i", [1, 2]))
        for name in ("Array", "RawArray")},
    **{f"torch.multiprocessing.{name}": lambda d, name=name: getattr(torch.multiprocessing, name)("i", 3).value
        for name in ("Value", "RawValue")},
}  # fmt: skip
