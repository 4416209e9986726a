"""Write the rows of the contract as C++, each table in a file that the code includes: ``contract/NAME.inc``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import contract

Row = dict[str, Any]
_CUDA = "/pytorch/aten/src/ATen/native/cuda/"


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
    """Return a C string literal; the characters are ASCII, and JSON's escapes are C's."""
    return "nullptr" if value is None else json.dumps(value)


def _constant(name: str) -> str:
    """Return the C++ name of a constant: ``by_both`` is ``kByBoth``."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def _set(names: list[str]) -> str:
    return " | ".join(map(_constant, names)) or "0"


def _rule(name: str | None) -> str:
    """Return the C++ name of a function of rules.h: positions in brackets are template arguments."""
    return "nullptr" if name is None else "&rules::" + name.replace("(", "<").replace(")", ">")


def _braces(*words: str) -> str:
    return f"{{{', '.join(words)}}}"


def _row(*words: str) -> str:
    return f"{_braces(*words)},"


def _operator(operator: str, row: Row) -> Iterator[str]:
    """Write the fields of ``Row`` in rows.h, in their order."""
    yield _row(
        _text(operator),
        _set(_flags(row)),
        str(sum(1 << position for position in row.get("contiguous", ()))),
        _set(row["takes"]) if "takes" in row else f"~(Types{{0}} | {_set(row.get('refuses', []))})",
        _text(row.get("kernel")),
        _rule(row.get("refuse")),
        _rule(row.get("mixed_types")),
        _wide(row),
        _list_kernel(row),
        _nondeterministic(row),
        _waits(row),
        _rule(row.get("compare")),
    )


def _flags(row: Row) -> list[str]:
    found = [flag for flag in contract.FLAGS if row.get(flag) is True]
    if "divides_integers" in row:
        found.append("divides_integers" + ("_by_mode" if row["divides_integers"] == "mode" else ""))
    if "waits" in row:
        found.append("waits" if row["waits"] else "never_waits")
    return found


def _wide(row: Row) -> str:
    if "widened" not in row:
        return "{}"
    given = row["widened"] if isinstance(row["widened"], dict) else {"when": row["widened"]}
    weight = _set(given["rounded"]) if "rounded" in given else str(given.get("weight", 0))
    types = _set(given.get("types", ["halves"]))
    return _braces(types, f"Family::{_constant(given['when'])[1:]}", _text(given.get("results")), weight)


def _list_kernel(row: Row) -> str:
    given = row.get("list_kernel")
    if given is None:
        return "0"
    return _set(["takes_lists", *(["takes_any_lists"] if given is True else [f"unless_{n}" for n in given["unless"]])])


def _overloads(given: Row) -> str:
    return _text(f" {' '.join(given['overloads'])} " if "overloads" in given else None)


def _nondeterministic(row: Row) -> str:
    given = row.get("nondeterministic")
    if given is None:
        return "{}"
    given = given if isinstance(given, dict) else {"caller": given}
    caller = _text(given["caller"])
    if "before" in given:
        caller = f"HOSTDEVICE_TORCH_SINCE({given['before'].replace('.', ', ')}) ? nullptr : {caller}"
    return _braces(caller, _overloads(given), _rule(given.get("if")))


def _waits(row: Row) -> str:
    given = row.get("waits")
    return _braces(_overloads(given), _rule(given.get("if"))) if isinstance(given, dict) else "{}"


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


def _refuses_cpu_number(operator: str, row: Row) -> Iterator[str]:
    for given in row.get("refuses_cpu_number", ()):
        yield _row(_text(operator), str(given["argument"]), _text(given.get("words")))


def _mps_refuses(operator: str, row: Row) -> Iterator[str]:
    for given in row.get("mps_refuses", ()):
        types = _set(given["types"]) if "types" in given else f"~({_set(given['but'])})"
        yield _row(_text(operator), types, _text(given["words"]))


def _kernel_names() -> Iterator[str]:
    for cpu, names in contract.read_kernel_names().items():
        for operator, cuda in names.items():
            yield _row(_text(cpu), _text(cuda), _text(operator or None))


_TABLES: dict[str, Callable[[str, Row], Iterator[str]]] = {
    "rows": _operator,
    "asserts": _asserts,
    "words": _words,
    "refuses_cpu_number": _refuses_cpu_number,
    "mps_refuses": _mps_refuses,
}
