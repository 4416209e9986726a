"""Writes the rows of the contract as C++, each table in a file that the code includes: ``contract/NAME.inc``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import contract

Row = dict[str, Any]
_CUDA = "/pytorch/aten/src/ATen/native/cuda/"
_UNLESS = {
    "integral": "kIntegralTypes",
    "complex": "kComplexTypes",
    "promotes": "kPromotes",
    "converts": "kConverts",
    "other_norms": "kOtherNorms",
    "other_sums": "kOtherSums",
}


def write_tables(folder: Path) -> None:
    """Write every table into ``folder/contract``."""
    (folder / "contract").mkdir()
    rows = contract.read_operators()
    for name, write in _TABLES.items():
        lines = [line for operator, row in rows.items() for line in write(operator, row)]
        _put(folder, name, lines)
    _put(folder, "kernel_names", list(_kernel_names()))


def _put(folder: Path, name: str, lines: list[str]) -> None:
    (folder / "contract" / f"{name}.inc").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _text(value: str | None) -> str:
    """Write a C string; the characters are ASCII, and JSON's escapes are C's."""
    return "nullptr" if value is None else json.dumps(value)


def _constant(name: str) -> str:
    """Name a constant of the code as the code does: ``by_both`` is ``kByBoth``."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def _set(names: list[str]) -> str:
    return " | ".join(map(_constant, names)) or "0"


def _rule(name: str | None) -> str:
    """Name a function of rules.h: positions in brackets are arguments of a template."""
    return "nullptr" if name is None else "&rules::" + name.replace("(", "<").replace(")", ">")


def _row(*words: str) -> str:
    return f"{{{', '.join(words)}}},"


def _taken(operator: str, row: Row) -> Iterator[str]:
    if "takes" in row or "refuses" in row:
        types = _set(row["takes"]) if "takes" in row else f"~({_set(row['refuses'])})"
        yield _row(_text(operator), types, _text(row.get("kernel")), _rule(row.get("refuse")))


def _mixed_types(operator: str, row: Row) -> Iterator[str]:
    if "mixed_types" in row:
        yield _row(_text(operator), _rule(row["mixed_types"]))


def _widened(operator: str, row: Row) -> Iterator[str]:
    if "widened" not in row:
        return
    given = row["widened"] if isinstance(row["widened"], dict) else {"when": row["widened"]}
    family = _constant(given["when"])[1:]
    weight = _set(given["rounded"]) if "rounded" in given else str(given.get("weight", 0))
    types = _set(given.get("types", ["halves"]))
    yield _row(_text(operator), f"Family::{family}", types, _text(given.get("results")), weight)


def _overloads(operator: str, given: Any) -> list[str]:
    named = given.get("overloads") if isinstance(given, dict) else None
    return [f"{operator}.{overload}" for overload in named] if named else [operator]


def _nondeterministic(operator: str, row: Row) -> Iterator[str]:
    given = row.get("nondeterministic")
    if given is None:
        return
    given = given if isinstance(given, dict) else {"caller": given}
    if "before" in given:
        yield f"#if !HOSTDEVICE_TORCH_SINCE({given['before'].replace('.', ', ')})"
    for name in _overloads(operator, given):
        yield _row(_text(name), _text(given["caller"]), _rule(given.get("if")))
    if "before" in given:
        yield "#endif"


def _waits(operator: str, row: Row) -> Iterator[str]:
    given = row.get("waits")
    if given:
        for name in _overloads(operator, given):
            yield _row(_text(name), _rule(given.get("if") if isinstance(given, dict) else None))


def _never_waits(operator: str, row: Row) -> Iterator[str]:
    if row.get("waits") is False:
        yield f"{_text(operator)},"


def _asserts(operator: str, row: Row) -> Iterator[str]:
    errors = contract.read_errors() if "asserts" in row else {}
    for given in row.get("asserts", ()):
        error = errors[given["error"]]
        yield _row(
            _text(operator),
            _text(given["words"]),
            _text(_CUDA + error["at"]),
            _text(error["condition"]),
            str(given.get("argument", 0)),
            str(given.get("harmless", 0)),
            _rule(given.get("if")),
        )


def _words(operator: str, row: Row) -> Iterator[str]:
    for given in row.get("words", ()):
        yield _row(
            _text(operator),
            _text(given["words"]),
            _text(given.get("kernel")),
            str(given.get("argument", 0)),
            _text(given.get("instead")),
            str(given.get("whole", False)).lower(),
        )


def _list_kernel(operator: str, row: Row) -> Iterator[str]:
    given = row.get("list_kernel")
    if given is not None:
        unless = ["kNothing"] if given is True else [_UNLESS[name] for name in given["unless"]]
        yield _row(_text(operator), " | ".join(unless) or "0")


def _refuses_cpu_number(operator: str, row: Row) -> Iterator[str]:
    for given in row.get("refuses_cpu_number", ()):
        yield _row(_text(operator), str(given["argument"]), _text(given.get("words")))


def _contiguous(operator: str, row: Row) -> Iterator[str]:
    if "contiguous" in row:
        yield _row(_text(operator), str(sum(1 << place for place in row["contiguous"])))


def _names(key: str, value: object = True) -> Callable[[str, Row], Iterator[str]]:
    """Write the full names of operators whose rows have this value; the in-place form too."""

    def write(operator: str, row: Row) -> Iterator[str]:
        if row.get(key) == value:
            yield f'"aten::{operator}", "aten::{operator}_",'

    return write


def _kernel_names() -> Iterator[str]:
    for cpu, names in contract.read_kernel_names().items():
        for operator, cuda in names.items():
            yield _row(_text(cpu), _text(cuda), _text(operator or None))


_TABLES: dict[str, Callable[[str, Row], Iterator[str]]] = {
    "taken": _taken,
    "mixed_types": _mixed_types,
    "widened": _widened,
    "nondeterministic": _nondeterministic,
    "waits": _waits,
    "never_waits": _never_waits,
    "asserts": _asserts,
    "words": _words,
    "list_kernel": _list_kernel,
    "refuses_cpu_number": _refuses_cpu_number,
    "contiguous": _contiguous,
    "mixes_devices": _names("mixes_devices"),
    "indexes": _names("indexes"),
    "divides_integers": _names("divides_integers", "always"),
    "divides_integers_by_mode": _names("divides_integers", "mode"),
    "never_draws": _names("never_draws"),
}
