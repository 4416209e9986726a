"""Estimate how much code a source's kernels are: the tokens of their bodies, once for each instance of a template.

How often a template is instantiated is not in the text, but who names it is: an explicit instantiation, or a function
that is itself a template of so many instances. Macros that choose types or sizes have repeated their text by then.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable

from .functions import Kernel
from .tokens import Token, after, before

#: From here on kernels are compiled for a short build. 1,000 tokens take about 0.2 s at -O3.
MANY = 20_000


@dataclasses.dataclass
class _Place:
    """A function with a body, and who names it: other functions, or an explicit instantiation."""

    body: int
    end: int
    is_template: bool
    named_in: list[_Place] = dataclasses.field(default_factory=list)
    explicit: int = 0
    count: int = -1  # of instances, once it is known

    def instances(self) -> int:
        """Return how many there are; one that names itself counts its other callers."""
        if not self.is_template:
            return 1
        if self.count < 0:
            self.count = 0
            self.count = self.explicit + sum(place.instances() for place in self.named_in)
        return self.count


def estimate(tokens: list[Token], kernels: list[Kernel], functions: Iterable[tuple[str, int, int]]) -> int:
    """Return the tokens of all instances of the kernels. `functions` are the others: names, and where bodies are."""
    found: dict[str, list[_Place]] = {}
    own: list[_Place] = []
    for kernel in kernels:
        own.append(_Place(kernel.body, kernel.end, _is_template(tokens, kernel.start)))
        found.setdefault(kernel.name, []).append(own[-1])
    for name, body, end in functions:
        found.setdefault(name, []).append(_Place(body, end, _is_template(tokens, body)))
    places = sorted((place for same in found.values() for place in same), key=lambda place: place.body)
    starts = [place.body for place in places]
    for at, token in enumerate(tokens):
        if token.kind != "name" or token.text not in found:
            continue
        i = bisect.bisect(starts, at) - 1
        inside = places[i] if i >= 0 and at < places[i].end else None
        for place in found[token.text]:
            if inside is None:
                place.explicit += _is_instantiated(tokens, at)
            elif inside is not place:
                place.named_in.append(inside)
    return sum(place.instances() * sum(t.kind != "space" for t in tokens[place.body : place.end]) for place in own)


def _first(tokens: list[Token], at: int) -> int:
    """Return the beginning of the declaration that a token is in."""
    i = before(tokens, at)
    while i >= 0 and tokens[i].text not in (";", "{", "}"):
        at, i = i, before(tokens, i)
    return at


def _is_template(tokens: list[Token], at: int) -> bool:
    return tokens[_first(tokens, at)].text == "template"


def _is_instantiated(tokens: list[Token], at: int) -> bool:
    """Return whether a name outside of functions is in an explicit instantiation: ``template void f<int>(int);``."""
    first = _first(tokens, at)
    return tokens[first].text == "template" and tokens[after(tokens, first)].text != "<"
