"""Give variables of the GPU the linkage that nvcc gives them.

Without ``-rdc=true``, a ``__constant__``, ``__device__`` or ``__managed__`` variable belongs to its source file, even
if it is declared without ``static``: two sources of an extension may define the same name. Preprocessed text still has
the three words; they become ``static``, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .translation import chunks

_WORD = re.compile(r"\b__(device|constant|managed)__\b")
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"(?:__attribute__|alignas|__align__|decltype)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_OWN_LINKAGE = re.compile(r"\b(static|extern|inline|typedef|using|friend|thread_local|operator)\b|template\s*<\s*>")
_TYPE = re.compile(r"\b(struct|class|union|enum|namespace)\b")
_FARTHEST = 2000  # characters of a declaration that are read


def settle(preprocessed: str, is_foreign: Callable[[str], bool], relocatable: bool) -> str:
    """Replace the words of a preprocessed source. With relocatable code, variables keep the linkage that C++ gives."""
    parts: list[str] = []
    for chunk in chunks(preprocessed):
        parts.append(chunk.marker)
        if "__device__" not in chunk.text and "__constant__" not in chunk.text and "__managed__" not in chunk.text:
            parts.append(chunk.text)
        elif relocatable or is_foreign(chunk.file):
            parts.append(_WORD.sub("", chunk.text))
        else:
            parts.append(_settle_chunk(chunk.text))
    return "".join(parts)


def _settle_chunk(text: str) -> str:
    made: list[str] = []
    done = 0
    decided = -1  # the end of the declaration that has its `static`
    for found in _WORD.finditer(text):
        made.append(text[done : found.start()])
        done = found.end()
        end = _find_variable_end(text, found.start(), is_data=found[1] != "device")
        if end > decided and end >= 0:
            made.append("static")
            decided = end
    made.append(text[done:])
    return "".join(made)


def _find_variable_end(text: str, at: int, *, is_data: bool) -> int:
    """Return where the declaration of a variable ends that needs `static`; -1 for all else, functions above all."""
    start = max(text.rfind(mark, max(0, at - _FARTHEST), at) for mark in ";{}")
    before = _DIRECTIVE.sub("", text[max(start, at - _FARTHEST) + 1 : at])
    after = _ATTRIBUTE.sub("", _WORD.sub("", _DIRECTIVE.sub("", text[at : at + _FARTHEST])))
    declared, mark = _take_declarator(after)
    whole = before + declared
    if _OWN_LINKAGE.search(whole) or _TYPE.search(before) or len(declared.split()) < 2 and "*" not in declared:
        return -1
    if mark == "(" and not is_data or mark == "{" and _TYPE.search(declared):
        return -1
    end = text.find(";", at)
    return end if end >= 0 else len(text)


def _take_declarator(text: str) -> tuple[str, str]:
    """Return the text up to the first bracket, sign or end that is no template argument, and that character."""
    depth = 0
    for i, character in enumerate(text):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif depth <= 0 and character in "(;=[{":
            return text[:i], character
    return text, ""
