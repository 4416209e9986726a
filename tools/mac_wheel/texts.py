"""Texts: which of them our table of refusals takes for one, which it has to, and which were looked at by a person."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

#: What a text says that refuses something. What it does not catch is the program's error, or nobody's.
REFUSES = re.compile(
    r"support|implement|\bonly\b|mac ?os|available|doesn't|does not|limit|exceed|larger than|too large|\d-bit",
    re.IGNORECASE,
)
#: Assertions of torch's about itself.
_INTERNAL = re.compile(r"INTERNAL ASSERT FAILED|Could this error message be improved")
_GROUP = re.compile(r"(?<!\\)\((?!\?)([^()]*)\)(\??)")
#: What stands for something that is put into a text while the program runs.
_OPEN = re.compile(
    r"\\[wd][*+]?(?:MPS)?|(?:Quantized|NestedTensor)MPS|mps:\?|(?:Complex)?Double|\.[*+]|\[[^\]]*\][*+]?|.\?|\\b|\^|\$"
)


def plain(text: str) -> str:
    """Return a text as the list of reviewed texts has it: blanks at its ends and breaks in it do not matter."""
    return " ".join(text.split())


def reviewed(path: Path) -> dict[str, dict[str, str]]:
    """Return the sections of a list, ``{title: {text: reason}}``: a reason in brackets stands above its texts."""
    sections: dict[str, dict[str, str]] = {}
    section, reason = "", ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("# ") or not line.strip():
            continue
        if line.startswith("== "):
            section, reason = line.removeprefix("== ").strip(), ""
            sections[section] = {}
        elif line.startswith("[") and line.endswith("]"):
            reason = line[1:-1]
        elif section and reason:
            sections[section][plain(line)] = reason
        else:
            raise ValueError(f"{path}:{number}: a text without a reason")
    return sections


def refusal_like(texts: Iterable[str]) -> list[str]:
    """List texts that look like refusals."""
    return sorted(text for text in texts if " " in text and REFUSES.search(text) and not _INTERNAL.search(text))


def expanded(pattern: str) -> Iterator[tuple[str, frozenset[tuple[str, str]]]]:
    """A pattern with each of the choices that it leaves, and which were taken: ``(a|b)c`` is ``ac`` and ``bc``."""
    group = _GROUP.search(pattern)
    if group is None:
        yield pattern, frozenset()
        return
    choices = [*group[1].split("|"), *([""] if group[2] else [])]
    for choice in choices:
        for rest, taken in expanded(pattern[: group.start()] + choice + pattern[group.end() :]):
            yield rest, taken | {(group[0], choice)}


def pieces(pattern: str) -> list[str]:
    """Return the parts of a pattern, without choices, that stand in it letter by letter."""
    return [part for part in (re.sub(r"\\(.)", r"\1", part).strip() for part in _OPEN.split(pattern)) if len(part) > 3]


def says(words: re.Pattern[str] | str, text: str) -> bool:
    """Return whether a text, or one that starts or ends with inserted values, matches a pattern."""
    around = itertools.product(("", "x"), ("", "9"))
    return any(re.search(words, f"{before}{text}{after}") for before, after in around)


def occurs(pattern: str, of_mps: Mapping[str, Collection[str]], texts: Collection[str]) -> bool:
    """Return whether a pattern without choices occurs: in a text, in pieces in one function, or for any device."""
    if any(says(pattern, text) for text in of_mps):
        return True
    parts = sorted(pieces(pattern), key=len)
    if not parts:
        return False
    by_part = [{function for text, names in of_mps.items() if part in text for function in names} for part in parts]
    if set.intersection(*by_part):
        return True
    # The longest is the one that tells: MPS does not say it, somebody else does.
    return not by_part[-1] and all(_said(part, texts) for part in parts)


def _said(part: str, texts: Collection[str]) -> bool:
    """Return whether a text has these words, or one ends with the first of them and another begins with the last."""
    everything = "\0".join(["", *texts, ""])
    # Of few letters there is always one.
    halves = [(part[: blank.start()], part[blank.start() :]) for blank in re.finditer(" ", part)]
    long = [(first, last) for first, last in halves if min(len(first), len(last)) > 8]
    return part in everything or any(f"{first}\0" in everything and f"\0{last}" in everything for first, last in long)


def unsaid(pattern: str, said: Sequence[tuple[Mapping[str, Collection[str]], Collection[str]]]) -> list[str]:
    """Return the choices of a pattern that none of the releases says in any combination; the whole if it has none."""
    every, found = set[tuple[str, str]](), set[tuple[str, str]]()
    anything = False
    for one, taken in expanded(pattern):
        every |= taken
        if taken <= found and anything:
            continue
        if any(occurs(one, of_mps, texts) for of_mps, texts in said):
            anything, found = True, found | taken
    return [choice for _, choice in sorted(every - found)] if anything else [pattern]


def unmatched(texts: Iterable[str], patterns: Sequence[re.Pattern[str]], known: Collection[str]) -> list[str]:
    """Refusals, by their looks, that no pattern takes for one and that are not among the known.

    A piece of a text that a pattern has in several pieces is that pattern's.
    """
    telling = set()
    for pattern in patterns:
        for one, _ in expanded(pattern.pattern):
            parts = [part for part in pieces(one) if len(part) > 8]
            telling.update(parts if len(parts) > 1 else ())
    return [
        text
        for text in refusal_like(texts)
        if plain(text) not in known
        and not any(says(pattern, text) for pattern in patterns)
        and not any(part in text for part in telling)
    ]
