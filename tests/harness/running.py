"""Functions of test files in child processes: alone, or several in one child with a result for each."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from .places import ChildConfig, must_be_ready
from .processes import Finished, clean_environment
from .servers import may_fork, run_child

#: As in ``child.py``, which is no module to import here.
_HERE = ("the place",)
#: What files about the compiler have, and those that compile.
_OF_THE_COMPILER = re.compile(r"torch\.compile|dynamo|inductor|torch\.export")
_COMPILES = re.compile(r"torch\.compile\(")
#: What that imports, with what takes longer than any other import.
_COMPILER = ("torch._inductor.compile_fx",)
#: Seconds that a function has; and a process, to start.
SECONDS = 120.0
_START = 120.0


@dataclasses.dataclass(frozen=True)
class Case:
    """A function to call in a child process, with its arguments, which are literals."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()
    seconds: float = SECONDS

    def request(self) -> tuple[str, tuple[list[Any], dict[str, Any]], float]:
        return reference(self.function), (list(self.arguments), dict(self.named)), self.seconds


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a case: its value or its failure, and its output."""

    value: Any = None
    error: str | None = None
    skipped: str | None = None
    out: str = ""
    err: str = ""

    def checked(self) -> Any:
        """Return the value, or fail the test with the case's failure."""
        if self.skipped is not None:
            pytest.skip(self.skipped)
        if self.error is not None:
            printed = [
                f"{title}:\n{text[-8000:]}" for title, text in (("output", self.out), ("errors", self.err)) if text
            ]
            pytest.fail("\n".join([self.error, *printed]), pytrace=False)
        return self.value


def reference(function: Callable[..., Any]) -> str:
    """Return the name by which a child finds a function."""
    name = function.__qualname__
    if "<" in name or function.__module__ == "__main__":
        raise ValueError(f"{name} is not a function of a file: a child cannot import it")
    return f"{function.__module__}:{name}"


def _request(place: ChildConfig, cases: Sequence[Case]) -> str:
    request = {
        "imports": place.imports,
        # A child with a compiled device is taken apart at its end, as every new process is: that may fail.
        "native": place.native,
        "settings": dict(place.settings),
        "place": {"name": place.name, "settings": dict(place.settings), "order": place.order},
        "setup": (reference(place.setup), dict(place.setup_with)) if place.setup is not None else None,
        "cases": [case.request() for case in cases],
    }
    text = repr(request)
    try:
        same = ast.literal_eval(text) == request
    except ValueError:
        same = False
    if not same:
        raise ValueError(f"arguments in a child are literals (numbers, text, tuples, lists, dicts): {text}")
    return text


def outcomes(place: ChildConfig, cases: Sequence[Case]) -> list[Outcome]:
    """Run each case in a child of this configuration; after one that ends the process, a new child goes on."""
    must_be_ready(place)
    found: list[Outcome] = []
    while len(found) < len(cases):
        found += _one_child(place, cases[len(found) :])
    return found


def _choose_server(cases: Sequence[Case]) -> str:
    """Choose by the file of the functions: one that trains, and is not about the compiler, may have dynamo before."""
    source = _read_source(cases[0].function.__module__)
    return "training children" if "optim." in source and not _OF_THE_COMPILER.search(source) else "children"


def _preparation(place: ChildConfig, cases: Sequence[Case]) -> dict[str, Any]:
    """Return what a process does once that children are forks of; empty if they need none that is prepared."""
    if place.shares_activation:
        compiles = _COMPILES.search(_read_source(cases[0].function.__module__))
        settings, later = dict(place.settings), _COMPILER if compiles else ()
        return {"imports": place.imports, "settings": settings, "imports_later": later}
    return {"imports": place.imports, "settings": {}} if place.preloaded else {}


@functools.cache
def _read_source(module: str) -> str:
    return inspect.getsource(sys.modules[module])


def _one_child(place: ChildConfig, cases: Sequence[Case]) -> list[Outcome]:
    """Run cases until the child ends: all of them have failed if it did not even start."""
    with tempfile.TemporaryDirectory(prefix="child-") as folder:
        environment = clean_environment(**place.full_environment())
        fork_of = _choose_server(cases) if place.forks and may_fork(environment) else None
        if fork_of and (shared := _preparation(place, cases)):
            Path(folder, "prepared").write_text(repr({**shared, "environment": environment}), encoding="utf-8")
        Path(folder, "request").write_text(_request(place, cases), encoding="utf-8")
        seconds = _START + sum(case.seconds for case in cases)
        done = run_child(folder, environment, seconds, fork_of)
        results = Path(folder, "results")
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    found: list[Outcome] = []
    began = (0, 0)
    out, err = done.out.encode(), done.err.encode()
    for line in map(json.loads, lines):
        ended = tuple(line.pop("printed"))
        if line.keys() != {"case"}:
            line.pop("case")
            found.append(Outcome(**line, out=_part(out, began[0], ended[0]), err=_part(err, began[1], ended[1])))
        began = ended
    if not lines:
        return [Outcome(error=f"{place}: the child did not get as far as the test, {done}")] * len(cases)
    if len(lines) % 2:
        found.append(_died(done, f"{place}: the process ended in the middle of it", out, err, began))
    elif done.status:
        found[-1] = _died(done, f"{place}: the process did not end well after it", out, err, began)
    return found


def _died(done: Finished, what: str, out: bytes, err: bytes, began: tuple[int, ...]) -> Outcome:
    how = "killed: it took too long" if done.killed else f"exit status {done.status}"
    return Outcome(error=f"{what}, {how}", out=_part(out, began[0], None), err=_part(err, began[1], None))


def _part(text: bytes, begin: int, end: int | None) -> str:
    return text[begin:end].decode(errors="replace")


def outcome(function: Callable[..., Any], place: ChildConfig, *arguments: Any, seconds: float = SECONDS) -> Outcome:
    """Run a function in a child of its own."""
    return outcomes(place, [Case(function, arguments, seconds=seconds)])[0]


def in_child(function: Callable[..., Any], place: ChildConfig, *arguments: Any, seconds: float = SECONDS) -> Any:
    """Run a function in a child of its own; return its result (as JSON keeps it), or fail the test."""
    return outcome(function, place, *arguments, seconds=seconds).checked()


_together: dict[str, dict[str, Outcome]] = {}


def together(place: ChildConfig, functions: Sequence[Callable[..., Any]]) -> dict[str, Outcome]:
    """Run functions without arguments in one child; return the results by name. Each child is run only once."""
    cases = [Case(function) for function in functions]
    key = f"{place.full_environment()} {place.new} {_request(place, cases)}"
    if key not in _together:
        found = outcomes(place, cases)
        _together[key] = {function.__name__: one for function, one in zip(functions, found, strict=True)}
    return _together[key]


def child(
    *places: ChildConfig, alone: bool = False, as_in: ChildConfig | None = None, seconds: float = SECONDS
) -> pytest.MarkDecorator:
    """Run the body of a test in a child of each configuration; also as a module's ``pytestmark``.

    ``alone``: it has a child of its own. ``as_in``: what it returns is to be what it returns in that place.
    """
    return pytest.mark.child(places=places, alone=alone, as_in=as_in, seconds=seconds)


class Batches:
    """The tests of a session that run in children; each child serves all that may share it."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._queues: dict[str, list[pytest.Function]] = {}
        self._done: dict[tuple[str, str], Outcome] = {}
        for item in items:
            if isinstance(item, pytest.Function) and item.get_closest_marker("child") is not None:
                for place in self._places(item):
                    self._queues.setdefault(self._key(item, place), []).append(item)

    def values(self, item: pytest.Function) -> list[Any]:
        """Return a test's values in its configuration, and in the one that it is compared with, if any.

        The first to ask runs the child for all that share it.
        """
        return [self._outcome(item, place).checked() for place in self._places(item)]

    def _outcome(self, item: pytest.Function, place: ChildConfig) -> Outcome:
        key = self._key(item, place)
        if (item.nodeid, key) not in self._done:
            waiting = self._queues[key]
            found = outcomes(place, [self._case(one) for one in waiting])
            self._done.update({(one.nodeid, key): result for one, result in zip(waiting, found, strict=True)})
        return self._done[item.nodeid, key]

    @staticmethod
    def _options(item: pytest.Function) -> dict[str, Any]:
        mark = item.get_closest_marker("child")
        assert mark is not None
        return dict(mark.kwargs)

    def _places(self, item: pytest.Function) -> list[ChildConfig]:
        own, other = item.callspec.params["place"], self._options(item)["as_in"]
        assert isinstance(own, ChildConfig)
        if other is None:
            return [own]
        # A fork is compared with a fork: both have had torch before anything else.
        return [own, other.when("after" if own.forks and own.order == "before" else own.order)]

    def _key(self, item: pytest.Function, place: ChildConfig) -> str:
        shared = f"{item.path} {place.full_environment()} {place.new} {_request(place, [])}"
        return f"{shared} {item.nodeid}" if self._options(item)["alone"] else shared

    def _case(self, item: pytest.Function) -> Case:
        given = {**item.callspec.params, "place": _HERE}
        names = list(inspect.signature(item.function).parameters)
        if unknown := [name for name in names if name not in given]:
            raise pytest.UsageError(f"{item.nodeid} runs in a child, which has no fixtures: {unknown}; use in_child")
        named = tuple((name, given[name]) for name in names)
        return Case(item.function, named=named, seconds=self._options(item)["seconds"])
