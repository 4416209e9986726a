"""The disguise: the program is told CUDA, torch the truth; and functions of torch that are told what the program is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core.context import Context
from torchdevice_cuda.translate.core.disguise import CPU, CUDA, as_program, by_caller, disguised, masked

from . import Apart, context_of
from .asking import asked_by


@pytest.fixture
def context() -> Context:
    return context_of(Apart)


def test_a_device_as_the_program_sees_it(context: Context) -> None:
    assert (torch.device("cuda:0"), torch.device("cpu")) == (CUDA, CPU)
    meta = torch.device("meta")
    assert disguised(context, meta) == CPU, "it has not asked for CUDA"
    context.translator.apparent_devices.add_cuda(torch.ones(1, device="meta"))
    assert disguised(context, meta) == CUDA
    assert disguised(context, torch.device("meta", 1)) == CUDA
    assert disguised(context, torch.device("cpu")) == torch.device("cpu")
    assert disguised(context, torch.device("xpu")) == torch.device("xpu")


class Lying:
    """Something on the GPU, or not."""

    def __init__(self, there: bool, of_cpu: bool = False) -> None:
        self.there, self.of_cpu = there, of_cpu

    def real(self) -> str:
        """Return the real answer."""
        return "real"

    shown = masked(real, lambda self: self.there, "answer", lambda self: self.of_cpu, "otherwise")


def read(value: Lying, module: str = "program") -> Any:
    names: dict[str, Any] = {"__name__": module, "value": value}
    exec("def call(): return value.shown", names)
    return names["call"]()


def test_a_property_tells_the_program_and_torch_different_things() -> None:
    assert read(Lying(True)) == "answer"
    assert read(Lying(True, of_cpu=True)) == "otherwise"
    assert read(Lying(False)) == "real"
    assert read(Lying(False, of_cpu=True)) == "real"
    for module in ("torch", "torch.nn.modules.module", "torchdevice_cuda.x"):
        assert read(Lying(True), module) == "real"
    assert read(Lying(True), "torch.cuda.comm") == "answer"
    assert Lying.shown.__doc__ == "Return the real answer."


def of_torch(module: str = "torch.utils") -> Any:
    """Return a function as torch's code would have it."""
    names: dict[str, Any] = {"__name__": module}
    exec("def asks(value, more=1, *, named=2):\n    'Ask.'\n    return value.shown, more, named", names)
    function = names["asks"]
    function.extra = "kept"
    return function


def test_a_function_of_torch_that_is_told_what_the_program_is() -> None:
    function = of_torch()
    assert function(Lying(True)) == ("real", 1, 2)
    shown = as_program(function)
    assert shown(Lying(True)) == ("answer", 1, 2)
    assert shown(Lying(True), 5, named=6) == ("answer", 5, 6)
    assert function(Lying(True)) == ("real", 1, 2), "the original stays"
    assert (shown.__name__, shown.__doc__, shown.__module__, shown.extra) == ("asks", "Ask.", "torch.utils", "kept")  # type: ignore[attr-defined]
    assert shown.__globals__["__name__"] == "__program__"


def test_a_function_with_a_closure() -> None:
    def outer(word: str) -> Any:
        def inner() -> str:
            return word

        return inner

    assert as_program(outer("mine"))() == "mine"


def test_the_caller_decides() -> None:
    function = by_caller(of_torch())
    value = Lying(True)
    assert function(value, 3, named=4) == ("answer", 3, 4)
    assert asked_by("torch.nn", function, value) == ("real", 1, 2)
    assert asked_by("torch.cuda", function, value) == ("answer", 1, 2)
    assert (function.__name__, function.__doc__) == ("asks", "Ask.")
