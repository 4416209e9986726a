"""The rows of the contract: what they name exists, and what is misspelt is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torchdevice_cuda import contract
from torchdevice_cuda._compat import torch_release
from torchdevice_cuda.native import contract_tables, toolchain

ROWS = contract.read_operators()
OPERATORS = toolchain.SOURCES / "core" / "operators"


def known_operators() -> set[str]:
    names = {name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    return names | {name.removesuffix("_") for name in names}


def rules(value: Any) -> Iterator[str]:
    """Return the rules that a row names."""
    if isinstance(value, dict):
        yield from (item for key, item in value.items() if key in ("if", "refuse", "compare", "mixed_types"))
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from rules(item)


@pytest.mark.skipif(torch_release(torch.__version__) < (2, 13), reason="some operators are of later releases")
def test_operators_exist() -> None:
    assert ROWS.keys() - known_operators() == set()


def test_rules_are_where_rows_say() -> None:
    text = (OPERATORS / "rules.h").read_text()
    named = {rule.partition("(")[0] for row in ROWS.values() for rule in rules(row)}
    assert len(named) > 20
    assert [name for name in sorted(named) if not re.search(rf"\b(void|bool) {name}\(", text)] == []


def test_errors_are_used() -> None:
    used = {one["error"] for row in ROWS.values() for one in row.get("asserts", ())}
    assert used == contract.read_errors().keys()


def test_families_are_the_codes() -> None:
    header = (OPERATORS / "rows.h").read_text()
    families = re.search(r"enum class Family[^{]*\{([^}]*)\}", header)
    assert families is not None
    known = {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name in re.findall(r"^  (\w+),", families[1], re.M)}
    given = [row["widened"] for row in ROWS.values() if "widened" in row]
    assert {one if isinstance(one, str) else one["when"] for one in given} <= known


def test_flags_are_the_codes() -> None:
    """Include the flags that a row sets by another key: ``waits = false`` is kNeverWaits."""
    header = (OPERATORS / "rows.h").read_text()
    flags = re.search(r"enum RowFlag[^{]*\{([^}]*)\}", header)
    assert flags is not None
    by_value = {"divides_integers", "divides_integers_by_mode", "waits", "never_waits"}
    constants = {"k" + name.title().replace("_", "") for name in {*contract.FLAGS, *by_value}}
    assert set(re.findall(r"^  (\w+) =", flags[1], re.M)) == constants
    wrong = {
        name: row[flag] for name, row in ROWS.items() for flag in contract.FLAGS if row.get(flag, True) is not True
    }
    assert wrong == {}


def test_every_key_is_written(tmp_path: Path) -> None:
    """A key that nothing is made of would be accepted and ignored."""
    contract_tables.write_tables(tmp_path)
    empty = [path.name for path in (tmp_path / "contract").iterdir() if not path.read_text()]
    assert empty == []
    used = {key for row in ROWS.values() for key in row}
    assert used == contract.KEYS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mm]\ntake = []\n", "mm has take; what a row may say: asks_grad, asserts"),
        ('[mm]\nwaits = true\n[bmm]\nsame = ["mm"]\n', "mm has two rows"),
    ],
)
def test_a_wrong_row_is_named(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "operators.toml").write_text(text)
    monkeypatch.setattr(contract, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match=f"operators.toml: {said}"):
        contract.read_operators()


def test_a_family_is_each_of_its_operators() -> None:
    assert ROWS["sub"] == ROWS["add"] and "same" not in ROWS["sub"]
