"""Answers of a place against a record: what is equal, differs or is missing, and what was expected to differ.

An answer often has several facts, ``amp.promotions#3``. A TOML file lists those that are expected to differ, with the
reason, for drivers and releases of torch. One that is listed and equal is an error.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable
from pathlib import Path
from typing import Any

from record.case_sets import Case, CaseSet
from record.running import LOST, is_failure

DIFFERS, NO_ANSWER, VARIES = "differs", "no answer", "varies"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A fact that is not as recorded."""

    fact: str
    there: Any
    here: Any
    how: str
    #: Why it is expected; nothing where it is not.
    why: str = ""
    is_mild: bool = False


@dataclasses.dataclass
class Comparison:
    """The result of comparing a set."""

    cases: int = 0
    #: Cases that are as recorded in every fact.
    whole: int = 0
    facts: int = 0
    differences: list[Difference] = dataclasses.field(default_factory=list)
    #: Listed as different, and equal.
    mended: list[str] = dataclasses.field(default_factory=list)
    #: Cases that the record does not have.
    unrecorded: list[str] = dataclasses.field(default_factory=list)

    @property
    def equal(self) -> int:
        return self.facts - len(self.differences)

    @property
    def alike(self) -> int:
        return self.equal + sum(difference.is_mild for difference in self.differences)

    @property
    def surprising(self) -> list[Difference]:
        return [difference for difference in self.differences if not difference.why]


def parse_release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(map(int, text.split(".")[:2]))


@dataclasses.dataclass
class Expected:
    """The facts that differ on a driver, as a TOML file lists them."""

    #: Reasons by pattern.
    why: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Facts that are equal in some runs, by chance: they never count as equal, so that every run counts alike.
    varying: set[str] = dataclasses.field(default_factory=set)
    #: So many facts have to be equal.
    least: int = 0


def read_expected(file: Path | None, driver: str) -> Expected:
    """Read what is expected to differ on a driver."""
    import torch

    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    if file is None:
        return Expected()
    content = tomllib.loads(file.read_text())
    release = parse_release(torch.__version__)
    expected = Expected(least=int(content.get("least", {}).get(driver, 0)))
    for row in content.get("different", []):
        first, last = (parse_release(row.get(key, end)) for key, end in (("since", "2.6"), ("until", "99.0")))
        if driver not in row["drivers"] or not first <= release < last:
            continue
        expected.why |= dict.fromkeys(row["facts"], row["why"])
        if row.get("varies"):
            expected.varying |= set(row["facts"])
    return expected


def split_answer(name: str, there: Any, here: Any) -> dict[str, tuple[Any, Any]]:
    """Return the one fact of an answer."""
    return {name: (there, here)}


def find_difference(there: Any, here: Any, case: Case) -> str | None:
    """Compare two facts: equal, or not."""
    return None if there == here else DIFFERS


def compare(
    cases: CaseSet, names: list[str], record: dict[str, Any], found: dict[str, Any], expected: Expected
) -> Comparison:
    """Compare what was found with the record, case by case."""
    result, known = Comparison(), expected.why
    if not cases.say("BY_RELEASE", False):
        result.unrecorded = [name for name in names if name not in record]
    split = cases.say("split", split_answer)
    differ: Callable[[Any, Any, Case], str | None] = cases.say("find_difference", find_difference)
    known_cases = {} if cases.say("LISTED_ON_DEVICE", False) else cases.cases
    mild, used, compared = cases.say("MILD", frozenset()), set(), set()
    for name in (name for name in names if name in record):
        case, answer = known_cases.get(name, Case(name, len)), found.get(name, [LOST, "no answer"])
        parts = split(name, record[name], answer)
        result.cases += 1
        result.facts += len(parts)
        before = len(result.differences)
        compared |= {name, *parts}
        for fact, (there, here) in parts.items():
            pattern = next((word for word in known if word == fact or fnmatch.fnmatchcase(fact, word)), None)
            how = NO_ANSWER if is_failure(here) and here != there else differ(there, here, case)
            if pattern in expected.varying:
                how = VARIES
            if how:
                used.add(pattern)
                why = known[pattern] if pattern else ""
                result.differences.append(Difference(fact, there, here, how, why, how in mild))
            elif pattern == fact:
                result.mended.append(fact)
        result.whole += len(result.differences) == before
    idle = {word for word in known if word not in used and (word in compared or word.partition("#")[0] in compared)}
    result.mended = sorted({*result.mended, *idle})
    return result
