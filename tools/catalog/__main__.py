"""Which of PyTorch's public callables work, driver by driver, from calling them.

    python tools/catalog measure tests/data/catalog.json.xz --drivers virtual mps   # all is run, nothing typed by hand
    python tools/catalog page tests/data/catalog.json.xz docs/coverage.md
    python tools/catalog diff old.json.xz new.json.xz         # fails where something worked before
    python tools/catalog runs FOLDER --drivers cuda           # on a real GPU: what it makes of the calls
    python tools/catalog record FOLDER GPU.json.xz "H200"     # from such runs: the record that measure compares with

A callable is called on stock torch first, on the CPU, with PyTorch's own samples where there are some and arguments
made from the types and names of its parameters otherwise; then the same call is made on a driver with everything on
the GPU, and compared: with what a real GPU came to where it is in the record, else with stock.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
RECORD = Path(__file__).resolve().parents[2] / "tests" / "data" / "catalog-cuda-2.11.json.xz"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("runs")
    runs.add_argument("folder", type=Path)
    runs.add_argument("--drivers", nargs="+", default=["cuda"])
    runs.add_argument("--seconds", type=float, default=36000, help="begin nothing later (36000)")
    runs.add_argument("--known", type=Path, help="a GPU's record: make the calls that it has")
    record = commands.add_parser("record")
    record.add_argument("folder", type=Path)
    record.add_argument("file", type=Path)
    record.add_argument("device")
    measure = commands.add_parser("measure")
    measure.add_argument("file", type=Path)
    measure.add_argument("--drivers", nargs="+", default=["virtual", "mps"])
    measure.add_argument("--every", type=int, default=1, metavar="N", help="one callable of N")
    measure.add_argument("--work", type=Path, default=Path("build/catalog"), help="where the runs are kept")
    measure.add_argument("--gpu", type=Path, default=RECORD, help="the record of a real GPU")
    for command in (runs, measure):
        command.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
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
    return parser.parse_args()


def main() -> int:
    """The command line."""
    options = arguments()
    if options.command == "work":
        import measuring

        measuring.work(options.names, options.out, options.device)
        return 0
    import measuring
    import recording
    import writing

    try:
        return asked(options, recording, writing)
    except measuring.Silent as error:
        sys.exit(str(error))


def asked(options: argparse.Namespace, recording: Any, writing: Any) -> int:
    """What a command is to do."""
    if options.command == "runs":
        known = recording.calls_of(recording.read(options.known)) if options.known else None
        recording.runs(options.drivers, options.folder, options.jobs, options.seconds, known=known)
    elif options.command == "record":
        recording.write(recording.recorded(options.folder, options.device), options.file)
    elif options.command == "measure":
        gpu = recording.read(options.gpu)
        catalog = writing.measured(options.drivers, options.work, gpu, options.jobs, options.every)
        recording.write(catalog, options.file)
        print(writing.totals(catalog))
    elif options.command == "page":
        options.page.write_text(writing.page(recording.read(options.file)))
    else:
        lost = writing.regressions(recording.read(options.old), recording.read(options.new))
        print("\n".join(lost) or "nothing that worked has stopped working")
        return int(bool(lost))
    return 0


if __name__ == "__main__":
    sys.exit(main())
