"""Find where threads wait for each other: barriers, votes, shuffles, and calls of functions that have them."""

from __future__ import annotations

import dataclasses

from .expressions import Expressions, Span
from .functions import BLOCK, WARP, Function
from .lockstep import STEP
from .tokens import after, before, closing

_VOTES = {"__syncthreads_count", "__syncthreads_or", "__syncthreads_and"}
_EXCHANGES = {
    "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync", "__any_sync", "__all_sync",
    "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",
    "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync",
}  # fmt: skip
#: Those whose threads need not say who they are, and where their lanes take from (``include/host_cuda/loops.h``).
SHUFFLES = {
    f"__shfl_{name}sync": f"::host_cuda::Shuffle{source}"
    for name, source in (("", "Indexed"), ("up_", "Up"), ("down_", "Down"), ("xor_", "Xor"))
}
_GROUPS = {"cg", "cooperative_groups"}
#: Methods of groups that exchange values; `sync` only waits.
_CUB = {"BlockReduce": BLOCK, "WarpReduce": WARP}
_CUB_METHODS = {"Sum", "Reduce"}
EXCHANGING_METHODS = {"shfl", "shfl_up", "shfl_down", "shfl_xor", "any", "all", "ballot", "match_any"}


@dataclasses.dataclass
class Call:
    """A call that waits: its tokens, and what it is."""

    kind: str  # barrier, vote, exchange, function
    name: str
    start: int
    end: int
    arguments: Span
    waits_for: str
    function: Function | None = None

    @property
    def span(self) -> Span:
        """Return its tokens."""
        return self.start, self.end


class Finder:
    """Find the calls that wait, in a function whose groups of threads are known by name."""

    def __init__(
        self, expressions: Expressions, groups: dict[str, str], aliases: dict[str, str], functions: dict[str, Function]
    ) -> None:
        self._on = expressions
        self._groups = groups
        self._aliases = aliases  # of CUB's classes
        self._functions = functions

    def find(self, span: Span) -> list[Call]:
        """List the outermost calls that wait."""
        found, i = [], span[0]
        while i < span[1]:
            call = self._read(i) if self._on.tokens[i].kind == "name" else None
            if call is not None and call.end <= span[1]:
                found.append(call)
                i = call.end
            else:
                i += 1
        return found

    def _read(self, at: int) -> Call | None:
        on, name = self._on, self._on.text(at)
        if name in self._groups:
            return self._read_method(at)
        if name in self._aliases or (name in _CUB and self._begin_of_scopes(at)[1] == "cub"):
            return self._read_cub(at)
        is_member = on.text(before(on.tokens, at)) in (".", "->")
        bracket = -1 if is_member else on.find_arguments(at)
        if bracket < 0:
            return None
        end = closing(on.tokens, bracket)
        inside = (bracket + 1, end)
        start, scope = self._begin_of_scopes(at)

        def make(kind: str, waits_for: str, function: Function | None = None) -> Call:
            return Call(kind, name, start, end + 1, inside, waits_for, function)

        if name == "__syncthreads":
            return make("barrier", BLOCK)
        if name in ("__syncwarp", STEP):
            return make("barrier", WARP)
        if name in _VOTES:
            return make("vote", BLOCK)
        if name in _EXCHANGES:
            return make("exchange", WARP)
        if scope in _GROUPS and name in ("sync", "reduce"):
            group = self._groups.get(on.text(after(on.tokens, bracket)))
            if group is None or (group == BLOCK and name == "reduce"):
                return None
            return make("barrier" if name == "sync" else "exchange", group)
        function = self._functions.get(name)
        return make("function", function.waits_for, function) if function is not None else None

    def _begin_of_scopes(self, at: int) -> tuple[int, str]:
        on, start, scope = self._on, at, ""
        while on.text(before(on.tokens, start)) == "::":
            start = before(on.tokens, start)
            i = before(on.tokens, start)
            if i >= 0 and on.tokens[i].kind == "name" and on.text(i) != "return":
                start, scope = i, scope or on.text(i)
        return start, scope

    def _read_method(self, at: int) -> Call | None:
        on = self._on
        dot = after(on.tokens, at)
        method = after(on.tokens, dot)
        bracket = after(on.tokens, method)
        if on.text(dot) != "." or on.text(bracket) != "(":
            return None
        name, end, group = on.text(method), closing(on.tokens, bracket), self._groups[on.text(at)]
        if name == "sync":
            return Call("barrier", name, at, end + 1, (bracket + 1, end), group)
        if name in EXCHANGING_METHODS and group == WARP:
            return Call("exchange", name, at, end + 1, (bracket + 1, end), WARP)
        return None

    def _read_cub(self, at: int) -> Call | None:
        """Read ``BlockReduce(storage).Sum(value)``."""
        on, name = self._on, self._on.text(at)
        storage = on.find_arguments(at)
        dot = after(on.tokens, closing(on.tokens, storage)) if storage >= 0 else -1
        method = after(on.tokens, dot)
        bracket = after(on.tokens, method)
        if on.text(dot) != "." or on.text(method) not in _CUB_METHODS or on.text(bracket) != "(":
            return None
        end = closing(on.tokens, bracket)
        waits_for = self._aliases.get(name) or _CUB[name]
        return Call("exchange", name, self._begin_of_scopes(at)[0], end + 1, (bracket + 1, end), waits_for)


def find_aliases(on: Expressions, start: int, end: int) -> dict[str, str]:
    """Return the names that a ``typedef`` or ``using`` gives to classes of CUB, and what these wait for."""
    found = {}
    words = [on.text(i) for i in on.words((start, end))]
    known = next((name for name in _CUB if name in words), None)
    if known is not None and "cub" in words and words[0] in ("typedef", "using"):
        found[words[1] if words[0] == "using" else words[-2]] = _CUB[known]
    return found
