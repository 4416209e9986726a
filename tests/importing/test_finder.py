"""The finder on fake packages: it knows nothing of what it serves."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchdevice_cuda.importing.finder import Shadow, ShadowFinder, when_imported
from torchdevice_cuda.importing.inplace import Rewrite

#: A package, and what is served in the place of a part of it.
TREES = Path(__file__).with_name("trees")


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shadow]:
    monkeypatch.syspath_prepend(str(TREES / "stock"))
    ours = TREES / "ours" / "tree"
    files = {"host.tree": ours / "__init__.py", "host.tree.leaf": ours / "leaf.py"}
    yield Shadow("host.tree", lambda: files, lambda: [str(TREES / "stock" / "host" / "tree")])
    for name in [name for name in sys.modules if name.split(".")[0] == "host"]:
        del sys.modules[name]


@pytest.fixture
def finder(trees: Shadow) -> Iterator[ShadowFinder]:
    made = ShadowFinder([trees])
    made.install()
    yield made
    made.remove()


@pytest.mark.usefixtures("trees")
def test_two_may_wait_for_one_module() -> None:
    told: list[str] = []
    ends = [
        when_imported("host", lambda module, who=who: told.append(f"{who} {module.__name__}")) for who in ("a", "b")
    ]
    host = importlib.import_module("host")
    assert sorted(told) == ["a host", "b host"]
    assert "exec_module" not in vars(host.__loader__)
    for end in ends:
        end()


def test_serves_the_tree_under_its_own_names(finder: ShadowFinder) -> None:
    tree = importlib.import_module("host.tree")
    assert tree.whoami() == "shadow"
    assert tree.whoami.__module__ == "host.tree"
    assert tree.leaf.answer() == "shadow"
    assert sys.modules["host"].tree is tree


def test_unknown_submodules_come_from_stock(finder: ShadowFinder) -> None:
    assert importlib.import_module("host.tree.later").origin == "stock"


def test_callback_runs_once_after_the_module_and_the_loader_stays_genuine(trees: Shadow) -> None:
    seen: list[bool] = []
    finder = ShadowFinder([trees], {"host": lambda module: seen.append(module.complete)})
    finder.install()
    try:
        host = importlib.import_module("host")
    finally:
        finder.remove()
    assert seen == [True]
    assert "exec_module" not in vars(host.__spec__.loader)


def test_decision_is_asked_once_and_may_be_none(trees: Shadow) -> None:
    asked: list[int] = []
    finder = ShadowFinder([Shadow("host.tree", lambda: asked.append(1) or {}, list)])
    finder.install()
    try:
        tree = importlib.import_module("host.tree")
        importlib.import_module("host.tree.later")
    finally:
        finder.remove()
    assert tree.whoami() == "stock"
    assert asked == [1]


class TestInPlace:
    @pytest.fixture
    def loaded(self, trees: Shadow) -> dict[str, Any]:
        tree = importlib.import_module("host.tree")
        names = ("whoami", "cached", "made", "wrapped", "only_stock", "Thing", "answer")
        return {"module": tree, "leaf": tree.leaf, **{name: getattr(tree, name) for name in names}}

    @pytest.fixture
    def rewrite(self, trees: Shadow, loaded: dict[str, Any]) -> Rewrite:
        made = Rewrite([name for name in sys.modules if name.startswith("host.tree")])
        made.apply("host.tree", trees.spec, lambda name, value: False)
        return made

    def test_modules_keep_their_identity(self, rewrite: Rewrite, loaded: dict[str, Any]) -> None:
        tree = sys.modules["host.tree"]
        assert tree is loaded["module"] is sys.modules["host"].tree
        assert tree.leaf is loaded["leaf"]
        assert tree.whoami() == "shadow"
        assert tree.only_shadow() == "shadow"
        assert not hasattr(tree, "only_stock")

    def test_names_bound_earlier_follow(self, rewrite: Rewrite, loaded: dict[str, Any]) -> None:
        assert loaded["whoami"]() == "shadow"
        assert loaded["whoami"] is sys.modules["host.tree"].whoami
        assert loaded["answer"]() == "shadow"
        assert loaded["wrapped"](5, z=6) == ("shadow", 5, 6)
        assert loaded["wrapped"]() == ("shadow", 2, 3)
        assert loaded["made"]() == ("shadow", 1, 2)  # a closure whose shape changed

    def test_old_classes_deal_with_the_new(self, rewrite: Rewrite, loaded: dict[str, Any]) -> None:
        new = sys.modules["host.tree"].Thing
        assert isinstance(loaded["Thing"](), new)
        assert isinstance(new(), loaded["Thing"])
        assert issubclass(new, loaded["Thing"])

    def test_undo_restores_every_object(self, trees: Shadow, loaded: dict[str, Any]) -> None:
        tree = loaded["module"]
        before = {name: dict(sys.modules[name].__dict__) for name in sys.modules if name.startswith("host")}
        made = Rewrite([name for name in sys.modules if name.startswith("host.tree")])
        made.apply("host.tree", trees.spec, lambda name, value: False)
        made.undo()
        for name, namespace in before.items():
            now = sys.modules[name].__dict__
            assert now.keys() == namespace.keys()
            assert {key: (now[key], namespace[key]) for key in now if now[key] is not namespace[key]} == {}
        assert loaded["whoami"]() == "stock"
        assert loaded["made"]() == ("stock", 1)
        assert loaded["wrapped"]() == ("stock", 1)
        assert type(loaded["Thing"]) is type
        assert tree.Thing().kind == "stock"

    def test_attributes_to_keep_are_kept(self, trees: Shadow) -> None:
        tree = importlib.import_module("host.tree")
        tree.FromCpp = type("FromCpp", (), {"__module__": "host.tree"})
        Rewrite(["host.tree", "host.tree.leaf"]).apply("host.tree", trees.spec, lambda name, _: name == "FromCpp")
        assert tree.FromCpp.__name__ == "FromCpp"
