"""Going through torch's operators in one process while another watches: the command line of the tools that do.

An operator that ends the process is recorded, and the rest still run. Imports no torch: the working process decides
what comes before it.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]
#: What comes of an operator, in the working process.
One = Callable[[Any], Record]


def arguments(description: str) -> argparse.ArgumentParser:
    """Return the options that every such tool has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--only", default="", help="operator names, comma-separated")
    parser.add_argument("--every", type=int, default=1, help="only every n-th operator")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON lines go")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def work(options: argparse.Namespace, one: One) -> None:
    """Go through the operators, appending a line of JSON for each: what ``one`` says, and how long it took."""
    from torch.testing._internal.common_methods_invocations import op_db

    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = {json.loads(line)["op"] for line in lines}
    only = set(options.only.split(",")) if options.only else None
    with options.out.open("a") as out:
        for number, op in enumerate(op_db):
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            if name in done or number % options.every or (only and op.name not in only and name not in only):
                continue
            Path(f"{options.out}.now").write_text(name)
            started = time.monotonic()
            record = {"op": name, **one(op), "seconds": round(time.monotonic() - started, 2)}
            out.write(json.dumps(record) + "\n")
            out.flush()


def watch(program: Sequence[str], options: argparse.Namespace) -> list[Record]:
    """Run ``python program`` with these options until every operator has its record; the records."""
    with tempfile.TemporaryDirectory() as scratch:
        out = options.out or Path(scratch) / "results.jsonl"
        out.unlink(missing_ok=True)
        given = {**vars(options), "out": out}
        del given["worker"]
        command = [sys.executable, *program, "--worker", *(f"--{key}={value}" for key, value in given.items())]
        while status := subprocess.run(command, check=False).returncode:
            at = Path(f"{out}.now")
            if not at.exists():
                raise SystemExit(f"the process ended ({status}) before its first operator")
            record = {"op": at.read_text(), "status": "fail", "detail": f"the process ended ({status})"}
            with out.open("a") as file:
                file.write(json.dumps(record) + "\n")
        Path(f"{out}.now").unlink(missing_ok=True)
        return [json.loads(line) for line in out.read_text().splitlines()]


def summary(records: list[Record], title: str, routes: Sequence[str] = ()) -> str:
    """Summarize failures with reasons, the counts, and the routes if the records have them."""
    count = collections.Counter(r["status"] for r in records)
    lines = [f"{r['op']}: {r['detail']}" for r in records if r["status"] == "fail"]
    compared = count["pass"] + count["fail"]
    rate = 100 * count["pass"] / max(1, compared)
    refused = f", {count['refused']} refused" if count["refused"] else ""
    lines.append(f"{title}: {count['pass']} of {compared} pass ({rate:.2f}%), {count['skip']} skipped{refused}")
    if routes:
        taken = collections.Counter(r["route"] for r in records if r["status"] == "pass")
        lines.append(", ".join([*(f"{route} {taken[route]}" for route in routes), f"failed {count['fail']}"]))
    return "\n".join(lines)


def main(
    program: Sequence[str],
    parser: argparse.ArgumentParser,
    prepare: Callable[[argparse.Namespace], One],
    title: Callable[[argparse.Namespace], str],
    routes: Sequence[str] = (),
) -> int:
    """Return the whole of such a tool, started as ``python program``; the exit status is 1 if anything failed.

    ``prepare`` makes the device in the working process, and gives what is to be done with an operator.
    """
    options = parser.parse_args()
    if options.worker:
        work(options, prepare(options))
        return 0
    records = watch(program, options)
    print(summary(records, title(options), routes))
    return int(any(r["status"] == "fail" for r in records))
