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
    "WARP_SHFL_UP", "WARP_SHFL_XOR", "WARP_BALLOT", "getLaneId", "barrier", "pipeline",
}  # fmt: skip
_ENDINGS = ("_sync",)
_BEGINNINGS = ("__sync", "__shfl", "__ballot", "__any", "__all", "__match", "__reduce")
#: Methods and functions of groups that wait, and names of ours besides those that begin or end as above.
_WAITING_METHODS = {
    "sync", "shfl", "shfl_up", "shfl_down", "shfl_xor", "any", "all", "ballot", "match_any", "match_all", "reduce",
    "wait", "wait_parity", "try_wait", "try_wait_parity", "arrive_and_wait", "producer_acquire", "consumer_wait",
}  # fmt: skip
_WAITING = {
    "cub", "coalesced_threads", "__activemask", "WARP_SHFL", "WARP_SHFL_DOWN", "WARP_SHFL_UP", "WARP_SHFL_XOR",
    "WARP_BALLOT", "asm", "__asm__", "__asm", "labeled_partition", "this_grid",
    "grid_group", "binary_partition", "host_ptx", "make_pipeline",
}  # fmt: skip
_ASSEMBLY = {"asm", "__asm__", "__asm"}
#: What PTX calls operations of several threads, and registers that say which thread it is.
_COLLECTIVE = (
    "bar", "shfl", "vote", "redux", "match", "activemask", "mma", "ldmatrix", "cp.async", "elect", "laneid", "tid",
    "lanemask", "warpid", "ctaid", "fence",
)  # fmt: skip
_STATEMENTS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "do", "else", "decltype", "noexcept"}


def _asks(name: str) -> bool:
    return name in ASKS or name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS)


def _waits(name: str) -> bool:
    return name in _WAITING or name.startswith((".", *_BEGINNINGS)) or name.endswith(_ENDINGS)


class Reach:
    """The names that the functions of a source mention."""

    def __init__(self, tokens: list[Token], kernels: list[tuple[int, int]]) -> None:
        self._tokens = tokens
        inside = [False] * len(tokens)
        for start, end in kernels:
            for i in range(start, min(end + 1, len(tokens))):
                inside[i] = True
        self._mentions: dict[str, set[str]] = {}
        # Somebody asks or waits whose name is not known: an operator, a member of a class, a lambda elsewhere.
        self._anybody_asks = self._anybody_waits = False
        self._referring: set[str] = set()
        self._aliases: set[str] = set()  # of CUB's classes, in classes of the program
        named = [False] * len(tokens)
        self._found = self._functions(inside)
        for name, start, end in self._found:
            words = self.list_names(start, end)
            self._mentions.setdefault(name, set()).update(words)
            close = before(tokens, start)
            if any(tokens[i].text == "&" for i in range(max(opening(tokens, close), 0), close)):
                self._referring.add(name)
            for i in range(start, end):
                named[i] = True
        for i, token in enumerate(tokens):
            if token.kind != "name" or inside[i] or named[i]:
                continue
            asks, waits = token.text in _IDENTITY or _asks(token.text), _waits(token.text)
            if token.text == "cub" and (alias := self._find_alias(i)):
                self._aliases.add(alias)
            elif (asks or waits) and not self._is_mere_name(i):
                self._anybody_asks = self._anybody_asks or asks
                self._anybody_waits = self._anybody_waits or waits

    def _find_alias(self, at: int) -> str:
        """Return the name that a ``using`` or ``typedef`` around a position gives to a type, or nothing."""
        start = end = at
        while start > 0 and self._tokens[start - 1].text not in (";", "{", "}"):
            start -= 1
        while end < len(self._tokens) and self._tokens[end].text not in (";", "{", "}"):
            end += 1
        words = [token.text for token in self._tokens[start:end] if token.kind == "name"]
        return words[1] if words[0] == "using" and len(words) > 1 else words[-1] if words[0] == "typedef" else ""

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

    def list_names(self, start: int, end: int) -> set[str]:
        """Return the names between two positions; methods that may wait with a dot."""
        found = set()
        for i in range(start, min(end, len(self._tokens))):
            token = self._tokens[i]
            if token.kind != "name":
                continue
            if token.text not in _ASSEMBLY or self._is_collective(i):
                found.add(token.text)
            if token.text in _WAITING_METHODS and self._tokens[before(self._tokens, i)].text in (".", "->", "::"):
                found.add(f".{token.text}")
        return found

    def _is_collective(self, at: int) -> bool:
        """Return whether an assembly statement may wait for other threads, or ask which thread it is."""
        end = next((i for i in range(at, len(self._tokens)) if self._tokens[i].text == ";"), len(self._tokens))
        text = "".join(token.text for token in self._tokens[at:end] if token.kind in ("string", "raw"))
        return any(word in text for word in _COLLECTIVE)

    def is_plain(self, start: int, end: int) -> bool:
        """Return whether a kernel's body, between two positions, is plain."""
        return not self.asks(self.list_names(start, end))

    def asks(self, names: set[str]) -> bool:
        """Return whether code with these names may ask which thread it is, other than by its own ``threadIdx``."""
        reached = self._list_reached(names)
        return (
            self._anybody_asks
            or any(_asks(name) or name in self._aliases for name in reached)
            or any(not _IDENTITY.isdisjoint(self._mentions.get(name, ())) for name in reached)
        )

    def waits(self, names: set[str]) -> bool:
        """Return whether code with these names may wait for other threads."""
        return self._anybody_waits or any(_waits(name) or name in self._aliases for name in self._list_reached(names))

    def _list_reached(self, names: set[str]) -> set[str]:
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(self._mentions.get(name, ()))
        return seen

    def takes_references(self, name: str) -> bool:
        """Return whether a function of the source has a parameter that is a reference."""
        return name in self._referring

    def list_functions(self) -> list[tuple[str, int, int]]:
        """Return the functions that are no kernels: their names, and where their bodies are."""
        return self._found
