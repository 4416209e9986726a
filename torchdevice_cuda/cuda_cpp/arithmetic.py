"""Count the arithmetic of kernels as they run: each block of statements adds what its text shows.

Additions, products and functions of floating-point numbers count, as far as the text tells them from other arithmetic:
indices in brackets, headers of loops and declarations of integers do not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from . import plain
from .functions import Kernel
from .tokens import Token, after, before, closing, opening

_CALL = "::host_cuda::compute({}u)"
_INTEGERS = frozenset(
    "int unsigned long short char bool size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t "
    "ptrdiff_t dim3 uint3".split()
)
#: Functions, and how many additions take a GPU as long.
_FUNCTIONS = {
    **dict.fromkeys(("fma", "fmaf", "__fmaf_rn", "__hfma", "__hfma2"), 2),
    **dict.fromkeys(
        "exp expf __expf exp2f log logf __logf log2f sqrt sqrtf rsqrt rsqrtf sin sinf __sinf cos cosf __cosf tan tanf "
        "tanh tanhf pow powf __powf erf erff".split(),
        16,
    ),
    "__syncthreads": 8,
}
#: The same for an access to shared memory: a multiprocessor makes 32 in a cycle, and 256 additions.
_SHARED = 8


@dataclasses.dataclass
class _Owner:
    """Statements that run together: where to insert the call, and what they compute."""

    end: int
    inserts: tuple[tuple[int, str], ...]  # with {} for the operations
    operations: int = 0


def list_replacements(tokens: list[Token], kernels: list[Kernel]) -> list[tuple[int, int, str]]:
    """Return the calls to insert into the bodies of kernels and of other functions."""
    bodies = [(kernel.body, kernel.end) for kernel in kernels]
    shared = _list_shared(tokens)
    inserts: list[tuple[int, str]] = []
    last = -1
    for start, end in sorted(_list_functions(tokens, bodies)):
        if start > last and end < len(tokens):
            inserts += _count_body(tokens, start, end, shared)
            last = end
    return [(at, at, text) for at, text in sorted(inserts, key=lambda one: one[0])]


def _list_functions(tokens: list[Token], kernels: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return where bodies of functions are, kernels too; functions of constants cannot count."""
    yield from kernels
    for _, body, end in plain.Reach(tokens, kernels).list_functions():
        at, is_constant = before(tokens, body), False
        while at >= 0 and tokens[at].text not in (";", "{", "}"):
            is_constant |= tokens[at].text in ("constexpr", "consteval")
            at = before(tokens, opening(tokens, at) if tokens[at].text == ")" else at)
        if not is_constant:
            yield body, end


def _list_shared(tokens: list[Token]) -> frozenset[str]:
    """Return the names of arrays in shared memory."""
    found, is_declared = set(), False
    for i, token in enumerate(tokens):
        is_declared = token.text == "__shared__" or (is_declared and token.text != ";")
        last = after(tokens, i)
        if is_declared and token.kind == "name" and last < len(tokens) and tokens[last].text == "[":
            found.add(token.text)
    return frozenset(found)


def _count_body(tokens: list[Token], start: int, end: int, shared: frozenset[str]) -> Iterator[tuple[int, str]]:
    owners = [_Owner(end, ((start + 1, f" {_CALL};"),))]
    i = start + 1
    while i < end:
        while len(owners) > 1 and i >= owners[-1].end:
            yield from _write(owners.pop())
        text = tokens[i].text
        if text in ("for", "while") and (made := _read_loop(tokens, i, end)):
            owner, i = made
            owners.append(owner)
        elif text == "{" and _runs_as_one(tokens, i):
            owners.append(_Owner(closing(tokens, i), ((i + 1, f" {_CALL};"),)))
            i += 1
        elif text == "[":
            i = after(tokens, closing(tokens, i))
        elif text in _INTEGERS and tokens[before(tokens, i)].text in (";", "{", "}", "const"):
            while i < end and tokens[i].text not in (";", "{"):
                i += 1
        else:
            owners[-1].operations += _SHARED if text in shared else _count(tokens, i)
            i += 1
    while owners:
        yield from _write(owners.pop())


def _write(owner: _Owner) -> Iterator[tuple[int, str]]:
    if owner.operations:
        for at, text in owner.inserts:
            yield at, text.format(owner.operations)


def _read_loop(tokens: list[Token], at: int, end: int) -> tuple[_Owner, int] | None:
    """Return a loop, whose condition makes the call, and where its body begins."""
    bracket = after(tokens, at)
    if bracket >= end or tokens[bracket].text != "(":
        return None
    last = closing(tokens, bracket)
    body = after(tokens, last)
    if body >= end:
        return None
    first, until = bracket + 1, last
    if tokens[at].text == "for":
        marks = [i for i in range(bracket, last) if tokens[i].text == ";"]
        if len(marks) != 2:
            return None
        first, until = marks[0] + 1, marks[1]
    is_empty = all(token.kind == "space" for token in tokens[first:until])
    inserts = ((until, _CALL),) if is_empty else ((first, f"{_CALL} && ("), (until, ")"))
    return _Owner(_find_end(tokens, body, end), inserts), body + (tokens[body].text == "{")


def _find_end(tokens: list[Token], at: int, end: int) -> int:
    """Return the end of a statement."""
    while at < end:
        text = tokens[at].text
        if text == "{":
            return closing(tokens, at)
        if text == ";":
            return at
        at = after(tokens, closing(tokens, at) if text in ("(", "[") else at)
    return end


def _runs_as_one(tokens: list[Token], at: int) -> bool:
    """Return whether a brace opens statements that may be left out, as those of ``if``."""
    i = before(tokens, at)
    if tokens[i].text in ("else", "do"):
        return True
    if tokens[i].text != ")":
        return False
    return tokens[before(tokens, opening(tokens, i))].text == "if"


def _count(tokens: list[Token], at: int) -> int:
    text = tokens[at].text
    if tokens[at].kind == "name":
        return _FUNCTIONS.get(text, 0)
    if text not in ("+", "-", "*", "/"):
        return 0
    earlier, later = tokens[before(tokens, at)], tokens[after(tokens, at)]
    is_binary = earlier.kind in ("name", "number") or earlier.text in (")", "]")
    if not is_binary or earlier.text in ("return", "auto", "float", "double", *_INTEGERS) or later.text == text:
        return 0
    return 8 if text == "/" else 1
