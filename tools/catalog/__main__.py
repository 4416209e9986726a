"""Which of PyTorch's public callables work, driver by driver, from calling them.

    python tools/catalog measure catalog.json --drivers virtual mps      # hours of nothing typed by hand: all is run
    python tools/catalog page catalog.json docs/coverage.md
    python tools/catalog diff old.json new.json                          # fails where something worked before

A callable is called on stock torch first, on the CPU, with PyTorch's own samples where there are some and arguments
guessed from names otherwise; then the same call is made on a driver with everything on the GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure")
    measure.add_argument("file", type=Path)
    measure.add_argument("--drivers", nargs="+", default=["virtual", "mps"])
    measure.add_argument("--every", type=int, default=1, metavar="N", help="one callable of N")
    measure.add_argument("--reference", type=Path, help="keep stock's calls here, and take them from here if they are")
    measure.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    page = commands.add_parser("page")
    page.add_argument("file", type=Path)
    page.add_argument("page", type=Path)
    diff = commands.add_parser("diff")
    diff.add_argument("old", type=Path)
    diff.add_argument("new", type=Path)
    work = commands.add_parser("work")
    work.add_argument("names")
    work.add_argument("out")
    work.add_argument("device")
    options = parser.parse_args()
    if options.command == "work":
        import measuring

        measuring.work(options.names, options.out, options.device)
        return 0
    import writing

    if options.command == "measure":
        catalog = writing.measured(options.drivers, options.every, options.reference, options.jobs)
        options.file.write_text(writing.as_text(catalog))
        print(writing.totals(catalog))
        return 0
    if options.command == "page":
        options.page.write_text(writing.page(json.loads(options.file.read_text())))
        return 0
    lost = writing.regressions(json.loads(options.old.read_text()), json.loads(options.new.read_text()))
    print("\n".join(lost) or "nothing that worked has stopped working")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
