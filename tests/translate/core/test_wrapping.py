"""Wrappers: nothing else about a function of torch changes, and whoever knows the original knows the wrapper."""

from __future__ import annotations

import inspect
import pickle
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from torchdevice_cuda.translate.core import wrapping
from torchdevice_cuda.translate.core.context import Context
from torchdevice_cuda.translate.core.editor import Editor
from torchdevice_cuda.translate.core.wrapping import (
    PLAIN,
    Modes,
    copy_metadata,
    dispatch_torch_function,
    follow,
    hand,
    install,
    scripted,
)
from torchdevice_cuda.wrapper_tensors.doubles import HostDoubleTensor

from . import context_of


@pytest.fixture
def context() -> Iterator[Context]:
    _device_constructors()  # made once, of what torch's names mean then
    made = context_of()
    yield made
    made.editor.undo()


def wrapped(context: Context, owner: Any, name: str) -> Any:
    """Return a wrapper in the place of an original."""
    original = getattr(owner, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    install(context, owner, name, wrapper, original)
    return original


# ------------------------------------------------------------------------------ appearance
def test_a_wrapper_looks_like_a_builtin_function(context: Context) -> None:
    original = wrapped(context, torch, "zeros")
    wrapper: Any = torch.zeros
    assert wrapper is not original
    assert (wrapper.__name__, wrapper.__qualname__, wrapper.__module__) == ("zeros", "zeros", "torch")
    assert wrapper.__doc__ == original.__doc__
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    assert context.wrapped[id(original)] == (original, wrapper)
    context.editor.undo()
    assert torch.zeros is original


def test_a_wrapper_looks_like_a_method(context: Context) -> None:
    original = wrapped(context, torch.Tensor, "sin")
    wrapper: Any = torch.Tensor.sin
    assert (wrapper.__qualname__, wrapper.__module__) == ("Tensor.sin", "torch")
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    assert torch.zeros(1).sin().tolist() == [0.0]
    context.editor.undo()
    assert torch.Tensor.sin is original
    assert "sin" not in vars(torch.Tensor)


def test_a_wrapper_of_python_keeps_where_it_is_from(context: Context) -> None:
    original = wrapped(context, torch.nn.functional, "relu6")
    wrapper: Any = torch.nn.functional.relu6
    assert wrapper.__module__ == original.__module__ == "torch.nn.functional"
    assert inspect.signature(wrapper) == inspect.signature(original)


def plain(x: int) -> int:
    return x


def test_torchscript_compiles_what_is_innermost() -> None:
    first = copy_metadata(lambda x: x, plain)
    second = copy_metadata(lambda x: x, first)
    assert scripted(second) is scripted(first) is plain
    assert scripted(plain) is plain
    assert scripted(torch.zeros) is torch.zeros
    builtin = copy_metadata(lambda x: x, torch._C._VariableFunctions.sin)
    assert scripted(builtin) is builtin


# --------------------------------------------------------------------------------- who knows
def test_torchscript_knows_the_wrapper(context: Context) -> None:
    from torch.jit import _builtins

    before = dict(_builtins._get_builtin_table())
    wrapped(context, torch, "zeros")
    assert _builtins._find_builtin(torch.zeros) == "aten::zeros"
    context.editor.undo()
    assert _builtins._get_builtin_table() == before
    wrapped(context, torch.nn.functional, "relu6")
    assert _builtins._find_builtin(torch.nn.functional.relu6) is None


def test_contexts_of_devices_know_the_wrapper(context: Context) -> None:
    before = set(_device_constructors())
    original = wrapped(context, torch, "zeros")
    assert {original, torch.zeros} <= _device_constructors()
    with torch.device("meta"):
        assert torch.zeros(2).is_meta
    wrapped(context, torch, "sin")
    assert torch.sin not in _device_constructors()
    context.editor.undo()
    assert set(_device_constructors()) == before


def test_lazy_parameters_allow_the_wrapper(context: Context) -> None:
    allowed = torch.nn.parameter.UninitializedTensorMixin._allowed_methods  # type: ignore[attr-defined]
    before = list(allowed)
    original = wrapped(context, torch.Tensor, "cuda")
    assert original in before
    assert torch.Tensor.cuda in allowed
    wrapped(context, torch.Tensor, "sin")
    assert torch.Tensor.sin not in allowed
    context.editor.undo()
    assert allowed == before


class Table:
    """A table of dynamo's that has been made, or not yet."""

    def __init__(self, entries: dict[Any, Any], made: bool) -> None:
        self.entries, self.made = entries, made

    def __call__(self) -> dict[Any, Any]:
        assert self.made, "it is not to be made for this"
        return self.entries

    def cache_info(self) -> Any:
        return types.SimpleNamespace(currsize=int(self.made))


@pytest.mark.parametrize("made", [True, False])
def test_tables_of_dynamo_get_the_wrapper_too(context: Context, monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    from torchdevice_cuda import _compat

    folded = _compat.FOLDED_BY_DYNAMO[0]
    table, known = {torch.zeros: "the rule"}, {torch.zeros: "folded"}
    rules: Any = types.ModuleType("torch._dynamo.trace_rules")
    rules.get_torch_obj_rule_map = Table(table, made)
    variables: Any = types.ModuleType("torch._dynamo.variables.torch")
    setattr(variables, folded, known)
    monkeypatch.setitem(sys.modules, rules.__name__, rules)
    monkeypatch.setitem(sys.modules, variables.__name__, variables)
    original = wrapped(context, torch, "zeros")
    wrapped(context, torch, "sin")
    wrapper: Any = torch.zeros
    assert table == ({original: "the rule", wrapper: "the rule"} if made else {original: "the rule"})
    assert known == {original: "folded", wrapper: "folded"}
    context.editor.undo()
    assert table == {original: "the rule"}
    assert known == {original: "folded"}


def test_without_dynamo_nothing_of_it_is_imported(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch._dynamo.trace_rules", "torch._dynamo.variables.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    wrapped(context, torch, "zeros")
    assert "torch._dynamo.trace_rules" not in sys.modules


def test_derived_sets_are_forgotten_now_and_after_undoing(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(wrapping._compat, "forget_derived", lambda: forgotten.append("forgotten"))
    editor = Editor()
    wrapping.forget_derived(editor)
    assert forgotten == ["forgotten"]
    editor.undo()
    assert forgotten == ["forgotten"] * 2


# ------------------------------------------------------------------------------------ modes
class Watching(TorchFunctionMode):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_modes_are_kept_account_of() -> None:
    before = TorchFunctionMode.__enter__, TorchFunctionMode.__exit__
    editor, modes = Editor(), Modes()
    modes.watch(editor)
    with Watching() as entered:
        assert isinstance(entered, Watching)
        assert len(modes) == 1
        with Watching():
            assert len(modes) == 2
            other: list[int] = []
            thread = threading.Thread(target=lambda: other.append(len(modes)))
            thread.start()
            thread.join()
            assert other == [2], "those of any thread"
    assert len(modes) == 0
    assert TorchFunctionMode.__enter__.__name__ == "__enter__"
    with Watching():
        modes.clear()
    assert len(modes) == 0
    modes.append(None)
    editor.undo()
    assert len(modes) == 0
    assert (TorchFunctionMode.__enter__, TorchFunctionMode.__exit__) == before


def test_a_mode_that_ends_by_an_error_tells_it() -> None:
    editor, modes = Editor(), Modes()
    modes.watch(editor)
    try:
        with pytest.raises(KeyError), Watching():
            raise KeyError
        assert len(modes) == 0
    finally:
        editor.undo()


class Own(torch.Tensor):
    """A tensor with functions of its own."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "its own", function, args, kwargs


def test_calls_are_handed_to_the_programs_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return "wrapper"

    one, own = torch.ones(1), torch.ones(1).as_subclass(Own)
    assert dispatch_torch_function(wrapper, (one,), (one, 2), {}) is NotImplemented
    assert dispatch_torch_function(wrapper, (own,), (own, 2), {"a": 1}) == ("its own", wrapper, (own, 2), {"a": 1})
    assert hand(wrapper, own, (2,), {"a": 1}) == ("its own", wrapper, (own, 2), {"a": 1})
    assert hand(wrapper, one, (2,), {}) is NotImplemented
    assert {type(one), torch.nn.Parameter, HostDoubleTensor} == PLAIN
    with Watching() as mode:
        assert dispatch_torch_function(wrapper, (), (one,), {}) is NotImplemented, "nobody has kept account of it"
        monkeypatch.setattr(wrapping, "modes", [None])
        assert dispatch_torch_function(wrapper, (), (one,), {}) == "wrapper"
    assert mode.seen[-1] is wrapper
    assert dispatch_torch_function(wrapper, (), (one,), {}) is NotImplemented, "another thread's"


# ----------------------------------------------------------------------------------- names
def test_names_that_the_program_bound_before_follow(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = types.ModuleType("program_of_a_test")
    program.zeros, program.sin, program.number = torch.zeros, torch.sin, 5
    inside: Any = types.ModuleType("torch.inside_of_a_test")
    inside.zeros = torch.zeros
    ours: Any = types.ModuleType("torchdevice_cuda.inside_of_a_test")
    ours.zeros = torch.zeros
    for module in (program, inside, ours):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "gone_of_a_test", None)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "odd_of_a_test", object())  # type: ignore[arg-type]
    first = wrapped(context, torch, "zeros")
    once = torch.zeros
    wrapped(context, torch, "zeros")
    follow(context)
    assert program.zeros is torch.zeros is not once
    assert program.sin is torch.sin
    assert program.number == 5
    assert inside.zeros is ours.zeros is first
    context.editor.undo()
    assert program.zeros is first
