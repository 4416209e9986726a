"""Measure the tests: the code that they run, and whether they notice changes of it.

    pip install "coverage>=7.13"
    python tools/tested coverage                            # the default suite, then lines and branches of each file
    python tools/tested coverage tests/launch tests/report  # some of it; what was recorded before is kept
    python tools/tested figures --missing settings drivers      # of what was recorded: which lines no test ran
    python tools/tested mutants --sample 300 --results found.jsonl  # changes, and whether tests notice: after coverage
    python tools/tested mutants --results found.jsonl --survivors   # again those that nobody noticed
    python tools/tested mutants drivers --tests tests/drivers --sample 0 --results found.jsonl  # all; takes no coverage

Nearly every test runs a program of its own. Its processes are recorded, too, and where the harness would start a new
Python there is a fork of one that has imported torch: else most of the time would be spent on that.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from pathlib import Path

import mutating
import recording


def coverage(options: argparse.Namespace) -> int:
    """Record, and print the table."""
    for name, done in recording.record(recording.files(options.paths or ["tests"]), options.jobs):
        last = (done.said.strip().splitlines() or [""])[-1]
        print(f"{done.seconds:6.0f} s  {name}: {last}", flush=True)
    recording.combine()
    print(recording.figures([], False))
    return 0


def figures(options: argparse.Namespace) -> int:
    """Print the table of what was recorded."""
    recording.combine()
    print(recording.figures(options.places, options.missing))
    return 0


def mutants(options: argparse.Namespace) -> int:
    """Change the package, and print what came of it; results are kept as they come, and not asked for again."""
    found = mutating.mutants(options.places or mutating.PLACES)
    chosen = mutating.sample(found, options.sample or None, options.seed)
    named = recording.files(options.tests)
    if options.tests and not named:
        raise SystemExit(f"no files of tests: {' '.join(options.tests)}")
    results = mutating.known(options.results)
    if options.survivors:
        chosen = [each for each in found if results.get(each.name, {}).get("came") not in (None, mutating.CAUGHT)]
    else:
        chosen = [each for each in chosen if each.name not in results]
    with options.results.open("a", encoding="utf-8") as file:
        for row in mutating.examine(chosen, options.seconds, options.jobs, named):
            print(json.dumps(row), file=file, flush=True)
            print(f"{row['came']}: {row['mutant']}: {row['before']!r} -> {row['after']!r} {row['by']}", flush=True)
    names = {each.name for each in found}  # of the package as it is now
    results = {name: row for name, row in mutating.known(options.results).items() if name in names}
    print(f"{len(found)} mutants, {len(results)} examined:")
    for came, number in collections.Counter(row["came"] for row in results.values()).most_common():
        print(f"  {number} {came}, {100 * number / len(results):.1f}%")
    return 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/tested", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("coverage", help="run tests and record what they run")
    command.add_argument("paths", nargs="*", help="files and folders of tests (tests)")
    command.add_argument("--jobs", type=int, default=2, help="how many files at a time (2)")
    command.set_defaults(run=coverage)
    command = commands.add_parser("figures", help="what was recorded")
    command.add_argument("places", nargs="*", help="files and folders of the package (all)")
    command.add_argument("--missing", action="store_true", help="name the lines that no test ran")
    command.set_defaults(run=figures)
    command = commands.add_parser("mutants", help="change the package and see whether tests notice")
    command.add_argument("places", nargs="*", help=f"of the package ({', '.join(mutating.PLACES)})")
    command.add_argument("--sample", type=int, default=300, metavar="N", help="so many of the mutants (300), 0: all")
    command.add_argument("--jobs", type=int, default=1, help="how many at a time, each in a tree of its own (1)")
    command.add_argument("--seed", type=int, default=0, help="which (0)")
    command.add_argument("--seconds", type=float, default=60, help="of tests for each mutant, about (60)")
    command.add_argument("--results", type=Path, required=True, help="where they are kept, a line each")
    command.add_argument(
        "--tests", nargs="+", default=[], metavar="PATH", help="with these files of tests; no record is needed"
    )
    command.add_argument("--survivors", action="store_true", help="only those that were not caught")
    command.set_defaults(run=mutants)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
