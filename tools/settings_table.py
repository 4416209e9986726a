"""Writes the table of docs/settings.md: what each setting does on each driver.

python tools/settings_table.py            # prints it
python tools/settings_table.py --write    # puts it into the page
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchdevice_cuda.meanings import CHOOSING, Nothing, meaning
from torchdevice_cuda.settings import DRIVERS, OPTIONS, Option

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
BEGIN, END = "<!-- from tools/settings_table.py -->\n", "<!-- end -->\n"


def _cell(option: Option, driver: str) -> str:
    found = meaning(option.field, driver)
    if found is None:
        return "acts"
    return f"{'nothing' if isinstance(found, Nothing) else '**refused**'}: {found.why}"


def table() -> str:
    """The table in Markdown."""
    rows = [["setting", *(f"`{driver}`" for driver in DRIVERS)], ["---"] * (len(DRIVERS) + 1)]
    for option in OPTIONS:
        if option.field not in CHOOSING:
            spelled = f"`{option.flag or option.variable}`"
            rows.append([spelled, *(_cell(option, driver) for driver in DRIVERS)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page(text: str) -> str:
    """The page with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


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
