"""Find the uses of CUDA in a file: names of torch however they were imported, devices in strings, methods."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from ...settings.setting_support import MPS
from . import catalogue, rules
from .rules import FALLBACK, UNSUPPORTED, WORKS, Verdict

#: A file without any of these has no findings: most files of most projects.
INTERESTING = re.compile(
    rb"cuda|nccl|triton|tensorrt|"
    + b"|".join(name.encode() for name in rules.BY_NAME if "." not in name and ":" not in name)
)
#: On an Apple GPU any function of torch may be missing, if the file uses CUDA at all.
_DEVICE = re.compile(r"cuda(:\d+)?")
#: Names that are checked: torch's, and those of libraries with a rule.
_ROOTS = {"torch", "cuda", *(name.partition(".")[0] for name in rules.BY_NAME if name[0] != "." and ":" not in name)}
_METHODS = {"cuda", "is_cuda", "double"}
_CUDA = "torch.cuda."


class Use(NamedTuple):
    """One use of CUDA."""

    line: int
    column: int
    what: str
    rule: str
    verdict: Verdict


def uses(source: bytes, driver: str) -> list[Use]:
    """List all uses in a file; raise ``SyntaxError`` or ``ValueError`` if it is not Python."""
    if not INTERESTING.search(source):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about invalid escapes in the project
        tree = ast.parse(source)
    found = dict.fromkeys(_Finder(driver).look(tree))
    return sorted(found, key=lambda use: (use.line, use.column, use.what))


def _nodes(tree: ast.Module) -> list[ast.AST]:
    """Return every node; ``ast.walk`` takes a third longer."""
    found: list[ast.AST] = [tree]
    for node in found:  # the list grows meanwhile
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif type(value) is list:
                found.extend(each for each in value if isinstance(each, ast.AST))
    return found


class _Finder:
    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._imported: dict[str, str] = {}

    def look(self, tree: ast.Module) -> Iterator[Use]:
        nodes = _nodes(tree)
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import(node)
        for node in nodes:
            if isinstance(node, ast.Attribute):
                if id(node) not in inner:
                    yield from self._attribute(node)
            elif isinstance(node, ast.Name):
                if id(node) not in inner and isinstance(node.ctx, ast.Load) and node.id in self._imported:
                    yield from self._named(node, self._imported[node.id])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._text(node, node.value)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                self._imported[alias.asname or root] = alias.name if alias.asname else root
                if root in _ROOTS and root != "torch":
                    yield from self._named(node, alias.name, quiet=True)
        elif node.module is not None and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                self._imported[alias.asname or alias.name] = full
                if node.module.partition(".")[0] in _ROOTS:
                    yield from self._named(node, full, quiet=True)

    def _attribute(self, node: ast.Attribute) -> Iterator[Use]:
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self._imported:
            yield from self._named(node, ".".join([self._imported[inner.id], *reversed(parts)]))
        elif node.attr in _METHODS:
            found = rules.of_name(f".{node.attr}", self._driver)
            yield Use(node.lineno, node.col_offset, f".{node.attr}", *(found or ("device", Verdict(WORKS))))

    def _named(self, node: ast.stmt | ast.expr, name: str, quiet: bool = False) -> Iterator[Use]:
        """Yield the use of an imported name. ``quiet``: only if a rule names it; its uses are checked, too."""
        root = name.partition(".")[0]
        if root not in _ROOTS:
            return
        found = rules.of_name(name, self._driver)
        if found is None and name.startswith(_CUDA) and not quiet:
            first = name.removeprefix(_CUDA).partition(".")[0]
            known = catalogue.published()
            absent = Verdict(UNSUPPORTED, "the installed torch has no such name")
            is_absent = known and first not in known and not first.startswith("__")
            found = ("absent", absent) if is_absent else ("torch.cuda", Verdict(WORKS))
        if found is None and self._driver == MPS and root == "torch" and catalogue.leaves_the_apple_gpu(name):
            advice = "the Apple GPU has no kernel: MLX or the CPU computes, with a copy each way"
            found = ("no-kernel", Verdict(FALLBACK, advice))
        if found is not None:
            yield Use(node.lineno, node.col_offset, name, *found)

    def _text(self, node: ast.Constant, text: str) -> Iterator[Use]:
        if text == "nccl":
            found = rules.of_name(text, self._driver)
            if found is not None:
                yield Use(node.lineno, node.col_offset, '"nccl"', *found)
        elif _DEVICE.fullmatch(text):
            yield Use(node.lineno, node.col_offset, f'"{text}"', *rules.of_device(text, self._driver))
