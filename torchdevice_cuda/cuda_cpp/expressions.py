"""Questions about a stretch of tokens: which names it uses, what it changes, whether it only computes."""

from __future__ import annotations

from collections.abc import Iterator

from .tokens import CLOSING, Token, after, before, closing

Span = tuple[int, int]
IDENTITY = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
#: Functions that read no memory and depend on their arguments alone.
PURE = {
    "min", "max", "abs", "fabsf", "fabs", "fminf", "fmaxf", "fmin", "fmax", "ceil", "ceilf", "floor", "floorf", "sqrt",
    "sqrtf", "rsqrtf", "log2", "log2f", "__log2f", "pow", "powf", "__powf", "exp2f",
    "sizeof", "alignof", "static_cast", "reinterpret_cast", "const_cast", "int", "unsigned", "float",
    "double", "long", "short", "char", "bool", "size_t", "dim3", "__umul24", "__mul24", "__popc", "__ffs", "__clz",
    "int64_t", "int32_t", "uint32_t", "uint64_t", "if", "for", "while", "make_int2", "make_uint2", "make_float2",
    "make_int3", "make_uint3", "ceil_div", "CeilDiv", "ceildiv", "cdiv", "div_up", "divUp", "DIVUP",
}  # fmt: skip
#: Of objects that views of tensors are.
_PURE_MEMBERS = {"size", "stride", "data", "numel"}
_COMPOUND = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")


class Expressions:
    """The tokens of a source, asked by position."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens

    def text(self, at: int) -> str:
        """Return the text of a token; nothing beyond the end."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def words(self, span: Span) -> list[int]:
        """List the positions that are no space."""
        return [i for i in range(*span) if self.tokens[i].kind != "space"]

    def names(self, span: Span) -> set[str]:
        """Return the names in a stretch, those of members excepted."""
        return {
            self.text(i)
            for i in range(*span)
            if self.tokens[i].kind == "name" and self.text(before(self.tokens, i)) not in (".", "->")
        }

    def is_subscript(self, at: int) -> bool:
        """Return whether a ``[`` is an index and no lambda's."""
        i = before(self.tokens, at)
        return self.tokens[i].kind == "name" and self.text(i) != "return" or self.text(i) in (")", "]")

    def is_call(self, at: int) -> bool:
        """Return whether a name is followed by arguments, after those of a template perhaps."""
        return self.find_arguments(at) >= 0

    def find_arguments(self, at: int) -> int:
        """Return the position of the bracket of a name's arguments, or -1."""
        i = after(self.tokens, at)
        if self.text(i) == "<":
            depth, k = 0, i
            while k < len(self.tokens):
                text = self.text(k)
                if text in (";", "{", "}"):
                    return -1
                if text == "(":
                    k = closing(self.tokens, k)
                elif text == "<":
                    depth += 1
                elif text in (">", ">>"):
                    depth -= len(text)
                    if depth <= 0:
                        break
                k += 1
            i = after(self.tokens, k)
        return i if self.text(i) == "(" else -1

    def split_arguments(self, span: Span) -> list[Span]:
        """Divide a stretch at its commas."""
        parts, start, i = [], span[0], span[0]
        while i < span[1]:
            text = self.text(i)
            if text in CLOSING and self.tokens[i].kind == "mark":
                i = closing(self.tokens, i)
            elif text == "<" and self.tokens[before(self.tokens, i)].kind == "name":
                end = self._end_of_angles(i, span[1])
                i = end if end > 0 else i
            elif text == ",":
                parts.append((start, i))
                start = i + 1
            i += 1
        return [*parts, (start, span[1])] if self.words((start, span[1])) or parts else []

    def _end_of_angles(self, at: int, stop: int) -> int:
        depth = 0
        for i in range(at, stop):
            text = self.text(i)
            if text in (";", "{") or text in ("&", "|") and self.text(i + 1) == text:
                return 0
            if text == "<":
                depth += 1
            elif text in (">", ">>"):
                depth -= len(text)
                if depth <= 0:
                    return i if self.text(after(self.tokens, i)) in ("(", "::", ",", "{") else 0
        return 0

    # --------------------------------------------------------- changes
    def _changes_after(self, at: int) -> bool:
        """Return whether an operator that changes its left side is here."""
        text, then = self.text(at), self.text(at + 1)
        if text == "=":
            return then != "="
        if text in ("+", "-") and then == text:
            return True
        return text in _COMPOUND and then == "=" and self.text(at + 2) != "="

    def is_changed(self, at: int, *, by_index: bool = True) -> bool:
        """Return whether the variable that is named here is changed, or its address taken."""
        i = before(self.tokens, at)
        if self.text(i) in ("+", "-") and self.text(i - 1) == self.text(i):
            return True
        if self.text(i) == "&" and self._is_unary(i) and (by_index or self.text(after(self.tokens, at)) != "["):
            return True
        i, indexed = after(self.tokens, at), False
        while self.text(i) in ("[", "."):
            indexed = indexed or self.text(i) == "["
            if self.text(i) == "[":
                i = after(self.tokens, closing(self.tokens, i))
            else:
                i = after(self.tokens, after(self.tokens, i))
        return self._changes_after(i) and (by_index or not indexed)

    def _is_unary(self, at: int) -> bool:
        i = before(self.tokens, at)
        if self.text(i) == self.text(at) == "&":
            return False
        return not (
            self.tokens[i].kind in ("name", "number") and self.text(i) != "return" or self.text(i) in (")", "]")
        )

    def has_changes(self, span: Span) -> bool:
        """Return whether anything is assigned in a stretch."""
        return any(
            self._changes_after(i) and not (self.text(i) == "=" and self.text(i - 1) in ("=", "!", "<", ">"))
            for i in self.words(span)
            if self.tokens[i].kind == "mark"
        )

    def find_assignment(self, span: Span) -> tuple[str, Span] | None:
        """Return the variable and the right side of ``name = ...``, ``name += ...``, ``name++``, ``++name``."""
        words = self.words(span)
        if words and self.text(words[-1]) == ";":
            words.pop()
        if (
            len(words) == 3
            and all(self.text(i) in ("+", "-") for i in words[:2])
            and self.tokens[words[2]].kind == "name"
        ):
            return self.text(words[2]), (words[2], words[2])
        if len(words) < 3 or self.tokens[words[0]].kind != "name" or not self._changes_after(words[1]):
            return None
        if self.text(words[1]) == self.text(words[2]) and self.text(words[1]) in ("+", "-"):
            return (self.text(words[0]), (words[2], words[2])) if len(words) == 3 else None
        start = words[2] if self.text(words[1]) == "=" else words[3] if len(words) > 3 else words[-1]
        right = (start, words[-1] + 1)
        return None if self.has_changes(right) else (self.text(words[0]), right)

    def reads_memory(self, span: Span) -> bool:
        """Return whether something is loaded: an index, a pointer that is followed."""
        for i in self.words(span):
            text = self.text(i)
            if text == "->" or text == "[" and self.is_subscript(i) or text == "*" and self._is_unary(i):
                return True
        return False

    def takes_address(self, span: Span) -> bool:
        """Return whether an address is taken in a stretch."""
        return any(self.text(i) == "&" and self._is_unary(i) for i in self.words(span))

    def has_choice(self, span: Span, besides: list[Span]) -> bool:
        """Return whether parts of a stretch may not be computed: ``?``, ``&&``, ``||`` outside of the given parts."""
        for i in self.words(span):
            if any(start <= i < end for start, end in besides):
                continue
            text = self.text(i)
            if text == "?" or text in ("&", "|") and self.text(i + 1) == text and self._is_logical(i):
                return True
        return False

    def _is_logical(self, at: int) -> bool:
        i = before(self.tokens, at)
        return self.tokens[i].kind in ("name", "number", "string", "character") or self.text(i) in (")", "]")

    def calls(self, span: Span) -> Iterator[int]:
        """List the names that are called."""
        for i in range(*span):
            if self.tokens[i].kind == "name" and self.is_call(i):
                yield i

    def is_pure_call(self, at: int) -> bool:
        """Return whether a called name is a function that depends on its arguments alone."""
        i = before(self.tokens, at)
        if self.text(i) in (".", "->"):
            return self.text(at) in _PURE_MEMBERS
        return self.text(at) in PURE
