"""Find uses of ``gridDim`` and its relatives that are the program's own: members, parameters and local variables.

``dim3 blockDim(16, 16);`` in a function of the host hides CUDA's variable from there on.
"""

from __future__ import annotations

from .tokens import Token, before

_NO_TYPES = {"return", "case", "else", "do", "throw", "goto", "co_return", "co_yield", "sizeof", "new", "delete"}


def find_own(tokens: list[Token], names: frozenset[str], depths: list[int]) -> set[int]:
    """Return the positions. `depths` counts the braces around each token that are no namespace's and no class's."""
    own: set[int] = set()
    hidden: set[str] = set()  # in the function that is read, or in the one whose parameters are
    was_inside = False
    for at, token in enumerate(tokens):
        is_inside = depths[at] > 0
        if was_inside and not is_inside or not is_inside and token.text == ";":
            hidden.clear()
        was_inside = is_inside
        if token.kind != "name" or token.text not in names:
            continue
        i = before(tokens, at)
        if i >= 0 and tokens[i].text in (".", "->", "::"):
            own.add(at)
        elif i >= 0 and (_ends_type(tokens[i]) or _declares(tokens, i)):
            hidden.add(token.text)
        if token.text in hidden:
            own.add(at)
    return own


def _ends_type(token: Token) -> bool:
    return token.kind == "name" and token.text not in _NO_TYPES


def _declares(tokens: list[Token], at: int) -> bool:
    """Return whether the sign before a name is of a declaration: ``dim3& grid`` or ``dim3 grid(1), block(2)``."""
    i = before(tokens, at)
    if tokens[at].text not in ("&", ","):
        return False
    if tokens[at].text == "&":
        return i >= 0 and tokens[i].text in ("dim3", "uint3", "auto")
    depth, first = 0, i
    while i >= 0 and tokens[i].text not in (";", "{", "}"):
        depth += (tokens[i].text == ")") - (tokens[i].text == "(")
        if depth < 0:
            return False  # an argument
        first, i = i, before(tokens, i)
    return tokens[first].text in ("dim3", "uint3")
