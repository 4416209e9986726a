"""A check's side: its questions, run one after the other with a time limit; answers are written as they arrive.

A question is a function. It returns its finding, as text or figures, and raises for a failure. A question that hangs or
ends the process is known: it was announced, and has no answer.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TextIO, TypeVar

from .results import FAILED, NOTED, OK, SKIPPED, Answer

#: Text, figures, or both.
Finding = str | Mapping[str, Any] | tuple[str, Mapping[str, Any]] | None
Question = Callable[[], Finding]
_Q = TypeVar("_Q", bound=Question)

STACK = ".stack"
#: A process without its parent ends itself this long after a question's limit; the signal does not need the
#: interpreter.
_ALONE_S = 30
_WORDS = 600

_questions: dict[str, Question] = {}


class Wrong(Exception):
    """A finding is wrong. The text says what."""


class Advised(Exception):
    """A finding could be better, or does not work. The texts say what, and what to do."""

    def __init__(self, found: str, advice: str, verdict: str) -> None:
        super().__init__(found)
        self.advice, self.verdict = advice, verdict


def advise(found: str, advice: str, *, fails: bool = False) -> NoReturn:
    """Answer with a finding and advice; ``fails``: nothing works before the advice is followed."""
    raise Advised(found, advice, FAILED if fails else NOTED)


class NotHereError(Exception):
    """The question does not apply here. The text says why."""


def expect(holds: object, words: str) -> None:
    """Raise if a condition does not hold; ``assert`` has no effect under ``-O``."""
    if not holds:
        raise Wrong(words)


def question(function: _Q) -> _Q:
    """Register a function as a question; its name is the question's."""
    add(function.__name__.strip("_").replace("_", " "), function)
    return function


def add(name: str, function: Question) -> None:
    """Register a function as a question under a name."""
    _questions[name] = function


def main() -> None:
    """Run all questions that have not run before: called as ``program answers limit [asked before…]``."""
    path, limit, *before = sys.argv[1:]
    # Never closed: a hang at the very end of the process writes its stack here, too.
    stack = os.open(path + STACK, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faulthandler.enable(stack)
    with open(path, "a", encoding="utf-8") as file:
        _tell(file, questions=list(_questions))
        for name, function in _questions.items():
            if name not in before:
                signal.alarm(int(float(limit)) + _ALONE_S)
                faulthandler.dump_traceback_later(float(limit), file=stack)
                _tell(file, asked=name)
                _tell(file, answer=dataclasses.asdict(_answer(name, function)))
        faulthandler.dump_traceback_later(float(limit), file=stack)
        _tell(file, ended=True)


def _tell(file: TextIO, **line: Any) -> None:
    print(json.dumps(line, default=str), file=file, flush=True)


def _answer(name: str, function: Question) -> Answer:
    started = time.monotonic()
    figures: dict[str, Any] = {}
    advice = ""
    try:
        found = function()
    except NotHereError as reason:
        return Answer(name, SKIPPED, time.monotonic() - started, str(reason))
    except Advised as error:
        verdict, words, advice = error.verdict, str(error), error.advice
    except Wrong as error:
        verdict, words = FAILED, str(error)
    except Exception as error:
        traceback.print_exc()
        verdict, words = FAILED, f"{type(error).__name__}: {error}"
    else:
        verdict, (words, figures) = OK, _told(found)
    return Answer(name, verdict, time.monotonic() - started, " ".join(words.split())[:_WORDS], figures, advice)


def _told(found: Finding) -> tuple[str, dict[str, Any]]:
    if found is None:
        return "", {}
    if isinstance(found, str):
        return found, {}
    words, figures = found if isinstance(found, tuple) else ("", found)
    return words, dict(figures)


def folder() -> str:
    """Return a folder for files, which is removed when the check has ended: that of the answers."""
    return os.path.dirname(sys.argv[1])
