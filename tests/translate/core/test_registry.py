"""The registry of patches: what a patch says of itself, for whom it is, and that all are applied or none."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from torchdevice_cuda.drivers.traits import NONE, Trait
from torchdevice_cuda.translate.core import registry
from torchdevice_cuda.translate.core.context import Context
from torchdevice_cuda.translate.core.registry import Patch, Row, apply, of_module, patch

from . import context_of


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registry", {})


def registered(function: Any, module: str = "program", **options: Any) -> Patch:
    function.__module__ = module
    options.setdefault("traits", Trait.SUBSTITUTE)
    assert patch("torch.one", "torch.<several>.two", **options)(function) is function
    return of_module(module)[-1]


def test_declaration_of_a_patch() -> None:
    def changes(context: Context) -> None:
        """Because of
        a reason.

        And more that only readers of the code want.
        """

    made = registered(changes, "torchdevice_cuda.translate.patches.nn.module")
    assert made.name == "nn.module.changes"
    assert made.module == "torchdevice_cuda.translate.patches.nn.module"
    assert made.why == "Because of a reason."
    assert made.targets == ("torch.one", "torch.<several>.two")
    assert (made.traits, made.without, made.apply) == (Trait.SUBSTITUTE, NONE, changes)
    assert made.file == str(Path(__file__).relative_to(Path(registry.__file__).parents[3]))
    assert registered(lambda context: None, "elsewhere").name == "elsewhere.<lambda>"
    assert registered(lambda context: None, "elsewhere").why == ""
    assert [each.name for each in of_module("elsewhere")] == ["elsewhere.<lambda>"] * 2
    assert of_module("nowhere") == ()


def test_a_patch_outside_of_the_package_has_its_whole_path() -> None:
    names: dict[str, Any] = {}
    exec(compile("def changes(context): pass", "/elsewhere/file.py", "exec"), names)
    assert registered(names["changes"]).file == "/elsewhere/file.py"


def test_for_whom_a_patch_is() -> None:
    both, native = Trait.SUBSTITUTE | Trait.TRANSLATED, Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.NATIVE
    one = registered(lambda context: None, traits=both)
    assert [one.wanted(traits) for traits in (both, native, Trait.SUBSTITUTE, NONE)] == [True, True, False, False]
    without = registered(lambda context: None, without=Trait.NATIVE | Trait.DISGUISED)
    assert [without.wanted(traits) for traits in (both, native, both | Trait.DISGUISED)] == [True, False, False]


def test_names_that_a_pattern_covers() -> None:
    one = registered(lambda context: None)
    for name in ("torch.one", "torch.a.two", "torch.several_1.two"):
        assert one.covers(name), name
    for name in ("torch.one.more", "torchxone", "torch..two", "torch.a.b.two", "torch.a.two_"):
        assert not one.covers(name), name


@pytest.fixture
def program() -> Any:
    module: Any = types.ModuleType("torch_of_a_test")
    module.one, module.two = 1, 2
    return module


def sets(owner: Any, name: str, value: Any, traits: Trait = Trait.SUBSTITUTE) -> Patch:
    def change(context: Context) -> None:
        """Why not."""
        context.editor.set(owner, name, value)

    change.__name__ = f"set_{name}"
    return registered(change, traits=traits)


def test_patches_are_applied_in_order_and_undone_backwards(program: Any) -> None:
    context = context_of()
    patches = [sets(program, "one", 10), sets(program, "two", 20, Trait.NATIVE), sets(program, "one", 11)]
    applied = apply(context, patches)
    assert (program.one, program.two) == (11, 2)
    assert applied.patches == (patches[0], patches[2])
    assert applied.rows() == [Row("torch_of_a_test.one", patches[0].file, "Why not.")]
    applied.undo()
    assert (program.one, program.two) == (1, 2)


def test_changes_of_others_are_no_rows(program: Any) -> None:
    context = context_of()
    context.editor.by = "somebody else"
    context.editor.set(program, "two", 3)
    applied = apply(context, [sets(program, "one", 10)])
    assert [row.target for row in applied.rows()] == ["torch_of_a_test.one"]


def test_all_are_applied_or_none(program: Any) -> None:
    def fails(context: Context) -> None:
        raise KeyboardInterrupt

    context = context_of()
    with pytest.raises(KeyboardInterrupt):
        apply(context, [sets(program, "one", 10), registered(fails), sets(program, "two", 20)])
    assert (program.one, program.two) == (1, 2)
