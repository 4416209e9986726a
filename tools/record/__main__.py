"""Records what a GPU answers to sets of cases, and compares drivers with the records.

    python tools/record list                                  # the sets, their records, and where those were made
    python tools/record record ties                           # on a machine with a CUDA GPU: writes tests/data/...
    python tools/record compare oracle --driver virtual       # what differs from the record, and is not expected to
    python tools/record compare oracle --driver virtual --only amp
    python tools/record page                                  # docs/coverage.md, from the catalog
    python tools/record coverage                              # docs/operators.md: rows of the contract, and records

It needs torch and this repository, nothing else; ``list`` says what a set needs beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Its own folder is no place for imports: the modules are record's. Last, since tools/site.py has the name of Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path += [str(HERE.parent), str(ROOT / "tests")]

from record import comparison, row_coverage, running, store, table  # noqa: E402
from record.case_sets import CaseSet, choose_cases, list_sets, load_set  # noqa: E402
from record.places import PLACES, Place  # noqa: E402


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python tools/record")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    record = commands.add_parser("record")
    record.add_argument("--to", type=Path, help="instead of the record in tests/data")
    record.add_argument("--resume", type=Path, help="a record whose answers are taken over")
    record.add_argument("--seconds", type=float, default=3600.0, help="seconds in all; what is known by then is kept")
    compare = commands.add_parser("compare")
    compare.add_argument("--driver", required=True, choices=PLACES, nargs="+")
    compare.add_argument("--with", dest="golden", type=Path, help="another record")
    compare.add_argument("--slow", action="store_true", help="cases that start programs, too")
    compare.add_argument("--answers", type=Path, help="compare what --to or record has written, and run nothing")
    compare.add_argument("--to", type=Path, help="write every answer there")
    compare.add_argument("--alike", type=float, metavar="PERCENT", help="fail below this, not at any difference")
    compare.add_argument("--equal", type=float, default=0.0, metavar="PERCENT", help="and below this, words counted")
    compare.add_argument("-v", "--verbose", action="store_true", help="print differences that are expected, too")
    for command in (record, compare):
        command.add_argument("set")
        command.add_argument("--only", action="append", default=[], help="a case, or an area of them")
        command.add_argument("--every", type=int, default=1, metavar="N", help="one case of N")
        command.add_argument("--jobs", type=int, default=1, help="processes at a time")
        command.add_argument("--patience", type=float, default=300.0, help="seconds for a case")
    commands.add_parser("page").add_argument("page", type=Path, nargs="?", default=ROOT / "docs" / "coverage.md")
    coverage = commands.add_parser("coverage")
    coverage.add_argument("--jobs", type=int, default=1, help="processes at a time")
    coverage.add_argument("--page", action="store_true", help="write the page alone, from what was noted before")
    child = commands.add_parser("child")
    child.add_argument("set")
    child.add_argument("path", type=Path, nargs="?")
    child.add_argument("names", type=Path, nargs="?")
    child.add_argument("--jobs", type=int, default=0, help="in forks of the child, so many at a time")
    child.add_argument("--patience", type=float, default=300.0)
    return parser.parse_args()


def main() -> int:
    """Run the command line."""
    options = parse_arguments()
    if options.command == "list":
        return print_sets()
    if options.command == "page":
        load_set("catalog").module.write_page(options.page)
        return 0
    if options.command == "coverage":
        if not options.page:
            row_coverage.record_called(options.jobs)
        row_coverage.write_page()
        return 0
    cases = load_set(options.set)
    if own := cases.say(f"{options.command}_set"):
        return int(own(options))
    if cases.say("list_cases") is None:
        raise SystemExit(f"{cases.name} has no cases to compare: its tests read the record")
    return int(COMMANDS[options.command](cases, options))


def print_sets() -> int:
    """Print every set and its record's header."""
    rows = []
    for name in list_sets():
        cases = load_set(name)
        about = store.read_file(cases.record).get("about", {}) if cases.record.exists() else {}
        made = [about.get(key, store.UNKNOWN) for key in ("gpu", "torch", "date")]
        needs = f" Needs {cases.say('NEEDS')}." if cases.say("NEEDS") else ""
        rows.append([name, cases.record.name, *made, cases.title + needs])
    print(table.format_table(rows))
    return 0


def child_set(cases: CaseSet, options: argparse.Namespace) -> int:
    """Do what a child does: list the cases, or run some."""
    if options.path is None:
        print(json.dumps(list(cases.cases)))
    elif options.jobs:
        names = json.loads(options.names.read_text())
        running.serve(cases, names, options.path, options.jobs, options.patience)
    else:
        running.run_cases(cases, json.loads(options.names.read_text()), options.path)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what cases have left behind need not be taken down in order


def record_set(cases: CaseSet, options: argparse.Namespace) -> int:
    """Run a set on a real GPU and write its record."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit(f"record {cases.name}: this machine has no CUDA GPU; to compare: tools/record compare")
    about = store.make_header(f"python tools/record record {cases.name}")
    if options.to is None and not store.is_real(about):
        raise SystemExit(f"this is no GPU, but {about['gpu']}: name another file with --to")
    place, file = PLACES["cuda"], options.to or cases.record
    names = choose_cases(running.list_names(cases, place), options.only, options.every)
    end, failed = time.monotonic() + options.seconds, 0
    answers = store.read_answers(options.resume) if options.resume else {}
    names = [name for name in names if name not in answers]
    for name, found, seconds in running.run_at(cases, place, names, jobs=options.jobs, patience=options.patience):
        print(f"{seconds:7.2f} {name}", flush=True)
        if running.is_failure(found):
            failed += 1
            print(f"        {': '.join(found)}", flush=True)
        else:
            answers[name] = found
        if time.monotonic() > end:
            print("stopped", flush=True)
            break
    store.write_file(file, about, dict(sorted(answers.items())))
    print(f"{file}: {len(answers)} answers, {failed} failed", flush=True)
    sys.stdout.flush()
    os._exit(int(failed > 0 or not answers.keys() >= set(names)))


def choose_place(cases: CaseSet, driver: str) -> Place:
    """Return where the driver's cases run."""
    own = cases.say("OPTIONS", {}).get(driver)
    return PLACES[driver] if own is None else PLACES[driver].with_options(*own)


def compare_set(cases: CaseSet, options: argparse.Namespace) -> int:
    """Run a set on drivers, and print what is not as recorded."""
    return max([compare_on(cases, options, driver) for driver in options.driver])


def compare_on(cases: CaseSet, options: argparse.Namespace, driver: str) -> int:
    """Run a set on a driver; 1 where anything is not as recorded or expected."""
    golden = store.read_file(options.golden or cases.record)
    record, place = golden["answers"], choose_place(cases, driver)
    if options.answers:
        found = store.read_answers(options.answers)
        names = choose_cases({**record, **found}, options.only, options.every)
    else:
        names = choose_cases(running.list_names(cases, place), options.only, options.every)
        if not cases.say("LISTED_ON_DEVICE", False):
            names = [name for name in names if options.slow or not cases.cases[name].slow]
        asked = [name for name in names if name in record]
        rows = running.run_at(cases, place, asked, jobs=options.jobs, patience=options.patience)
        found = {name: answer for name, answer, _ in rows}
    if options.to:
        store.write_file(options.to, {"driver": driver}, found)
    adapt = cases.say("adapt", lambda answers, driver: answers)
    expected = comparison.read_expected(cases.expected, driver)
    result = comparison.compare(cases, names, adapt(record, driver), adapt(found, driver), expected)
    gpu = golden["about"]["gpu"]
    print(table.format_comparison(result, driver, gpu, options.verbose, options.alike is not None))
    wrong: list[Any] = [*result.mended, *result.unrecorded]
    if options.alike is None:
        wrong += result.surprising
    elif 100 * result.alike < options.alike * result.facts or 100 * result.equal < options.equal * result.facts:
        wrong.append("too few")
    if options.slow and not options.only and options.every == 1 and result.equal < expected.least:
        print(f"fewer than {expected.least}")
        wrong.append("too few")
    sys.stdout.flush()
    return int(bool(wrong or not result.cases))


COMMANDS = {"child": child_set, "record": record_set, "compare": compare_set}

if __name__ == "__main__":
    sys.exit(main())
