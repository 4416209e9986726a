"""Find plain kernels: no code that they reach queries which thread it is, or waits for other threads.

Their threads are a loop, without stacks of their own, that the compiler may vectorize. Whoever can ask is known: the
program's own functions, which are all in front of us, and the names below, of our headers. What a name reaches is all
that its definition mentions: too much rather than too little.
"""

from __future__ import annotations

from .tokens import Token, before, closing, opening

_IDENTITY = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
#: Names of our headers that ask which thread it is, wait, or may end a kernel with a message that names the thread.
ASKS = {
    "__activemask", "__assert_fail", "__trap", "assertion_failed", "cooperative_groups", "cg", "this_thread_block",
    "this_grid", "tiled_partition", "labeled_partition", "binary_partition", "coalesced_threads", "cub",
    "__shared__", "WARP_SHFL", "WARP_SHFL_DOWN",
    "WARP_SHFL_UP", "WARP_SHFL_XOR", "WARP_BALLOT", "getLaneId",
}  # fmt: skip
_ENDINGS = ("_sync",)
_BEGINNINGS = ("__sync", "__shfl", "__ballot", "__any", "__all", "__match", "__reduce")
_STATEMENTS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "do", "else", "decltype", "noexcept"}


def _asks(name: str) -> bool:
    return name in ASKS or name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS)


class Reach:
    """The names that the functions of a source mention."""

    def __init__(self, tokens: list[Token], kernels: list[tuple[int, int]]) -> None:
        self._tokens = tokens
        inside = [False] * len(tokens)
        for start, end in kernels:
            for i in range(start, min(end + 1, len(tokens))):
                inside[i] = True
        self._mentions: dict[str, set[str]] = {}
        # Somebody asks whose name is not known: an operator, a member of a class, a lambda outside of a function.
        self._anybody = False
        named = [False] * len(tokens)
        for name, start, end in self._functions(inside):
            words = {tokens[i].text for i in range(start, end) if tokens[i].kind == "name"}
            self._mentions.setdefault(name, set()).update(words)
            for i in range(start, end):
                named[i] = True
        for i, token in enumerate(tokens):
            if (
                token.kind == "name"
                and not inside[i]
                and not named[i]
                and (token.text in _IDENTITY or _asks(token.text))
            ):
                self._anybody = self._anybody or not self._is_mere_name(i)

    def _is_mere_name(self, at: int) -> bool:
        """Return whether it is a declaration or a namespace's alias, which queries nothing."""
        i = before(self._tokens, at)
        return i >= 0 and self._tokens[i].text in ("namespace", "=", "using", "::", "struct", "void")

    def _functions(self, inside: list[bool]) -> list[tuple[str, int, int]]:
        """Functions that are no kernels: their names, and where their bodies are. Members count by their class, too."""
        tokens, found = self._tokens, []
        i = 0
        while i < len(tokens):
            if tokens[i].text == "{" and tokens[i].kind == "mark" and not inside[i]:
                name = self._named(i)
                if name:
                    end = closing(tokens, i)
                    found.append((name, i, min(end + 1, len(tokens))))
                    i = end
            i += 1
        return found

    def _named(self, at: int) -> str:
        """Return the name of the function whose body begins here, or nothing."""
        tokens, i = self._tokens, before(self._tokens, at)
        while i >= 0 and tokens[i].text in ("const", "noexcept", "override", "final"):
            i = before(tokens, i)
        if i < 0 or tokens[i].text != ")":
            return ""
        i = before(tokens, opening(tokens, i))
        if i < 0 or tokens[i].kind != "name" or tokens[i].text in _STATEMENTS:
            return ""
        j = before(tokens, i)
        # Of a function there is a type before the name. A constructor has none; what it asks, anybody asks.
        ends_type = j >= 0 and (tokens[j].kind == "name" or tokens[j].text in ("*", "&", ">", "::"))
        return tokens[i].text if ends_type and tokens[j].text != "operator" else ""

    def is_plain(self, start: int, end: int) -> bool:
        """Return whether a kernel's body, between two positions, is plain."""
        if self._anybody:
            return False
        words = {
            self._tokens[i].text for i in range(start, min(end, len(self._tokens))) if self._tokens[i].kind == "name"
        }
        seen: set[str] = set()
        waiting = list(words)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if _asks(name):
                return False
            for reached in self._mentions.get(name, ()):
                if reached in _IDENTITY:
                    return False
                waiting.append(reached)
        return True  # the kernel itself may ask which thread it is: that is a parameter of its body
