"""The undo log: what is changed twice goes back to what it was at first, whatever kind of change it was."""

from __future__ import annotations

import types

import pytest

from torchdevice_cuda.translate.core.editor import Change, Editor, dotted


@pytest.fixture
def owner() -> types.ModuleType:
    module = types.ModuleType("program")
    module.name = "first"  # type: ignore[attr-defined]
    return module


def test_an_attribute_that_was_set_twice_is_the_first_again(owner: types.ModuleType) -> None:
    editor = Editor()
    editor.set(owner, "name", "second")
    editor.set(owner, "name", "third")
    editor.undo()
    assert owner.name == "first"


def test_an_attribute_that_was_not_there_is_gone_again(owner: types.ModuleType) -> None:
    editor = Editor()
    editor.set(owner, "other", 1)
    editor.set(owner, "other", 2)
    editor.undo()
    assert not hasattr(owner, "other")


def test_an_attribute_that_was_removed_is_back(owner: types.ModuleType) -> None:
    editor = Editor()
    editor.set(owner, "name", "second")
    editor.remove(owner, "name")
    assert not hasattr(owner, "name")
    editor.undo()
    assert owner.name == "first"


@pytest.mark.parametrize("table", [{}, {"key": "first"}])
def test_an_entry_goes_back(table: dict[str, str]) -> None:
    before, editor = dict(table), Editor()
    editor.item(table, "key", "second")
    editor.item(table, "key", "third")
    assert table["key"] == "third"
    editor.undo()
    assert table == before


@pytest.mark.parametrize("members", [["first"], {"first"}])
def test_a_member_goes(members: list[str] | set[str]) -> None:
    before, editor = type(members)(members), Editor()
    editor.member(members, "second")
    assert "second" in members
    editor.undo()
    assert members == before


def test_actions_run_backwards() -> None:
    done: list[int] = []
    editor = Editor()
    for number in range(3):
        editor.on_undo(lambda number=number: done.append(number))
    editor.undo()
    assert done == [2, 1, 0]


def test_a_change_is_recorded_under_its_name_and_whose_it_is(owner: types.ModuleType) -> None:
    editor = Editor()
    editor.by = "one"
    editor.set(owner, "name", "second")
    editor.by = "two"
    editor.remove(owner, "name")
    assert editor.changes == [Change("program.name", "one"), Change("program.name", "two")]
    assert len(set(editor.changes)) == 2


def test_a_change_that_comes_later_is_on_behalf_of_who_asked_for_it(owner: types.ModuleType) -> None:
    editor = Editor()
    editor.by = "one"
    change = editor.later(lambda value: editor.set(owner, "name", value))
    editor.by = "two"
    change("second")
    assert editor.changes == [Change("program.name", "one")]
    assert editor.by == "two"


def test_names_are_those_under_which_programs_find_them(owner: types.ModuleType) -> None:
    assert dotted(owner, "name") == "program.name"
    assert dotted(Editor, "set") == f"{Editor.__module__}.Editor.set"
    assert dotted(Editor(), "set") == dotted(Editor, "set")


def test_a_change_by_other_means_is_logged_and_undone() -> None:
    editor, taken = Editor(), []
    editor.by = "one"
    editor.undone("torch.name", lambda: taken.append("back"))
    assert editor.changes == [Change("torch.name", "one")]
    assert taken == []
    editor.undo()
    assert taken == ["back"]
