"""Run the programs of tests/clients with the libraries that are installed, and write what became of them.

    pip install -c constraints.txt -e ".[test,clients]"
    python tools/compatibility.py                      # all of them, on every driver: the table
    python tools/compatibility.py -k "lightning"       # some, as pytest chooses
    python tools/compatibility.py --write              # puts the table into docs/compatibility.md, for this torch

The page keeps a table for each release of torch that it was written with.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
sys.path.insert(0, str(ROOT / "tests"))

#: How a package is called where it is not installed by the name it is imported by.
DISTRIBUTIONS = {"torch_geometric": "torch-geometric"}
WORDS = {"passed": "works", "failed": "fails", "skipped": "not run"}


class Outcomes:
    """Pytest's outcome of each program on each driver, the worst of its phases."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of a test."""
        named = re.search(r"test_client\[(.+)-([^-]+)\]$", report.nodeid)
        if named is None or (report.passed and report.when != "call"):
            return
        place, program = sorted(named.groups(), key=lambda part: (ROOT / f"tests/clients/{part}.py").exists())
        self.found[program, place] = report.outcome


def version(library: str) -> str:
    """Return the installed release of a library."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(library, library))
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def table(found: dict[tuple[str, str], str], libraries: dict[str, tuple[str, ...]]) -> str:
    """Return a table with one row per program and one column per environment."""
    places = sorted({place for _, place in found})
    lines = [f"| program | libraries | {' | '.join(places)} |", "|---" * (len(places) + 2) + "|"]
    for program in sorted({program for program, _ in found}):
        used = ", ".join(f"{library} {version(library)}" for library in libraries[program])
        became = (WORDS[found[program, place]] if (program, place) in found else "not run" for place in places)
        lines.append(f"| `{program}` | {used} | {' | '.join(became)} |")
    return "\n".join(lines) + "\n"


def written(page: str, torch: str, text: str) -> str:
    """Return the page with this table: beside those of other releases, instead of an earlier one of this release."""
    begin, end = f"<!-- clients: torch {torch} -->\n", "<!-- end of clients -->\n"
    block = f"{begin}\n### torch {torch}\n\n{text}\n{end}"
    if begin in page:
        before, _, rest = page.partition(begin)
        return before + block + rest.partition(end)[2]
    return page.rstrip("\n") + "\n\n" + block


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/compatibility.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-k", default="", dest="chosen", metavar="WORDS", help="tests whose names have this, as pytest's"
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(None if arguments is None else list(arguments))
    from test_clients import PROGRAMS

    outcomes = Outcomes()
    line = [str(ROOT / "tests/test_clients.py"), "-q", "-n", "0", "-m", "slow", "-k", options.chosen or "test_client"]
    pytest.main(line, plugins=[outcomes])
    if not outcomes.found:
        print("no program was run", file=sys.stderr)
        return 1
    text = table(outcomes.found, PROGRAMS)
    print(text)
    if options.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), version("torch"), text), "utf-8")
    return int("failed" in outcomes.found.values())


if __name__ == "__main__":
    sys.exit(main())
