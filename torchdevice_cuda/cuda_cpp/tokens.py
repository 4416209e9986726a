"""C++ as tokens: enough to find CUDA's language in it, and to put everything else back as it was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/|\\\n)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
  | (?P<character>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'[\w]|[\w.])*)
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<mark><<<|<<[ \t]+<(?![<=])|>>>|::|->|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"\s*\#(?:[^\n\\]|\\.)*", re.DOTALL)
#: Closing brackets by their opening ones.
CLOSING = {"(": ")", "[": "]", "{": "}"}
OPENING = {closing: opening for opening, closing in CLOSING.items()}


class Token(NamedTuple):
    """A piece of the text. Pieces of kind ``space`` are comments and directives, too."""

    kind: str
    text: str
    line: int


def tokenize(text: str, line: int = 1) -> list[Token]:
    """Split the text into tokens; joined, they are the text again."""
    tokens = []
    at, fresh = 0, True  # at the begin of a line there may be a directive
    while at < len(text):
        directive = _DIRECTIVE.match(text, at) if fresh else None
        if directive is not None:
            kind, piece = "space", directive.group()
        else:
            found = _TOKEN.match(text, at)
            assert found is not None  # its last alternative takes anything
            kind, piece = found.lastgroup or "mark", found.group()
            if kind == "delimiter":
                kind = "raw"
        tokens.append(Token(kind, piece, line))
        fresh = kind == "space" and directive is None and (fresh or "\n" in piece)
        line += piece.count("\n")
        at += len(piece)
    return tokens


def after(tokens: list[Token], at: int) -> int:
    """Return the place of the next token that is no space; the end if there is none."""
    at += 1
    while at < len(tokens) and tokens[at].kind == "space":
        at += 1
    return at


def before(tokens: list[Token], at: int) -> int:
    """Return the place of the token before that is no space, or -1."""
    at -= 1
    while at >= 0 and tokens[at].kind == "space":
        at -= 1
    return at


def closing(tokens: list[Token], at: int) -> int:
    """Return the position of the closing bracket; the end if there is none."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].kind == "mark":
            if tokens[i].text in CLOSING:
                depth += 1
            elif tokens[i].text in OPENING:
                depth -= 1
                if depth == 0:
                    return i
    return len(tokens)


def opening(tokens: list[Token], at: int) -> int:
    """Return the position of the opening bracket, or -1."""
    depth = 0
    for i in range(at, -1, -1):
        if tokens[i].kind == "mark":
            if tokens[i].text in OPENING:
                depth += 1
            elif tokens[i].text in CLOSING:
                depth -= 1
                if depth == 0:
                    return i
    return -1


def replace(
    tokens: list[Token], replacements: Iterable[tuple[int, int, str]], spans: list[tuple[int, int, int]]
) -> tuple[list[Token], list[tuple[int, int, int]]]:
    """Replace stretches of tokens (start, end) by texts, in their order; lines stay lines. An empty one is inserted.

    Spans of tokens (a number, start, end) follow.
    """
    made: list[Token] = []
    moved = list(range(len(tokens) + 1))  # the new positions of the tokens
    last = 0
    for start, end, written in replacements:
        for at in range(last, start + 1):
            moved[at] = len(made) + at - last
        inside = tokens[start:end]
        made.extend(tokens[last:start])
        made.extend(tokenize(written, tokens[start].line))
        for at in range(start + 1, end):
            moved[at] = len(made)
        newlines = "\n" * sum(token.text.count("\n") for token in inside)
        made.extend([Token("space", newlines, tokens[start].line)] if newlines else [])
        last = end
    for at in range(last, len(tokens) + 1):
        moved[at] = len(made) + at - last
    made.extend(tokens[last:])
    return made, [(number, moved[start], moved[end]) for number, start, end in spans]
