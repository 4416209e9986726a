"""The function that computes a kernel: its source, changed as triton's interpreter wants it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import weakref
from collections.abc import Callable
from typing import Any

from .language import Language

_BINDER, _COUNT = "_bind", "_count"


class Sources:
    """Makes and keeps the functions that compute the program's."""

    def __init__(self) -> None:
        self.language = Language(self.computing)
        #: By the program's function, then by its source: programs may change that before a launch.
        self._made: weakref.WeakKeyDictionary[Any, dict[str, Callable[..., Any]]] = weakref.WeakKeyDictionary()

    def computing(self, jitted: Any) -> Callable[..., Any]:
        """The function for one that the program decorated."""
        if jitted.fn is None:  # inductor's compile workers send kernels without their functions
            jitted = jitted.reload_kernel().fn
        function, source = jitted.fn, jitted.src
        made = self._made.setdefault(function, {})
        if source not in made:
            made[source] = _made(function, source, self.language)
        return made[source]


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class _Counters(ast.NodeTransformer):
    """Have the counters of loops over ``range`` be tensors, as they are when a kernel is compiled."""

    def visit_For(self, node: ast.For) -> ast.AST:
        """Count by `Language.count`."""
        self.generic_visit(node)
        call = node.iter
        name = getattr(getattr(call, "func", None), "id", getattr(getattr(call, "func", None), "attr", ""))
        if isinstance(call, ast.Call) and name == "range":
            call.args.insert(0, call.func)
            call.func = ast.Name(id=_COUNT, ctx=ast.Load())
        return node


def _made(function: types.FunctionType, source: str, language: Language) -> Callable[..., Any]:
    """The interpreter's version, in the program's module and with its own line numbers.

    The interpreter itself would write names of its own into the program's module, and lose the variables of a function
    around the kernel. Both are arguments of a function around it here.
    """
    interpreter = language.interpreter
    lines, first = inspect.getsourcelines(function)
    decorators = next((number for number, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    tree = ast.parse(textwrap.dedent(source))
    kernel = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    kernel.decorator_list = []
    kernel.args.defaults, kernel.args.kw_defaults = [], [None] * len(kernel.args.kwonlyargs)
    kernel.returns = None
    for argument in ast.walk(kernel.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    named = _names(kernel)
    changed = _Counters().visit(interpreter.ASTTransformer().visit(kernel))
    helpers = {name: vars(interpreter)[name] for name in _names(changed) - named if name in vars(interpreter)}
    around = {**_imported(function, named, language), **_captured(function), **helpers, _COUNT: language.count}
    binder = ast.FunctionDef(
        name=_BINDER,
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(arg=name) for name in around], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[changed, ast.Return(value=ast.Name(id=kernel.name, ctx=ast.Load()))],
        decorator_list=[],
    )
    if "type_params" in ast.FunctionDef._fields:
        setattr(binder, "type_params", [])  # noqa: B010 (Python 3.12 has them, and wants them)
    module = ast.fix_missing_locations(ast.Module(body=[binder], type_ignores=[]))
    ast.increment_lineno(module, first + decorators - 1)
    namespace: dict[str, Any] = {}
    exec(compile(module, function.__code__.co_filename, "exec"), function.__globals__, namespace)
    made: types.FunctionType = namespace[_BINDER](**around)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made


def _imported(function: types.FunctionType, names: set[str], language: Language) -> dict[str, Any]:
    """Functions of the language that the program imported by name: what they are to the interpreter."""
    found = {name: function.__globals__.get(name) for name in names}
    return {name: language.interpreted[id(value)] for name, value in found.items() if id(value) in language.interpreted}


def _captured(function: types.FunctionType) -> dict[str, Any]:
    """The variables of the function around it, as far as they have values."""
    captured = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            captured[name] = cell.cell_contents
        except ValueError:  # none yet
            continue
    return captured
