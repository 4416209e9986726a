"""A check's side: its questions, asked one after the other, each within a limit; answers are written as they come.

A question is a function. What it returns is its finding, in words or as figures; what it raises is a failure. The one
that hangs or ends the process is known: it was announced, and has no answer.
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

#: In words, as figures, or both.
Finding = str | Mapping[str, Any] | tuple[str, Mapping[str, Any]] | None
Question = Callable[[], Finding]
_Q = TypeVar("_Q", bound=Question)

STACK = ".stack"
#: A process whose parent is gone ends by itself so much after a question's limit; the signal needs no interpreter.
_ALONE_S = 30
_WORDS = 600

_questions: dict[str, Question] = {}


class Wrong(Exception):
    """Something is not as it has to be. The text says what."""


class Advised(Exception):
    """Something would be better otherwise, or does not work as it is. The texts say what, and what to do."""

    def __init__(self, found: str, advice: str, verdict: str) -> None:
        super().__init__(found)
        self.advice, self.verdict = advice, verdict


def advise(found: str, advice: str, *, fails: bool = False) -> NoReturn:
    """Answer with what was found and what to do about it; whether nothing works before that is done."""
    raise Advised(found, advice, FAILED if fails else NOTED)


class NotHereError(Exception):
    """There is nothing to ask here. The text says why."""


def expect(holds: object, words: str) -> None:
    """Say what is wrong where something does not hold; an ``assert`` is gone under ``-O``."""
    if not holds:
        raise Wrong(words)


def question(function: _Q) -> _Q:
    """Have a function asked; its name is the question's."""
    add(function.__name__.strip("_").replace("_", " "), function)
    return function


def add(name: str, function: Question) -> None:
    """Have a function asked under a name."""
    _questions[name] = function


def main() -> None:
    """Ask all that have not been asked before: by ``program answers limit [asked before…]``."""
    path, limit, *before = sys.argv[1:]
    # Never closed: where the process is when it hangs at its very end is written here, too.
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
    """Return a folder for files, which is gone when the check has ended: that of the answers."""
    return os.path.dirname(sys.argv[1])
