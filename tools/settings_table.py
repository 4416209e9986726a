"""Write the tables of docs/settings.md: settings, their effect on each driver, commands and other variables.

python tools/settings_table.py            # prints the tables
python tools/settings_table.py --write    # puts them into the page
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchdevice_cuda.launch import options, planning
from torchdevice_cuda.settings import DRIVERS, OPTIONS, Option, find_exception
from torchdevice_cuda.settings.options import APPLE
from torchdevice_cuda.settings.setting_support import Ignored
from torchdevice_cuda.settings.variables import VARIABLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
END = "<!-- end -->\n"


def _write_table(*rows: list[str]) -> str:
    head, *others = rows
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *others))


def _describe(option: Option) -> list[str]:
    flag = option.flag or (option.switch[0] if option.switch else None)
    values = " ".join(f"`{choice}`" for choice in option.choices) or option.allowed
    more = f" ([more]({option.link}))" if option.link else ""
    old = "".join(
        f"; old name: `{flag}`, `{variable}`"
        for flag, variable in zip(option.flags[1:], option.variables[1:], strict=True)
    )
    return [f"`{flag}`" if flag else "", f"`{option.variable}`", values, f"{option.help}{more}{old}"]


def list_settings(is_apple: bool) -> str:
    """Write the table of the settings for Apple GPUs, or of all others."""
    chosen = [option for option in OPTIONS if (option.group == APPLE) is is_apple]
    return _write_table(["option", "variable", "values", "meaning"], *map(_describe, chosen))


def _describe_effect(option: Option, driver: str) -> str:
    found = find_exception(option.field, driver)
    if found is None:
        return "acts"
    return f"{'no effect' if isinstance(found, Ignored) else '**refused**'}: {found.why}"


def list_effects() -> str:
    """Write the table of the effect of each setting on each driver."""
    rows = [
        [f"`{option.flag or option.variable}`", *(_describe_effect(option, driver) for driver in DRIVERS)]
        for option in OPTIONS
        if not option.chooses_driver
    ]
    return _write_table(["setting", *(f"`{driver}`" for driver in DRIVERS)], *rows)


def list_commands() -> str:
    """Write the table of the options that are no settings: commands, and what follows them."""
    rows = [["option", "values", "meaning"]]
    for action in options.ACTIONS:
        values = " ".join(action.choices) or action.arguments
        rows.append([f"`{action.flag}`", f"`{values}`" if values else "", action.help])
        for flag, (of, words, value) in options.OF_ACTIONS.items():
            if f"--{of}" == action.flag:
                rows.append([f"`{flag}`", f"`{value}`", words])
    rows += [[f"`plan {flag}`", f"{value}", words] for flag, (value, words) in planning.FLAGS.items()]
    return _write_table(*rows)


def list_variables() -> str:
    """Write the table of the variables that are no settings."""
    rows = [
        [f"`{each.name}`", each.allowed, f"{each.help}{' (internal)' if each.is_internal else ''}"]
        for each in VARIABLES
    ]
    return _write_table(["variable", "values", "meaning"], *rows)


def list_tables() -> dict[str, str]:
    """Return every table by its name in the page's comments."""
    return {
        "settings": list_settings(is_apple=False),
        "settings for Apple GPUs": list_settings(is_apple=True),
        "effects": list_effects(),
        "commands": list_commands(),
        "other variables": list_variables(),
    }


def fill(text: str) -> str:
    """Put the tables into the page."""
    for name, table in list_tables().items():
        begin = f"<!-- {name}, from tools/settings_table.py -->\n"
        before, found, rest = text.partition(begin)
        if not found:
            raise ValueError(f"{PAGE} has no line {begin!r}")
        _, _, after = rest.partition(END)
        text = f"{before}{begin}\n{table}\n{END}{after}"
    return text


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("\n".join(list_tables().values()), end="")


if __name__ == "__main__":
    main()
