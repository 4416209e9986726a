"""Arguments for methods of TorchScript's objects: nodes, blocks, values, types, archives and states of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scripting
import torch
import values
from values import Given, numbers

C = torch._C
MUL = "aten::mul"


def other(n: Any) -> Any:
    """Return the node of a node's graph that comes first: the constant which it multiplies by."""
    return list(n.inputs())[1].node()


def fresh(graph: Any) -> Any:
    """Return a node that is in no graph yet."""
    return graph.create(MUL, list(graph.inputs()) * 2, 1)


#: Attributes of nodes by the letters of their kind, each with a value.
ATTRIBUTES: dict[str, Callable[[str], Any]] = {
    "i": lambda d: 1, "f": lambda d: 0.5, "s": lambda d: "x", "c": lambda d: 1j, "is": lambda d: [1, 2],
    "fs": lambda d: [0.5], "ss": lambda d: ["x", "y"], "t": lambda d: numbers(d, 3),
    "ts": lambda d: [numbers(d, 3)], "z": lambda d: numbers(d), "zs": lambda d: [numbers(d)],
    "g": lambda d: scripting.graph(d), "gs": lambda d: [scripting.graph(d)], "ty": lambda d: C.IntType.get(),
    "tys": lambda d: [C.IntType.get()], "ival": lambda d: 1,
}  # fmt: skip


def read(kind: str) -> Callable[[str], Any]:
    """Return an attribute of a node that has one of its kind."""
    return lambda d: getattr(getattr(scripting.node(d), f"{kind}_")("v", ATTRIBUTES[kind](d)), kind)("v")


def written(kind: str) -> Callable[[str], Any]:
    return lambda d: getattr(scripting.node(d), f"{kind}_")("v", ATTRIBUTES[kind](d)).kindOf("v")


class Scaled(torch.autograd.Function):
    """A Python operator that a trace keeps."""

    @staticmethod
    def forward(ctx: Any, x: Any, by: float) -> Any:
        return x * by

    @staticmethod
    def backward(ctx: Any, grown: Any) -> Any:
        return grown, None


def of_python(method: str) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        graph, _ = torch.jit._get_trace_graph(lambda x: Scaled.apply(x, 2.0), (numbers(d, 3),))  # type: ignore[no-untyped-call]
        scripting.KEPT.append(graph)
        return getattr(next(n for n in graph.nodes() if n.kind() == "prim::PythonOp"), method)()

    return call


def in_trace(method: str, make: Given = lambda state, d: []) -> Callable[[str], Any]:
    """Return a method of the state that a trace has while it is made, within a scope."""

    def call(d: str) -> Any:
        told = []

        def run(x: Any) -> Any:
            state = C._get_tracing_state()
            state.push_scope("aten::here")
            told.append(getattr(state, method)(*make(state, d)))
            if method != "pop_scope":
                state.pop_scope()
            if method == "push_scope":
                state.pop_scope()
            return x * 2

        torch.jit.trace(run, (numbers(d, 3),), check_trace=False)
        return told[0] if isinstance(told[0], str) else type(told[0]).__name__

    return call


def archived(d: str) -> Any:
    torch.jit.save(scripting.scripted(d), "module.pt")
    return "module.pt"


def static(d: str) -> Any:
    """Return a module for the static runtime, which has the CPU alone."""
    return C._jit_to_static_module(torch.jit.freeze(scripting.scripted("cpu").eval())._c)


def serializer(d: str) -> Any:
    scripting.KEPT.append(C.PyTorchFileWriter("serialized.pt"))
    return C.ScriptModuleSerializer(scripting.KEPT[-1])


def held(d: str) -> Any:
    made = C.DeserializationStorageContext()
    made.add_storage("a", torch.ones(3))
    return made.get_storage("a", torch.float32).dtype


OBJECTS: dict[str, values.Maker] = {
    "torch.StaticModule": static, "torch.FileCheck": lambda d: C.FileCheck().check("text"),
    "torch.ScriptModuleSerializer": serializer,
}  # fmt: skip
GIVEN: dict[str, Given] = {
    "torch.AliasDb.has_writers": lambda x, d: [scripting.node(d).output()],
    "torch.Block.addNode": lambda x, d: [MUL, list(x.inputs()) * 2],
    "torch.Block.registerOutput": lambda x, d: [next(iter(x.inputs()))],
    **{f"torch.{kind}.{name}": lambda x, d: [MUL] for kind in ("Block", "Graph", "Node") for name in
        ("findNode", "findAllNodes")},
    **{f"torch.{kind}.getattr": lambda x, d, name=name: [name] for kind, name in
        {"BufferDict": "seen", "ModuleDict": "inner", "ScriptObject": "seen"}.items()},
    **{f"torch.{kind}.setattr": lambda x, d: ["seen", numbers(d, 3)] for kind in ("BufferDict", "ScriptObject")},
    "torch.ModuleDict.setattr": lambda x, d: ["inner", x.getattr("inner")],
    "torch.ParameterDict.getattr": lambda x, d: ["weight"],
    "torch.ParameterDict.setattr": lambda x, d: ["weight", numbers(d, 3, 3)],
    "torch.Code.request_bailout": lambda x, d: [0],
    "torch.CompilationUnit.define": lambda x, d: ["def g(x):\n    return x\n"],
    "torch.ConcreteModuleType.from_jit_type": lambda x, d: [scripting.scripted(d)._c._type()],
    "torch.ConcreteModuleTypeBuilder.add_builtin_function": lambda x, d: ["f", MUL],
    "torch.ConcreteModuleTypeBuilder.add_function_attribute": lambda x, d: [
        "f", C._jit_try_infer_type(torch.jit.script(values.typed)).type(), values.typed],
    "torch.FileCheck.run": lambda x, d: ["the text that is checked"],
    "torch.Generator.set_state": lambda x, d: [x.get_state()],
    **{f"torch.Graph.{name}": lambda x, d: [fresh(x)] for name in ("appendNode", "insertNode", "prependNode")},
    "torch.Graph.create": lambda x, d: [MUL, list(x.inputs()) * 2, 1],
    "torch.Graph.createClone": lambda x, d: [x.findNode(MUL), lambda value: value],
    "torch.Graph.insert": lambda x, d: [MUL, list(x.inputs()) * 2],
    "torch.Graph.insertGraph": lambda x, d: [scripting.graph(d), list(x.inputs())],
    "torch.Graph.permuteInputs": lambda x, d: [[0]],
    "torch.Graph.registerOutput": lambda x, d: [next(iter(x.inputs()))],
    "torch.Graph.setInsertPoint": lambda x, d: [x.findNode(MUL)],
    "torch.InterfaceType.getMethod": lambda x, d: ["forward"],
    "torch.LiteScriptModule.forward": lambda x, d: [(numbers(d, 3, 3),)],
    "torch.LiteScriptModule.run_method": lambda x, d: ["forward", (numbers(d, 3, 3),)],
    "torch.Node.addInput": lambda x, d: [next(iter(x.inputs()))],
    **{f"torch.Node.{name}": lambda x, d: [other(x)] for name in ("isAfter", "isBefore", "replaceAllUsesWith")},
    "torch.Node.matches": lambda x, d: ["aten::mul(Tensor self, Scalar other) -> Tensor"],
    "torch.Node.namedInput": lambda x, d: ["self"],
    "torch.Node.replaceInput": lambda x, d: [0, next(iter(x.inputs()))],
    "torch.Node.replaceInputWith": lambda x, d: [next(iter(x.inputs())), list(x.inputs())[1]],
    "torch.PyTorchFileReader.get_record": lambda x, d: ["byteorder"],
    **{f"torch.PyTorchFileReader.{name}": lambda x, d: ["byteorder"] for name in ("get_record_header_offset",
        "get_record_offset")},
    "torch.PyTorchFileReader.get_storage_from_record": lambda x, d: ["data/0", 3, torch.float32],
    "torch.ScriptModuleSerializer.serialize": lambda x, d: [scripting.scripted(d)._c, 0],
    "torch.StaticModule.runAsync": lambda x, d: [(numbers("cpu", 3, 3),), {}],
    **{f"torch.StaticModule.{name}": lambda x, d: [[numbers("cpu", 3, 3)], {}, 1, 1] for name in ("benchmark",
        "benchmark_individual_ops")},
    "torch.Use.isAfter": lambda x, d: [next(iter(x.user.outputs())).uses()[0]],
    "torch.Value.replaceAllUsesAfterNodeWith": lambda x, d: [x.node(), next(iter(x.node().inputs()))],
    "torch.Value.replaceAllUsesWith": lambda x, d: [next(iter(x.node().inputs()))],
    "torch.Value.setType": lambda x, d: [C.TensorType.get()],
    "torch.Type.with_device": lambda x, d: [torch.device(d)],
}  # fmt: skip
CALLS: dict[str, Callable[[str], Any]] = {
    **{f"torch.Node.{kind}": read(kind) for kind in ATTRIBUTES},
    **{f"torch.Node.{kind}_": written(kind) for kind in ("is", "fs")},
    **{f"torch.Node.{name}": of_python(name) for name in ("cconv", "pyname", "scalar_args")},
    "torch.Node.pyobj": lambda d: of_python("pyobj")(d).__name__,
    "torch.Node.kindOf": lambda d: scripting.node(d).i_("v", 1).kindOf("v"),
    "torch.Node.removeAttribute": lambda d: scripting.node(d).i_("v", 1).removeAttribute("v").hasAttribute("v"),
    "torch.Node.input": lambda d: (lambda g: g.create("aten::neg", list(g.inputs()), 1).input())(scripting.graph(d)),
    **{f"torch.Node.{name}": lambda d, name=name: (lambda g: getattr(fresh(g), name)(g.findNode(MUL)))(
        scripting.graph(d)) for name in ("insertAfter", "insertBefore")},
    "torch.Node.destroy": lambda d: (lambda g: g.insertNode(fresh(g)).destroy())(scripting.graph(d)),
    "torch.Node.eraseOutput": lambda d: (lambda g: fresh(g).eraseOutput(0))(scripting.graph(d)),
    "torch.Graph.eraseInput": lambda d: (lambda g: (g.addInput(), g.eraseInput(1))[1])(scripting.graph(d)),
    "torch.AliasDb.may_contain_alias": lambda d: (lambda n: scripting.KEPT[-1].alias_db().may_contain_alias(
        n.output(), list(n.inputs())[0]))(scripting.node(d)),
    **{f"torch.AliasDb.{name}": lambda d, name=name: (lambda n: getattr(scripting.KEPT[-1].alias_db(), name)(
        n, other(n)))(scripting.node(d)) for name in ("move_after_topologically_valid",
        "move_before_topologically_valid")},
    **{f"torch.TracingState.{name}": in_trace(name) for name in ("current_scope", "graph", "pop_scope")},
    "torch.TracingState.push_scope": in_trace("push_scope", lambda state, d: ["aten::inner"]),
    "torch.TracingState.set_graph": in_trace("set_graph", lambda state, d: [state.graph()]),
    "torch.DeserializationStorageContext.get_storage": held,
    "torch.EnumType": lambda d: C.EnumType("__torch__.Kind", C.IntType.get(), list(scripting.Kind)),
    "torch.ExcludeDispatchKeyGuard": lambda d: C.ExcludeDispatchKeyGuard(C.DispatchKeySet(C.DispatchKey.AutogradOther)),
    "torch.Future.set_result": lambda d: (lambda f: (f.set_result(numbers(d, 3)), f.wait())[1])(C.Future([])),
    "torch.Type.contiguous": lambda d: next(torch.jit.trace(values.doubled, numbers(d, 3)).graph.inputs()
        ).type().contiguous(),
    "torch.import_ir_module": lambda d: C.import_ir_module(C.CompilationUnit(), archived(d), torch.device(d), {},
        False),
    "torch.ScriptModule.get_debug_state": lambda d: (lambda m: ([m(numbers(d, 3, 3)) for _ in range(3)],
        m._c.get_debug_state())[1])(scripting.scripted(d)),
    "torch.SymFloat.hex": lambda d: scripting.symbolic_float().hex(),
}  # fmt: skip
