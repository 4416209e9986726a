"""Results of the checks."""

from __future__ import annotations

import dataclasses
from typing import Any

#: NOTED means that it works and could be better: there is advice.
OK, NOTED, FAILED, SKIPPED = "ok", "noted", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Answer:
    """The result of one question."""

    question: str
    verdict: str
    seconds: float = 0.0
    #: One line of text; for a failure, what is wrong.
    found: str = ""
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: The advice.
    advice: str = ""


@dataclasses.dataclass
class Result:
    """The result of one check."""

    name: str
    why: str
    verdict: str = SKIPPED
    #: Why it is skipped; for a check that ran, what was found.
    found: str = "not reached"
    seconds: float = 0.0
    answers: list[Answer] = dataclasses.field(default_factory=list)
    #: The output of its processes.
    output: str = ""
    #: Their stacks when they hung or crashed.
    stack: str = ""

    def conclude(self, seconds: float) -> None:
        """Derive the verdict from the answers."""
        self.seconds = seconds
        failed = [answer for answer in self.answers if answer.verdict == FAILED]
        asked = [answer for answer in self.answers if answer.verdict != SKIPPED]
        noted = [answer for answer in self.answers if answer.verdict == NOTED]
        self.verdict = FAILED if failed else NOTED if noted else OK if asked else SKIPPED
        if telling := failed or noted:
            first = f"{telling[0].question}: {telling[0].found}"
            self.found = first if len(telling) == 1 else f"{first} (and {len(telling) - 1} more)"
        elif asked:
            told = [answer.found for answer in asked if answer.found]
            self.found = "; ".join([f"{len(asked)} right", *told[:2]])
        elif self.answers:
            self.found = self.answers[0].found
