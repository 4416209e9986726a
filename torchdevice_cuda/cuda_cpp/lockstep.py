"""Keep the threads of a warp in step on volatile memory, by which older programs exchange values without barriers.

``s[t] += s[t + 16]; s[t] += s[t + 8];`` on volatile memory counts on a warp that executes each instruction for all of
its threads. Here threads run one after the other. So such a statement is divided: all read, then all write, and
nothing after it begins before all have written. Threads that went different ways wait for each other behind them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .statements import Node, NotParsed, Parser
from .tokens import CLOSING, Token, after, before, closing, opening

#: The function that waits, in ``include/host_cuda/device.h``. Its argument is the place in the source.
STEP = "host_cuda_step_sync"
_COMPOUND = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}


def list_replacements(tokens: list[Token]) -> Iterator[tuple[int, int, str]]:
    """List what is divided: where it begins and ends, and the text that takes its place."""
    declared = [
        i
        for i, token in enumerate(tokens)
        if token.text == "volatile" and not tokens[before(tokens, i)].text.startswith(("asm", "__asm"))
    ]
    functions = list(_list_functions(tokens)) if declared else []
    inside = {i for start, _, end in functions for i in declared if start <= i <= end}
    common = {name for i in declared if i not in inside for name in _read_names(tokens, i)}
    numbers = itertools.count()
    for start, body, end in functions:
        names = {name for i in declared if start <= i <= end for name in _read_names(tokens, i)} | common
        places = {
            i
            for i in range(body, end)
            if tokens[i].text in names and tokens[i].kind == "name" and tokens[after(tokens, i)].text == "["
        }
        if not places:
            continue
        try:
            root = Parser(tokens).parse_body(body, end)
        except NotParsed:
            continue
        found = [_Assignment(tokens, node) for node in root.walk() if node.kind == "express"]
        written = {one.start: one for one in found if places & one.stored}
        if not places <= {at for one in written.values() for at in one.stored}:  # else threads only write, or only read
            yield from _divide(root, written, numbers)


def _divide(node: Node, written: dict[int, _Assignment], numbers: Iterator[int]) -> Iterator[tuple[int, int, str]]:
    """Divide the assignments in a statement; let threads wait for each other behind a condition or a loop."""
    if node.kind == "express" and node.start in written:
        yield node.start, node.end, written[node.start].divide(next(numbers), next(numbers))
    if node.kind in ("block", "switch", "meta"):
        for child in node.children:
            yield from _divide(child, written, numbers)
        return
    inner = [part for child in node.children for part in _divide(child, written, numbers)]
    if inner:
        yield node.start, node.start, "{ "
        yield from inner
        yield node.end, node.end, f" {STEP}({next(numbers)}); }}"


def _list_functions(tokens: list[Token]) -> Iterator[tuple[int, int, int]]:
    """List where the parameters of functions begin, and where their bodies begin and end."""
    i = 0
    while i < len(tokens):
        if tokens[i].text == "{" and tokens[i].kind == "mark":
            last = before(tokens, i)
            while last >= 0 and tokens[last].text in ("const", "noexcept", "override", "final"):
                last = before(tokens, last)
            if last >= 0 and tokens[last].text == ")":
                end = closing(tokens, i)
                yield opening(tokens, last), i, end
                i = end
        i += 1


def _read_names(tokens: list[Token], at: int) -> Iterator[str]:
    """List the pointers and arrays that a declaration with ``volatile`` at a position declares."""
    name, is_memory, i = "", False, after(tokens, at)
    while i < len(tokens):
        text = tokens[i].text
        if text in (",", ")", ";", "=", "[", "{", "}"):
            if name and (is_memory or text == "["):
                yield name
            while i < len(tokens) and tokens[i].text not in (",", ")", ";", "}"):
                i = closing(tokens, i) + 1 if tokens[i].text in CLOSING else i + 1
            if i >= len(tokens) or tokens[i].text != "," or tokens[after(tokens, i)].text != "*":
                return
            name, is_memory = "", False
        elif text == "*":
            is_memory = True
        else:
            name = text if tokens[i].kind == "name" else ""
        i = after(tokens, i)


class _Assignment:
    """A statement that assigns, perhaps to several variables: ``s[t] = sum = sum + s[t + 16];``."""

    def __init__(self, tokens: list[Token], node: Node) -> None:
        self._tokens = tokens
        self.start = node.start
        self._lefts: list[tuple[int, int]] = []
        self._operator = ""  # of the last one, without its =
        self._right = (node.start, node.end - 1)
        if not self._read():
            self._lefts = []

    @property
    def stored(self) -> set[int]:
        """Return the positions of what is assigned to."""
        return {start for start, _ in self._lefts}

    def _read(self) -> bool:
        tokens = self._tokens
        while True:
            left, end = self._right
            i = self._skip_variable(left, end)
            operator = tokens[i].text if tokens[i].text in _COMPOUND else ""
            mark = i + 1 if operator else i
            if operator in ("+", "-") and tokens[mark].text == operator and after(tokens, mark) == end:
                self._lefts.append((left, i))
                self._operator, self._right = operator, (end, end)
                return True
            if i == left or tokens[mark].text != "=" or tokens[mark + 1].text == "=":
                return True
            if self._operator:
                return False  # `a += b = c`
            self._lefts.append((left, i))
            self._operator, self._right = operator, (after(tokens, mark), end)

    def _skip_variable(self, at: int, end: int) -> int:
        """Return the position behind a variable with its indices and members; the same if there is none."""
        tokens, i = self._tokens, at
        if tokens[i].kind != "name":
            return at
        i = after(tokens, i)
        while i < end and tokens[i].text in ("[", ".", "->"):
            i = after(tokens, closing(tokens, i) if tokens[i].text == "[" else after(tokens, i))
        return i

    def _text(self, span: tuple[int, int]) -> str:
        return "".join(" " if token.kind == "space" else token.text for token in self._tokens[slice(*span)]).strip()

    def divide(self, first: int, second: int) -> str:
        """Return the statement in two halves, each of which all threads of a warp end together."""
        last, value = self._text(self._lefts[-1]), self._text(self._right)
        if self._operator:
            value = f"{last} {self._operator} ({value or 1})"
        targets = " = ".join(map(self._text, self._lefts))
        name = f"host_cuda_read_{first}"
        return f"{{ auto {name} = {value}; {STEP}({first}); {targets} = {name}; {STEP}({second}); }}"
