"""The finder on fake packages: it knows nothing of what it serves."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchdevice_cuda.finder import Shadow, ShadowFinder
from torchdevice_cuda.inplace import Rewrite

STOCK = {
    "host/__init__.py": "from . import tree\ncomplete = True\n",
    "host/tree/__init__.py": """
from .leaf import answer, Thing
from functools import lru_cache
def whoami(): return "stock"
def only_stock(): return "stock"
@lru_cache
def cached(): return "stock"
def closure(n):
    def inner(): return ("stock", n)
    return inner
made = closure(1)
def wrapped(x=1): return ("stock", x)
""",
    "host/tree/leaf.py": """
class Thing:
    kind = "stock"
def answer(): return "stock"
""",
    "host/tree/later.py": "origin = 'stock'\n",
}
OURS = {
    "tree/__init__.py": """
from .leaf import answer, Thing
from functools import lru_cache
def whoami(): return "shadow"
@lru_cache
def cached(): return "shadow"
def closure(n, m=2):
    def inner(): return ("shadow", n, m)
    return inner
made = closure(1)
def wrapped(y=2, *, z=3): return ("shadow", y, z)
def only_shadow(): return "shadow"
""",
    "tree/leaf.py": """
class Thing:
    kind = "shadow"
def answer(): return "shadow"
""",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shadow]:
    write(tmp_path / "stock", STOCK)
    write(tmp_path / "ours", OURS)
    monkeypatch.syspath_prepend(str(tmp_path / "stock"))
    ours = tmp_path / "ours" / "tree"
    files = {"host.tree": ours / "__init__.py", "host.tree.leaf": ours / "leaf.py"}
    yield Shadow("host.tree", lambda: files, lambda: [str(tmp_path / "stock" / "host" / "tree")])
    for name in [name for name in sys.modules if name.split(".")[0] == "host"]:
        del sys.modules[name]


@pytest.fixture
def finder(trees: Shadow) -> Iterator[ShadowFinder]:
    made = ShadowFinder([trees])
    made.install()
    yield made
    made.remove()


def test_serves_the_tree_under_its_own_names(finder: ShadowFinder) -> None:
    tree = importlib.import_module("host.tree")
    assert tree.whoami() == "shadow" and tree.whoami.__module__ == "host.tree"
    assert tree.leaf.answer() == "shadow" and sys.modules["host"].tree is tree


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


def test_decision_is_asked_once_and_may_be_none(tmp_path: Path, trees: Shadow) -> None:
    asked: list[int] = []
    finder = ShadowFinder([Shadow("host.tree", lambda: asked.append(1) or {}, list)])
    finder.install()
    try:
        tree = importlib.import_module("host.tree")
        importlib.import_module("host.tree.later")
    finally:
        finder.remove()
    assert tree.whoami() == "stock" and asked == [1]


class TestInPlace:
    @pytest.fixture
    def loaded(self, trees: Shadow) -> dict[str, object]:
        tree = importlib.import_module("host.tree")
        names = ("whoami", "cached", "made", "wrapped", "only_stock", "Thing", "answer")
        return {"module": tree, "leaf": tree.leaf, **{name: getattr(tree, name) for name in names}}

    @pytest.fixture
    def rewrite(self, trees: Shadow, loaded: dict[str, object]) -> Rewrite:
        made = Rewrite([name for name in sys.modules if name.startswith("host.tree")])
        made.apply("host.tree", trees.spec, lambda name, value: False)
        return made

    def test_modules_keep_their_identity(self, rewrite: Rewrite, loaded: dict) -> None:
        tree = sys.modules["host.tree"]
        assert tree is loaded["module"] is sys.modules["host"].tree and tree.leaf is loaded["leaf"]
        assert tree.whoami() == "shadow" and tree.only_shadow() == "shadow" and not hasattr(tree, "only_stock")

    def test_names_bound_earlier_follow(self, rewrite: Rewrite, loaded: dict) -> None:
        assert loaded["whoami"]() == "shadow" and loaded["whoami"] is sys.modules["host.tree"].whoami
        assert loaded["answer"]() == "shadow"
        assert loaded["wrapped"](5, z=6) == ("shadow", 5, 6) and loaded["wrapped"]() == ("shadow", 2, 3)
        assert loaded["made"]() == ("shadow", 1, 2)  # a closure whose shape changed

    def test_old_classes_deal_with_the_new(self, rewrite: Rewrite, loaded: dict) -> None:
        new = sys.modules["host.tree"].Thing
        assert isinstance(loaded["Thing"](), new) and isinstance(new(), loaded["Thing"])
        assert issubclass(new, loaded["Thing"])

    def test_undo_restores_every_object(self, trees: Shadow, loaded: dict) -> None:
        tree = loaded["module"]
        before = {name: dict(sys.modules[name].__dict__) for name in sys.modules if name.startswith("host")}
        made = Rewrite([name for name in sys.modules if name.startswith("host.tree")])
        made.apply("host.tree", trees.spec, lambda name, value: False)
        made.undo()
        for name, namespace in before.items():
            now = sys.modules[name].__dict__
            assert now.keys() == namespace.keys()
            assert {key: (now[key], namespace[key]) for key in now if now[key] is not namespace[key]} == {}
        assert loaded["whoami"]() == "stock" and loaded["made"]() == ("stock", 1)
        assert loaded["wrapped"]() == ("stock", 1) and type(loaded["Thing"]) is type
        assert tree.Thing().kind == "stock"

    def test_attributes_to_keep_are_kept(self, trees: Shadow) -> None:
        tree = importlib.import_module("host.tree")
        tree.FromCpp = type("FromCpp", (), {"__module__": "host.tree"})
        Rewrite(["host.tree", "host.tree.leaf"]).apply("host.tree", trees.spec, lambda name, _: name == "FromCpp")
        assert tree.FromCpp.__name__ == "FromCpp"
