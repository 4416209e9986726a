"""Write the tables of docs/ptx.md: the PTX instructions of inline assembly, and their special registers.

python tools/ptx_table.py            # prints the tables
python tools/ptx_table.py --write    # puts them into the page
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from torchdevice_cuda.ptx.table import FAMILIES, threads
from torchdevice_cuda.ptx.table.rows import Row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ptx.md"
BEGIN, END = "<!-- instructions, from tools/ptx_table.py -->\n", "<!-- end -->\n"
#: Modifiers that many instructions have: the page lists their words once.
SHARED = ("order", "scope", "space", "cache", "cmp")
_SHAPE = re.compile(r"\bm\d+n\d+k\d+\b")


def _write_form(row: Row) -> str:
    """Return an instruction as the PTX ISA writes it."""
    text = row.base
    for item in row.pattern.split():
        name, _, choices = item.partition(":")
        is_optional, name = name.endswith(("?", "*")), name.rstrip("?*")
        if name in SHARED and len(choices.split("|")) > 2:
            word = f".{name}"
        elif choices and "|" in choices:
            word = ".{" + ", ".join(choices.split("|")) + "}"
        else:
            word = f".{choices or name}"
        text += f"[{word}]" if is_optional else word
    return text


def _list_forms(rows: list[Row]) -> list[str]:
    """Return the forms of an instruction; those that differ in their shapes only are one."""
    forms: dict[str, list[str]] = {}
    for row in rows:
        form = _write_form(row)
        found = _SHAPE.search(form)
        shapes = forms.setdefault(_SHAPE.sub("SHAPE", form), [])
        if found and found[0] not in shapes:
            shapes.append(found[0])
    return [
        form.replace("SHAPE", shapes[0] if len(shapes) == 1 else "{" + ", ".join(shapes) + "}") if shapes else form
        for form, shapes in forms.items()
    ]


def _list_words(name: str) -> list[str]:
    """Return the words that a shared modifier can be."""
    words: dict[str, None] = {}
    for rows in FAMILIES.values():
        for row in rows:
            for item in row.pattern.split():
                key, _, choices = item.partition(":")
                if key.rstrip("?*") == name:
                    words |= dict.fromkeys(choices.split("|"))
    return list(words)


def write_tables() -> str:
    """Return the tables of all families."""
    parts = []
    for family, rows in FAMILIES.items():
        by_base: dict[str, list[Row]] = {}
        for row in rows:
            by_base.setdefault(row.base, []).append(row)
        where = "CUDA C++" if all(row.needs_thread for row in rows) else "CUDA C++ and Triton"
        parts.append(f"### {family[0].upper()}{family[1:]} ({where})\n\n| instruction | forms |\n| --- | --- |\n")
        for base, of in by_base.items():
            forms = "<br>".join(f"`{form}`" for form in _list_forms(of))
            parts.append(f"| `{base}` | {forms} |\n")
        parts.append("\n")
    parts.append("| modifier | words |\n| --- | --- |\n")
    parts += [f"| `.{name}` | {' '.join(f'`.{word}`' for word in _list_words(name))} |\n" for name in SHARED]
    special = sorted({name.partition(".")[0] for name in (*threads.SPECIAL, *threads.CLOCKS)})
    parts.append(f"\nSpecial registers: {', '.join(f'`{name}`' for name in special)}.\n")
    return "".join(parts)


def fill(text: str) -> str:
    """Put the tables into the page."""
    before, found, rest = text.partition(BEGIN)
    if not found:
        raise ValueError(f"{PAGE} has no line {BEGIN!r}")
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{write_tables()}\n{END}{after}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(write_tables(), end="")


if __name__ == "__main__":
    main()
