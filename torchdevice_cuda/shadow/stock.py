"""The installed torch's own code of ``torch.cuda``, executed in the modules that the shadow tree serves.

Most of torch.cuda is a thin layer over ``torch._C``, and the CUDA part of that is ours. So a served file holds only
what has to differ. The rest, and whatever a later release adds, is stock's code: names, signatures and members are
those of the release that is installed.
"""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .absent import lacking_in, provide

_ALL = re.compile(r"^__all__(?:: [^=]+)? = (\[.*?^\])$", re.MULTILINE | re.DOTALL)
_SUBMODULES = re.compile(r"^from \. import (\([^)]*\)|.*)", re.MULTILINE)


def root() -> Path:
    """Where ``torch.cuda`` lies in the installed torch."""
    return Path(sys.modules["torch"].__path__[0], "cuda")


def file_of(module: str) -> Path:
    """The file of a module of ``torch.cuda``, which need not exist in every release."""
    path = root().joinpath(*module.split(".")[2:])
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


def execute(namespace: dict[str, Any]) -> None:
    """Execute stock's file of a module in its namespace; definitions that follow in the served file replace stock's."""
    module: str = namespace["__name__"]
    loader = importlib.machinery.SourceFileLoader(module, str(file_of(module)))
    code = loader.get_code(module)
    assert code is not None  # a source file has code
    lacking: set[str] = set()
    while True:
        try:
            exec(code, namespace)
            return
        except (AttributeError, ImportError) as error:
            # A later release's base class or function: what stands on it says so when it is used, the rest works.
            name = lacking_in(error)
            if name is None or name in lacking:
                raise
            lacking.add(name)
            provide(name)


# ------------------------------------------------------------- what a served file lacks
class Rest:
    """What stock's file of a module defines and the served one does not.

    Statements of stock are executed in the served module's namespace, with those that they need, when a name is first
    asked for: reading stock's 2,000 lines takes longer than all the rest of the import.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._module: str = namespace["__name__"]
        self._file = file_of(self._module)
        self._text = self._file.read_text(encoding="utf-8")

    def published(self) -> list[str]:
        """Stock's ``__all__``."""
        found = _ALL.search(self._text)
        return ast.literal_eval(found[1]) if found else []

    def submodules(self) -> set[str]:
        """The submodules that stock's file imports."""
        return {name for found in _SUBMODULES.findall(self._text) for name in re.findall(r"\w+", found)}

    def mentions(self, name: str) -> bool:
        """Whether stock's file has a name anywhere; quick, and never wrong with a no."""
        return name in self._words

    def getattr(self) -> Callable[[str], Any]:
        """The module's ``__getattr__``."""

        def __getattr__(name: str) -> Any:
            if name in self.submodules() and self._is_module(name):
                return importlib.import_module(f"{self._module}.{name}")
            if self._is_ours_to_find(name) and name in self._statements:
                self._define(name)
            if name in self._namespace:
                return self._namespace[name]
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}", name=name)

        __getattr__.__module__ = self._module  # taken out of the module with it
        return __getattr__

    def _is_ours_to_find(self, name: str) -> bool:
        """Whether a name can be one of stock's statements; the import system looks for submodules by itself."""
        return not name.startswith("__") and self.mentions(name) and not self._is_module(name)

    def _is_module(self, name: str) -> bool:
        return file_of(f"{self._module}.{name}").exists()

    @functools.cached_property
    def _words(self) -> frozenset[str]:
        """Every word of the file, found once: looking for each of some sixty names took a third of a start."""
        return frozenset(re.findall(r"\w+", self._text))

    @functools.cached_property
    def _statements(self) -> dict[str, list[ast.stmt]]:
        """The statements at the top level that define a name, in order: a later one may do so in some cases only."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in ast.parse(self._text).body:
            for name in _bound(statement):
                found.setdefault(name, []).append(statement)
        return found

    def _define(self, name: str) -> None:
        """Execute what defines a name and, before it, what that needs; names that are there stay as they are."""
        wanted: dict[int, ast.stmt] = {}
        todo = [name]
        while todo:
            for statement in self._statements[todo.pop()]:
                if statement.lineno in wanted:
                    continue
                wanted[statement.lineno] = statement
                used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                todo.extend(other for other in used & self._statements.keys() if other not in self._namespace)
        ours = dict(self._namespace)
        for _, statement in sorted(wanted.items()):
            exec(compile(ast.Module([statement], []), str(self._file), "exec"), self._namespace)
            self._namespace.update((bound, ours[bound]) for bound in _bound(statement) if bound in ours)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top level of a module binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name.partition(".")[0]) for alias in names)
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name
        case ast.If() | ast.Try():
            handlers = statement.handlers if isinstance(statement, ast.Try) else []
            for block in (statement.body, statement.orelse, *(handler.body for handler in handlers)):
                for inner in block:
                    yield from _bound(inner)


def publish(namespace: dict[str, Any], providers: tuple[str, ...]) -> None:
    """Give a module stock's ``__all__`` and the rest of stock's names, and take from it what this release lacks.

    ``providers`` are submodules that it takes names from, as stock's does; not every release has them all.
    """
    rest = Rest(namespace)
    module: str = namespace["__name__"]
    owners = [importlib.import_module(f"{module}.{each}") for each in providers if file_of(f"{module}.{each}").exists()]
    names, submodules = rest.published(), rest.submodules()
    namespace["__all__"] = names
    namespace["__getattr__"] = find = rest.getattr()
    for name in names:
        if name not in namespace:
            owner = next((owner for owner in owners if hasattr(owner, name)), None)
            if owner is not None:
                namespace[name] = getattr(owner, name)
            elif name in submodules:
                importlib.import_module(f"{module}.{name}")
            elif rest.mentions(name):
                try:
                    namespace[name] = find(name)
                except AttributeError:
                    continue  # the classes that torch's C++ puts there later
    for name, value in list(namespace.items()):
        defined_here = getattr(value, "__module__", None) == module and isinstance(value, (type, types.FunctionType))
        if defined_here and not name.startswith("_") and not rest.mentions(name):
            del namespace[name]
