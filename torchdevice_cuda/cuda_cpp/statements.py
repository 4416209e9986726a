"""Statements of a function's body, read from its tokens.

Enough of C++'s grammar to tell declarations from expressions and to find the parts of loops and conditions. A body with
something else in it (labels, ``goto``, exceptions) raises `NotParsed`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from .tokens import CLOSING, OPENING, Token, after, closing

_QUALIFIERS = {
    "const", "volatile", "register", "__restrict__", "__restrict", "restrict", "typename", "struct", "class", "signed",
    "unsigned", "long", "short", "int", "char", "float", "double", "bool", "auto", "mutable",
}  # fmt: skip
_BASIC = {"signed", "unsigned", "long", "short", "int", "char", "float", "double", "bool", "auto", "void", "wchar_t"}
_META = {"using", "typedef", "static_assert", "constexpr", "static", "enum"}
_UNREAD = {"goto", "try", "catch", "case", "default", "co_await", "co_return", "co_yield", "throw"}
_NO_TYPE = {
    "return", "new", "delete", "sizeof", "throw", "else", "operator", "static_cast", "reinterpret_cast", "const_cast",
    "true", "false", "nullptr", "this", "alignof", "decltype", "asm", "__asm__", "__asm",
}  # fmt: skip
#: The marks of a declaration's specifiers; what is after them may be an initializer.
_AFTER_NAME = ("=", ";", ",", "[", "(", "{")


class NotParsed(Exception):
    """The body has a statement that this file does not read; the message names it."""


@dataclasses.dataclass
class Variable:
    """A variable of a declaration: positions of its tokens, ends excluded."""

    name: str
    at: int  # the position of its name
    specifiers: tuple[int, int]
    declarator: tuple[int, int]  # with the pointers before the name, the sizes after it and the initializer
    initial: tuple[int, int] | None  # after ``=``, or with its brackets
    sizes: tuple[int, int]  # of an array, with the brackets; else empty
    is_reference: bool = False
    is_pointer: bool = False
    is_const: bool = False
    is_auto: bool = False


@dataclasses.dataclass
class Node:
    """A statement: its tokens and its parts."""

    kind: str  # block if for while do switch return break continue declare shared meta express empty
    start: int
    end: int
    condition: tuple[int, int] = (0, 0)
    step: tuple[int, int] = (0, 0)
    initial: Node | None = None
    children: list[Node] = dataclasses.field(default_factory=list)
    variables: list[Variable] = dataclasses.field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """List the statement and all statements in it."""
        yield self
        if self.initial is not None:
            yield from self.initial.walk()
        for child in self.children:
            yield from child.walk()


class Parser:
    """Read the statements between two braces."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens

    def parse_body(self, start: int, end: int) -> Node:
        """Return the block that the braces at two positions enclose."""
        node = Node("block", start, end + 1)
        at = after(self._tokens, start)
        while at < end:
            child = self._parse(at, end)
            node.children.append(child)
            at = after(self._tokens, child.end - 1)
        return node

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _find_semicolon(self, at: int, end: int) -> int:
        while at < end:
            text = self._text(at)
            if text == ";":
                return at
            at = closing(self._tokens, at) + 1 if text in CLOSING and self._tokens[at].kind == "mark" else at + 1
        raise NotParsed(f"a statement without an end at line {self._tokens[min(at, end) - 1].line}")

    def _parse(self, at: int, end: int) -> Node:
        text, kind = self._text(at), self._tokens[at].kind
        if text == "{":
            return self.parse_body(at, closing(self._tokens, at))
        if text == ";":
            return Node("empty", at, at + 1)
        if kind == "name":
            if text in _UNREAD:
                raise NotParsed(f"{text} at line {self._tokens[at].line}")
            read = getattr(self, f"_parse_{text}", None)
            if read is not None:
                node: Node = read(at, end)
                return node
            if self._text(after(self._tokens, at)) == ":":
                raise NotParsed(f"a label at line {self._tokens[at].line}")
        stop = self._find_semicolon(at, end)
        if text in ("return", "break", "continue"):
            return Node(text, at, stop + 1)
        words = [i for i in range(at, stop) if self._tokens[i].kind == "name"]
        if any(self._text(i) == "__shared__" for i in words):
            return Node("shared", at, stop + 1)
        if text in _META or any(self._text(i) == "constexpr" for i in words[:3]):
            if text == "static" and not any(self._text(i) in ("const", "constexpr") for i in words[:3]):
                raise NotParsed(f"a static variable at line {self._tokens[at].line}")
            return Node("meta", at, stop + 1)
        variables = self._read_declaration(at, stop) if kind == "name" or text == "::" else None
        if variables is not None:
            return Node("declare", at, stop + 1, variables=variables)
        if text in ("struct", "class", "union"):
            return Node("meta", at, stop + 1)
        return Node("express", at, stop + 1)

    # --------------------------------------------------------- statements with parts
    def _parse_if(self, at: int, end: int) -> Node:
        node = Node("if", at, at)
        i = after(self._tokens, at)
        if self._text(i) == "constexpr":
            i = after(self._tokens, i)
        close = closing(self._tokens, i)
        node.condition = (i + 1, close)
        if any(self._text(k) == ";" for k in range(i, close)):
            raise NotParsed(f"an if with a declaration at line {self._tokens[at].line}")
        child = self._parse(after(self._tokens, close), end)
        node.children.append(child)
        follows = after(self._tokens, child.end - 1)
        if follows < end and self._text(follows) == "else":
            child = self._parse(after(self._tokens, follows), end)
            node.children.append(child)
        node.end = child.end
        return node

    def _parse_while(self, at: int, end: int) -> Node:
        i = after(self._tokens, at)
        close = closing(self._tokens, i)
        child = self._parse(after(self._tokens, close), end)
        return Node("while", at, child.end, condition=(i + 1, close), children=[child])

    def _parse_switch(self, at: int, end: int) -> Node:
        i = after(self._tokens, at)
        close = closing(self._tokens, i)
        body = after(self._tokens, close)
        if self._text(body) != "{":
            raise NotParsed(f"a switch without braces at line {self._tokens[at].line}")
        return Node("switch", at, closing(self._tokens, body) + 1, condition=(i + 1, close))

    def _parse_do(self, at: int, end: int) -> Node:
        child = self._parse(after(self._tokens, at), end)
        i = after(self._tokens, after(self._tokens, child.end - 1))
        close = closing(self._tokens, i)
        stop = self._find_semicolon(close + 1, end)
        return Node("do", at, stop + 1, condition=(i + 1, close), children=[child])

    def _parse_for(self, at: int, end: int) -> Node:
        i = after(self._tokens, at)
        close = closing(self._tokens, i)
        node = Node("for", at, at)
        marks, k = [], i + 1
        while k < close:
            if self._text(k) == ";":
                marks.append(k)
            k = closing(self._tokens, k) + 1 if self._text(k) in CLOSING and self._tokens[k].kind == "mark" else k + 1
        child = self._parse(after(self._tokens, close), end)
        node.children, node.end = [child], child.end
        if len(marks) != 2:
            node.kind = "range"
            node.condition = (i + 1, close)
            return node
        first = after(self._tokens, i)
        if first != marks[0]:
            node.initial = self._parse(first, close)
        node.condition, node.step = (marks[0] + 1, marks[1]), (marks[1] + 1, close)
        return node

    # --------------------------------------------------------- declarations
    def _read_declaration(self, at: int, stop: int) -> list[Variable] | None:
        """Return the variables of a declaration; nothing if the statement is none."""
        i, named, specifiers = at, False, []
        while i < stop:
            text, kind = self._text(i), self._tokens[i].kind
            if text in ("alignas", "__attribute__", "__align__", "decltype"):
                named = named or text == "decltype"
                specifiers.append(text)
                i = after(self._tokens, closing(self._tokens, after(self._tokens, i)))
            elif text in _QUALIFIERS:
                named = named or text in _BASIC
                specifiers.append(text)
                i = after(self._tokens, i)
            elif (kind == "name" or text == "::") and not named and text not in _NO_TYPE:
                i = self._skip_qualified(i, stop)
                if i < 0:
                    return None
                named = True
                specifiers.append("?")
            else:
                break
        if not named:
            return None
        head, variables = (at, i), []
        while True:
            variable, i = self._read_declarator(head, i, stop, specifiers)
            if variable is None:
                return None
            variables.append(variable)
            if i >= stop:
                return variables
            i = after(self._tokens, i)  # the comma

    def _skip_qualified(self, i: int, stop: int) -> int:
        """Return the position after a type's name with its scopes and arguments, or -1."""
        if self._text(i) == "::":
            i = after(self._tokens, i)
        while True:
            if i >= stop or self._tokens[i].kind != "name":
                return -1
            i = after(self._tokens, i)
            if self._text(i) == "<":
                depth = 0
                while i < stop:
                    text = self._text(i)
                    if text in CLOSING and self._tokens[i].kind == "mark":
                        i = closing(self._tokens, i)
                    elif text == "<":
                        depth += 1
                    elif text in (">", ">>", ">>>"):
                        depth -= len(text)
                        if depth <= 0:
                            break
                    i += 1
                if i >= stop:
                    return -1
                i = after(self._tokens, i)
            if self._text(i) != "::":
                return i
            i = after(self._tokens, i)
            if self._text(i) == "template":
                i = after(self._tokens, i)

    def _read_declarator(
        self, head: tuple[int, int], at: int, stop: int, specifiers: list[str]
    ) -> tuple[Variable | None, int]:
        i, pointers = at, []
        while self._text(i) in ("*", "&", "const", "__restrict__", "__restrict", "volatile"):
            pointers.append(self._text(i))
            i = after(self._tokens, i)
        if i >= stop or self._tokens[i].kind != "name" or self._text(i) in _NO_TYPE:
            return None, stop
        name, follows = i, after(self._tokens, i)
        if self._text(follows) not in _AFTER_NAME:
            return None, stop
        i, sizes = follows, (follows, follows)
        while self._text(i) == "[":
            i = after(self._tokens, closing(self._tokens, i))
            sizes = (sizes[0], i)
        begin, initial = i, None
        while i < stop and self._text(i) != ",":
            i = closing(self._tokens, i) + 1 if self._text(i) in CLOSING and self._tokens[i].kind == "mark" else i + 1
            if self._text(i) == "<" and self._is_template(i, stop):
                i = self._skip_angles(i)
        if begin < i:
            initial = (after(self._tokens, begin), i) if self._text(begin) == "=" else (begin, i)
        is_const = "const" in pointers[-1:] or ("const" in specifiers and "*" not in pointers)
        return (
            Variable(
                self._text(name), name, head, (at, i), initial, sizes, "&" in pointers, "*" in pointers, is_const,
                "auto" in specifiers,
            ),
            i,
        )  # fmt: skip

    def _is_template(self, at: int, stop: int) -> bool:
        """Return whether a ``<`` in an initializer opens a template's arguments: its ``>`` is followed by ( or ::."""
        end = self._skip_angles(at)
        return end <= stop and self._text(end) in ("(", "::", "{")

    def _skip_angles(self, at: int) -> int:
        depth, i = 0, at
        while i < len(self._tokens):
            text = self._text(i)
            if text == ";" or text in OPENING:
                break
            if text in CLOSING and self._tokens[i].kind == "mark":
                i = closing(self._tokens, i)
            elif text == "<":
                depth += 1
            elif text in (">", ">>"):
                depth -= len(text)
                if depth <= 0:
                    return after(self._tokens, i)
            i += 1
        return len(self._tokens) + 1


def declare_counters(root: Node, tokens: list[Token], texts: list[str]) -> None:
    """Declare in its loops a variable that is only a counter of loops, each of which sets it first.

    ``int i; for (i = 0; ...)`` becomes ``int i; for (int i = 0; ...)``: then each loop has its own.
    """
    declared = [(node, variable) for node in root.walk() for variable in node.variables]
    for node, variable in declared:
        names = [other.name for _, other in declared]
        if names.count(variable.name) > 1 or variable.is_pointer or variable.is_reference or variable.is_auto:
            continue
        loops = [loop for loop in root.walk() if loop.kind == "for" and _sets(loop, variable.name, tokens)]
        outer = [loop for loop in loops if not any(o is not loop and o.start <= loop.start < o.end for o in loops)]
        used = (i for i in range(node.end, root.end) if tokens[i].text == variable.name and tokens[i].kind == "name")
        if not outer or not all(any(loop.start <= i < loop.end for loop in outer) for i in used):
            continue
        kind = " ".join(tokens[i].text for i in range(*variable.specifiers) if tokens[i].kind != "space")
        for loop in outer:
            initial = loop.initial
            assert initial is not None
            texts[initial.start] = f"{kind} {texts[initial.start]}"
            mark = after(tokens, initial.start)
            own = dataclasses.replace(
                variable,
                at=initial.start,
                declarator=(initial.start, initial.end - 1),
                initial=(after(tokens, mark), initial.end - 1),
                specifiers=(initial.start, initial.start),
            )
            loop.initial = Node("declare", initial.start, initial.end, variables=[own])


def _sets(loop: Node, name: str, tokens: list[Token]) -> bool:
    """Return whether a loop begins with an assignment to a variable, and nothing else."""
    initial = loop.initial
    if initial is None or initial.kind != "express" or tokens[initial.start].text != name:
        return False
    inside = [tokens[i].text for i in range(initial.start, initial.end) if tokens[i].kind != "space"]
    return inside[1] == "=" and inside[2] != "=" and "," not in inside
