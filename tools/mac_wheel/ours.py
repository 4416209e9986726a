"""Our sources' assumptions about a Mac, collected from them, so that the lists stay current."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torchdevice_cuda"
_CSRC = PACKAGE / "native" / "csrc"
_TORCH_C = re.compile(r"(?:\w*\.)*(_mps_\w+)")
#: How Metal's module is spelled.
_METAL = ("importlib.import_module('Metal')", "Metal")
#: Files of the device that are for MPS, or have a half that is.
_OF_THE_DOUBLE = ("refusals.h", "mps_*", "hooks.cpp")
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


@dataclasses.dataclass(frozen=True)
class Use:
    """A use of a macOS-only name in torchdevice_cuda; ``arguments`` is ``None`` if it is not a call."""

    name: str
    where: str
    arguments: int | None = None
    keywords: tuple[str, ...] = ()


def _modules(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(root.rglob("*.py")):
        yield path.relative_to(root.parent).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _dotted(node: ast.AST) -> str:
    """``a.b.c`` for such an expression, nothing for another."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([*([node.id] if isinstance(node, ast.Name) else [""]), *reversed(parts)])


def _uses(where: str, tree: ast.AST) -> Iterator[Use]:
    """Every dotted name of a tree, with the arguments where it is called."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            arguments, keywords, call = None, (), called.get(id(node))
            if call is not None and not any(isinstance(argument, ast.Starred) for argument in call.args):
                keywords = tuple(keyword.arg or "" for keyword in call.keywords)
                arguments = len(call.args) if "" not in keywords else None
            yield Use(_dotted(node), f"{where}:{node.lineno}", arguments, keywords)


def _texts(where: str, tree: ast.AST) -> Iterator[Use]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Use(node.value, f"{where}:{node.lineno}")


def torch_c(root: Path = PACKAGE) -> list[Use]:
    """The functions of ``torch._C`` for MPS that our code names."""
    found = []
    for where, tree in _modules(root):
        for use in itertools.chain(_uses(where, tree), _texts(where, tree)):
            name = _TORCH_C.fullmatch(use.name)
            if name:
                found.append(dataclasses.replace(use, name=name[1]))
    return found


def torch_mps(root: Path = PACKAGE, targets: Iterable[str] = ()) -> list[Use]:
    """List the names of ``torch.mps`` in our code, methods of events included; ``targets`` are those of patches."""
    found = [Use(target, "a patch's target") for target in targets if target.startswith("torch.mps.")]
    for where, tree in _modules(root):
        # An event that is kept in an attribute is one under every holder's name.
        events = {
            ast.unparse(target) if isinstance(target, ast.Name) else f".{target.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            if _dotted(node.value.func) == "torch.mps.Event"
            for target in node.targets
            if isinstance(target, (ast.Name, ast.Attribute))
        }
        for use in _uses(where, tree):
            holder, _, method = use.name.rpartition(".")
            if use.name.startswith("torch.mps."):
                found.append(use)
            elif holder in events or f".{holder.rpartition('.')[2]}" in events:
                found.append(dataclasses.replace(use, name=f"torch.mps.Event.{method}"))
        found += [use for use in _texts(where, tree) if re.fullmatch(r"torch\.mps(\.\w+)+", use.name)]
    return found


def metal(root: Path = PACKAGE) -> tuple[list[Use], list[Use]]:
    """Return the functions of pyobjc's Metal that are called, and the selectors that Metal's device is asked with."""
    functions, selectors = [], []
    for where, tree in _modules(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            place = f"{where}:{node.lineno}"
            if isinstance(node.func, ast.Name) and node.func.id == "_ask" and len(node.args) == 2:
                name = node.args[1]
                if isinstance(name, ast.Constant):
                    selectors.append(Use(str(name.value), place))
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in _METAL:
                functions.append(Use(node.func.attr, place))
    return functions, selectors


def mlx(root: Path = PACKAGE / "fallback") -> list[Use]:
    """List the names of ``mlx.core``, which every function that computes with it takes as ``mx``."""
    found = []
    for where, tree in _modules(root):
        found += [
            dataclasses.replace(use, name=use.name.removeprefix("mx."))
            for use in _uses(where, tree)
            if use.name.startswith("mx.")
        ]
    return found


def mlx_by_table(functions: Iterable[object], root: Path = PACKAGE / "fallback" / "mlx_ops") -> list[Use]:
    """List the names of ``mlx.core`` that functions take from a table: ``getattr(mx, name)`` in a closure."""
    sites = {str(path): _by_name(path) for path in root.glob("*.py")}
    found = []
    for function in functions:
        code = getattr(function, "__code__", None)
        if code is not None and code.co_filename in sites:
            variables = inspect.getclosurevars(function).nonlocals
            where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
            for owner, variable, call in sites[code.co_filename].get(code.co_firstlineno, ()):
                if isinstance(variables.get(variable), str):
                    keywords = tuple(keyword.arg or "" for keyword in call.keywords) if call else ()
                    name = f"{owner}.{variables[variable]}" if owner else variables[variable]
                    found.append(Use(name, where, None, keywords))
    return found


def _by_name(path: Path) -> dict[int, list[tuple[str, str, ast.Call | None]]]:
    """By the line of a function: the owner in ``mx``, the variable with the name, and the call of what was found."""
    sites: dict[int, list[tuple[str, str, ast.Call | None]]] = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                    owner, name = _dotted(node.args[0]), node.args[1]
                    if owner.split(".")[0] == "mx" and isinstance(name, ast.Name):
                        site = (owner.partition(".")[2], name.id, called.get(id(node)))
                        sites.setdefault(function.lineno, []).append(site)
    return sites


def words_of_the_double(root: Path = _CSRC) -> list[Use]:
    """List the texts of our device that only the Apple GPU has; a single word is a name, not a text."""
    found = []
    for path in sorted(path for pattern in _OF_THE_DOUBLE for path in root.rglob(pattern)):
        text = re.sub(r"//.*", "", _mps_half(path.read_text(encoding="utf-8")))
        # Literals that stand beside each other are one, as for the compiler.
        for literal in _LITERAL.finditer(re.sub(r'"\s*\n\s*"', "", text)):
            found.append(Use(literal[1].replace(r"\"", '"'), path.relative_to(root).as_posix()))
    return [use for use in found if " " in use.name.strip()]


def words_of_rows() -> list[Use]:
    """List what rows of the contract have our device say where it is an Apple GPU."""
    from torchdevice_cuda import contract

    rows = contract.read_operators().values()
    return [Use(one["words"], "contract/operators.toml") for row in rows for one in row.get("mps_refuses", ())]


def _mps_half(text: str) -> str:
    """Return a source as the compiler sees it where the device is an Apple GPU; blank lines for the others."""
    out, standing = [], [True]
    for line in text.splitlines():
        directive = line.split("//")[0].split()
        if directive[:1] in (["#ifdef"], ["#ifndef"], ["#if"]):
            of_cuda = directive[1:] == ["HOSTDEVICE_CUDA"]
            standing.append(not (of_cuda and directive[0] == "#ifdef"))
        elif directive == ["#else"]:
            standing[-1] = not standing[-1]
        elif directive == ["#endif"]:
            standing.pop()
        out.append(line if all(standing) else "")
    return "\n".join(out)
