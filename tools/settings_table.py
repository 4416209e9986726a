"""Writes the tables of docs/settings.md: what each setting does on each driver, and the other variables.

python tools/settings_table.py            # prints the first
python tools/settings_table.py --write    # puts both into the page
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchdevice_cuda.settings import DRIVERS, OPTIONS, Option
from torchdevice_cuda.settings.setting_support import CHOOSING, Ignored, meaning
from torchdevice_cuda.settings.variables import VARIABLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
BEGIN, END = "<!-- from tools/settings_table.py -->\n", "<!-- end -->\n"
BEGIN_OTHERS = "<!-- other variables, from tools/settings_table.py -->\n"


def _cell(option: Option, driver: str) -> str:
    found = meaning(option.field, driver)
    if found is None:
        return "acts"
    return f"{'no effect' if isinstance(found, Ignored) else '**refused**'}: {found.why}"


def table() -> str:
    """The table in Markdown."""
    rows = [["setting", *(f"`{driver}`" for driver in DRIVERS)], ["---"] * (len(DRIVERS) + 1)]
    for option in OPTIONS:
        if option.field not in CHOOSING:
            spelled = f"`{option.flag or option.variable}`"
            rows.append([spelled, *(_cell(option, driver) for driver in DRIVERS)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def others() -> str:
    """The table of the other variables in Markdown."""
    rows = [["variable", "values", "meaning"], ["---"] * 3]
    for each in VARIABLES:
        rows.append([f"`{each.name}`", each.allowed, f"{each.help}{' (internal)' if each.is_internal else ''}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page(text: str) -> str:
    """The page with the tables in their places."""
    for begin, made in ((BEGIN, table()), (BEGIN_OTHERS, others())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(END)
        text = f"{before}{begin}\n{made}\n{END}{after}"
    return text


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
