"""What came of the checks."""

from __future__ import annotations

import dataclasses
from typing import Any

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of one question."""

    question: str
    verdict: str
    seconds: float = 0.0
    #: In words, one line; of a failure, what is wrong.
    found: str = ""
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Result:
    """What came of one check."""

    name: str
    why: str
    verdict: str = SKIPPED
    #: Why it is skipped; of a check that ran, what was found.
    found: str = "not reached"
    seconds: float = 0.0
    answers: list[Answer] = dataclasses.field(default_factory=list)
    #: What its processes printed.
    output: str = ""
    #: Where they were when they hung or crashed.
    stack: str = ""

    def conclude(self, seconds: float) -> None:
        """Come to a verdict from the answers."""
        self.seconds = seconds
        failed = [answer for answer in self.answers if answer.verdict == FAILED]
        asked = [answer for answer in self.answers if answer.verdict != SKIPPED]
        self.verdict = FAILED if failed else OK if asked else SKIPPED
        if failed:
            first = f"{failed[0].question}: {failed[0].found}"
            self.found = first if len(failed) == 1 else f"{first} (and {len(failed) - 1} more)"
        elif asked:
            told = [answer.found for answer in asked if answer.found]
            self.found = "; ".join([f"{len(asked)} right", *told[:2]])
        elif self.answers:
            self.found = self.answers[0].found
