"""Calls that are looked at only where they failed: which are tried again, with what, and that it can be undone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drivers.toy import ToyDriver

from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.translate.core.editor import Change
from torchdevice_cuda.translate.core.retry import given_second_try, rescued

from . import context_of


class Rescue:
    """Keeps account of what is to be told of; it cannot tell of functions of Python."""

    def __init__(self) -> None:
        self.handlers: dict[Any, Any] = {}

    def __call__(self, function: Any, handler: Any, first: bool = False) -> None:
        if handler is None:
            del self.handlers[function]
        elif not type(function).__name__.startswith(("builtin", "method")):
            raise TypeError
        else:
            self.handlers[function] = (handler, first)


class Compiled(ToyDriver):
    """With compiled code behind it."""

    traits = ToyDriver.traits | Trait.NATIVE

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.compiled = type("Native", (), {"rescue": Rescue()})()

    @property
    def native(self) -> Any:
        return self.compiled


SIN = torch.sin


def test_calls_are_looked_at_where_that_can_be_had() -> None:
    context = context_of(Compiled)
    handlers = context.driver.rescue.handlers  # type: ignore[union-attr]
    context.editor.by = "a patch"
    asked: list[Any] = []

    def handling(rescue: Any) -> Any:
        asked.append(rescue)
        return "the handler", True

    assert rescued(context, torch, "sin", SIN, handling) is True
    assert asked == [context.driver.rescue]
    assert handlers == {SIN: ("the handler", True)}
    assert context.editor.changes == [Change("torch.sin", "a patch")]
    assert rescued(context, torch, "plain", lambda: None, handling) is False
    assert len(context.editor.changes) == 1
    context.editor.undo()
    assert handlers == {}


def test_without_compiled_code_a_wrapper_has_to_do_it() -> None:
    context = context_of()
    assert rescued(context, torch, "sin", SIN, lambda rescue: pytest.fail("asked")) is False
    given_second_try(context, "torch.sin", SIN)
    assert context.editor.changes == []


def again(place: int | None = None) -> Any:
    """Retry a failed call with a function that returns its arguments."""
    context = context_of(Compiled)
    given_second_try(context, "torch.sin", SIN, place)
    handler, first = context.driver.native.rescue.handlers[SIN]  # type: ignore[union-attr]
    assert first is False

    def call(*args: Any, **kwargs: Any) -> Any:
        return handler(lambda *args, **kwargs: (args, kwargs), args, kwargs or None, None)

    return call


def test_a_device_by_name_is_translated_in_the_form_that_it_has() -> None:
    call = again()
    assert call(1, device="mps", x=2) == ((1,), {"device": "cpu", "x": 2})
    assert call(device="mps:0") == ((), {"device": "cpu"})
    assert call(device=torch.device("mps")) == ((), {"device": torch.device("cpu")})
    assert call(device="cpu:-1") == ((), {"device": "cpu"})
    for kwargs in (
        {"device": "cuda"},
        {"device": "cpu"},
        {"device": torch.device("cuda")},
        {"device": 0},
        {"x": 1},
        {},
    ):
        assert call(1, **kwargs) is NotImplemented, kwargs
    assert call("mps") is NotImplemented, "no device stands there"
    assert call(device="mpsx") is NotImplemented


def test_a_device_at_its_place() -> None:
    call = again(1)
    assert call("tensor", "mps", 3) == (("tensor", "cpu", 3), {})
    assert call("tensor", torch.device("mps", 0), x=4) == (("tensor", torch.device("cpu")), {"x": 4})
    assert call("mps", "cuda") is NotImplemented
    assert call("tensor") is NotImplemented
    assert call("tensor", "mps", device="mps") == (("tensor", "mps"), {"device": "cpu"})
    first = again(0)
    assert first("mps") == (("cpu",), {})


def test_it_is_undone() -> None:
    context = context_of(Compiled)
    given_second_try(context, "torch.sin", SIN)
    assert context.editor.changes == [Change("torch.sin", "")]
    context.editor.undo()
    assert context.driver.native.rescue.handlers == {}  # type: ignore[union-attr]
