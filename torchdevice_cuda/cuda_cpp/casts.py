"""Keep the types of kernels that programs cast to ``void*``: arguments of a launch are read by them."""

from __future__ import annotations

from collections.abc import Iterator

from .tokens import CLOSING, Token, after, before, closing

_LAUNCHES = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel"}
_CASTS = {"reinterpret_cast", "static_cast"}


def keep_types(tokens: list[Token], texts: list[str], kernels: set[str]) -> None:
    """Drop the casts of what is launched; elsewhere, note the type of a kernel (include/host_cuda/kept_kernels.h)."""
    for at, token in enumerate(tokens):
        if token.kind == "name" and token.text in _LAUNCHES:
            _drop_cast(tokens, texts, at)
    for start, end in _list_casts(tokens, kernels):
        if texts[start]:
            texts[start] = f"::host_cuda::keep_kernel({texts[start]}"
            texts[end] += ")"


def _drop_cast(tokens: list[Token], texts: list[str], at: int) -> None:
    """Drop the cast of a launched kernel to ``void*``."""
    bracket = after(tokens, at)
    start = after(tokens, bracket) if tokens[bracket].text == "(" else bracket
    if tokens[start].text == "reinterpret_cast":
        end = next(i for i in range(start, len(tokens)) if tokens[i].text in (">", ";"))
    else:
        end = closing(tokens, start) if tokens[start].text == "(" else start
    if _is_pointer(tokens[start + 1 : end]):
        for i in range(start, end + 1):
            texts[i] = ""


def _is_pointer(tokens: list[Token]) -> bool:
    words = [token.text for token in tokens if token.kind != "space" and token.text not in ("<", "const")]
    return words == ["void", "*"]


def _list_casts(tokens: list[Token], kernels: set[str]) -> Iterator[tuple[int, int]]:
    """List the first and last tokens of kernels that are cast: ``(void*)kernel<float, 2>``."""
    for at, token in enumerate(tokens):
        if token.kind != "name" or token.text not in kernels:
            continue
        start = at
        while tokens[before(tokens, start)].text == "::":
            scope = before(tokens, before(tokens, start))
            start = scope if tokens[scope].kind == "name" else before(tokens, start)
        cast = before(tokens, start)
        if tokens[cast].text == "&":
            start, cast = cast, before(tokens, cast)
        end = _find_end(tokens, at)
        following = after(tokens, end)
        is_variable = following < len(tokens) and tokens[following].text in ("[", ".", "->", "(")
        if not is_variable and _is_cast(tokens, cast):
            yield start, end


def _is_cast(tokens: list[Token], at: int) -> bool:
    """Return whether a cast to ``void*`` ends at a token: ``(void*)`` or ``reinterpret_cast<void*>(``."""
    if tokens[at].text == ")":
        first = next((i for i in range(at, -1, -1) if tokens[i].text == "("), at)
        return _is_pointer(tokens[first + 1 : at])
    angle = before(tokens, at)
    if tokens[at].text != "(" or tokens[angle].text != ">":
        return False
    first = next((i for i in range(angle, -1, -1) if tokens[i].text == "<"), angle)
    return tokens[before(tokens, first)].text in _CASTS and _is_pointer(tokens[first + 1 : angle])


def _find_end(tokens: list[Token], at: int) -> int:
    """Return the last token of a name with its template arguments."""
    i = after(tokens, at)
    if i >= len(tokens) or tokens[i].text != "<":
        return at
    depth = 0
    while i < len(tokens):
        text = tokens[i].text
        depth += (text == "<") - (len(text) if text in (">", ">>", ">>>") else 0)
        if depth <= 0:
            return i
        i = closing(tokens, i) + 1 if text in CLOSING else i + 1
    return at
