"""Mutations of a Python file that a test should notice: one small change at a time."""

from __future__ import annotations

import ast
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Change(NamedTuple):
    """Text between two places of a file, and what stands there instead."""

    line: int
    begin: int
    end: int
    kind: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """Return the file with the change."""
        return source[: self.begin] + self.after.encode() + source[self.end :]


class _Finder(ast.NodeVisitor):
    """Walks over what runs: no annotations, no docstrings, nothing that only a checker of types reads."""

    def __init__(self, source: bytes) -> None:
        lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self.found: list[Change] = []

    def _add(self, node: ast.expr | ast.stmt, kind: str, after: ast.AST | str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        text = after if isinstance(after, str) else ast.unparse(after)
        if isinstance(after, ast.expr):
            text = f"({text})"
        self.found.append(Change(node.lineno, begin, end, kind, text))

    def visit_Compare(self, node: ast.Compare) -> None:
        first, *rest = node.ops
        other = ast.Compare(node.left, [_COMPARISONS[type(first)](), *rest], node.comparators)
        self._add(node, "comparison", other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        self._add(node, "and, or", ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, "not", node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _ARITHMETIC.get(type(node.op))
        if other is not None and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            self._add(node, "arithmetic", ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add(node, "branch", ast.IfExp(node.test, node.orelse, node.body))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.NamedExpr):
            self._add(node.test, "branch", ast.UnaryOp(ast.Not(), node.test))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, "constant", str(not node.value))
        elif isinstance(node.value, int | float):
            self._add(node, "constant", repr(node.value + 1))
        elif isinstance(node.value, str) and " " not in node.value:  # not what only people read
            self._add(node, "text", repr(f"{node.value}?"))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Its parts have the position of the whole before Python 3.12.
        self._add(node, "text", "''")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node, "return", "return None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self._add(node, "statement left out", "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "statement left out", "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if [ast.unparse(target) for target in node.targets] != ["__all__"]:
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) not in ("TypeVar", "ParamSpec", "cast", "NewType"):
            self.generic_visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(each)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)


def changes(source: bytes) -> list[Change]:
    """Every change of a file."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return finder.found


def compiles(source: bytes, change: Change) -> bool:
    """Return whether a change compiles: of adjacent strings, only all together are an expression."""
    try:
        ast.parse(change.applied(source))
    except SyntaxError:
        return False
    return True
