"""Callers of a request: the program, torch for itself, or torch for the program."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core import callers

from .asking import asked_by

#: By module: whether its requests are the program's.
MODULES = {
    "program": True,
    "torchvision.models": True,
    "torchdevice": True,
    "torch": False,
    "torch.optim.adam": False,
    "torch._dynamo": False,
    "torch.nn": False,
    "torch.nn.modules.linear": True,
    "torch.distributions.normal": True,
    "torch.overrides": True,
    "torch.overrides.other": False,
    "torch.serialization": True,
    "torch.utils._device": True,
    "torch.utils.data": False,
    "torch.signal.windows": True,
    "torch.signal": False,
    "torch.functional": True,
    "torch.quasirandom": True,
    "torch.func": True,
    "torch.cuda.comm": True,
    "torch.cuda": False,
}


@pytest.mark.parametrize("module", MODULES)
def test_for_whom_a_module_asks(module: str) -> None:
    assert asked_by(module, callers.asked_by_program) is MODULES[module]
    assert callers.verdicts[module] is MODULES[module]
    assert module in callers.verdicts, "remembered"


@pytest.mark.parametrize("entry", callers.PASSING)
def test_modules_that_hand_on_requests_are_torchs(entry: str) -> None:
    assert importlib.import_module(entry.removesuffix("."))


@pytest.mark.parametrize(
    "module", ["torchdevice_cuda", "torchdevice_cuda.translate", "multiprocessing.queues", "torch.multiprocessing"]
)
def test_forwarding_modules_act_for_their_caller(module: str) -> None:
    assert callers.verdicts[module] is None
    assert asked_by(module, callers.asked_by_program) is True
    assert asked_by("torch.optim", lambda: None) is None
    names: dict[str, Any] = {"__name__": module, "ask": callers.asked_by_program}
    exec("def call(): return ask()", names)
    assert asked_by("torch.optim", names["call"]) is False


def test_code_without_a_module_is_the_programs() -> None:
    assert asked_by(None, callers.asked_by_program) is True


def bottom(module: str, function: Callable[[], Any]) -> Any:
    """Call a function at the bottom of a thread, from code of one module only."""
    import _thread

    found: list[Any] = []
    done = _thread.allocate_lock()
    done.acquire()
    names: dict[str, Any] = {"__name__": module, "function": function, "found": found, "done": done}
    exec("def call():\n    found.append(function())\n    done.release()", names)
    _thread.start_new_thread(names["call"], ())
    assert done.acquire(timeout=30)
    return found[0]


def test_a_request_without_another_caller_is_the_programs() -> None:
    assert bottom("torchdevice_cuda.x", callers.asked_by_program) is True
    assert bottom("torch.optim", callers.asked_by_program) is False


# --------------------------------------------------------------------------------- places
def test_the_place_is_the_programs_own_line() -> None:
    here = (__file__, sys._getframe().f_lineno + 1)
    assert callers.program_site() == here
    names: dict[str, Any] = {"__name__": "torch.nn.modules.linear", "ask": callers.site}
    exec("def call(): return ask()", names)
    here = (__file__, sys._getframe().f_lineno + 1)
    assert names["call"]() == here


def test_torch_by_itself_has_no_place_in_the_program() -> None:
    assert bottom("torch.autograd", callers.program_site) is None
    file, line = bottom("torch.autograd", callers.site)
    assert (file, line) == ("<string>", 2)


# -------------------------------------------------------------------------------- modules
def constructed(module: Any, known: list[weakref.ref[Any]]) -> bool:
    """Return whether a request is the first of a module, made by its ``__init__`` through torch."""
    names: dict[str, Any] = {"__name__": "torch.nn.modules.linear", "ask": callers.asks_first}
    exec("def __init__(self, known):\n    return ask(known)", names)
    first: bool = names["__init__"](module, known)
    return first


def test_a_module_asks_first_once() -> None:
    known: list[weakref.ref[Any]] = []
    one, other = torch.nn.Identity(), torch.nn.Identity()
    assert [constructed(each, known) for each in (one, one, other, other, one)] == [True, False, True, False, True]
    assert known[0]() is one
    assert callers.asks_first(known) is True, "the program itself"
    assert asked_by("torch.nn.init", callers.asks_first, known) is True, "not a module's"
    assert known[0]() is one


def test_the_outermost_module_counts() -> None:
    """A module that makes others asks for all of them."""
    known: list[weakref.ref[Any]] = []
    outer, inner = torch.nn.Identity(), torch.nn.Identity()
    names: dict[str, Any] = {"__name__": "torch.nn.modules.transformer", "inner": lambda: constructed(inner, known)}
    exec("def __init__(self): return inner()", names)

    def through_torch() -> Any:
        return names["__init__"](outer)

    # Code of the program's stands between them: what it calls is another request.
    assert through_torch() is True
    assert known[0]() is inner
    direct: dict[str, Any] = {"__name__": "torch.nn.modules.linear", "ask": callers.asks_first}
    exec("def __init__(self, known):\n    return ask(known)", direct)
    nested: dict[str, Any] = {"__name__": "torch.nn.modules.transformer", "make": direct["__init__"]}
    exec("def __init__(self, inner, known):\n    return make(inner, known)", nested)
    assert nested["__init__"](outer, inner, known) is True
    assert known[0]() is outer


# ------------------------------------------------------------------------------ disguises
def test_torch_modules_see_real_device() -> None:
    told = {
        "torch": True,
        "torch.nn": True,
        "torchdevice_cuda.x": True,
        "torch.cuda": False,
        "torch.cuda.amp": False,
        "program": False,
        "torchvision": False,
        None: False,
    }
    assert {module: callers.inside[module] for module in told} == told
    assert set(told) <= set(callers.inside)
