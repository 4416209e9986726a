"""Build CUDA programs of NVIDIA's samples and of Rodinia with the replacement for nvcc, run them, and print one table.

    python tools/programs --work build/programs [NAME ...] [--again] [--seconds 300]
    python tools/programs --work build/programs --table             # the table of what has run
    python tools/programs --work build/programs --mirror "/mirror/{owner}+{name}/repo"   # clones that are here already

`rows.toml` lists the programs: sources, arguments, and the line of a program that has checked its own result. Sources
are fetched into the working folder, never into this repository. A row that has a result is not run again unless
`--again` is given. The table also counts kernels with barriers: those split into loops over threads, and fibers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings to 3.10

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ("correct", "refused", "wrong", "not built", "crashed", "too slow", "not run")
#: What `nvcc --resource-usage` prints for each kernel with barriers.
_KERNEL = re.compile(r"nvcc: info: kernel (\S+) \(line \d+\): its threads are (loops|fibers)")


@dataclasses.dataclass
class Suite:
    """A repository of programs."""

    source: str  # OWNER/NAME at GitHub
    version: str
    include: list[str] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Row:
    """A program of the table."""

    name: str
    suite: Suite
    folder: str
    expect: str  # a regular expression that a right run prints
    sources: list[str] = dataclasses.field(default_factory=lambda: ["*.cu", "*.cpp"])
    flags: list[str] = dataclasses.field(default_factory=list)
    arguments: list[str] = dataclasses.field(default_factory=list)
    #: Python that checks the output `text`, and the files of the folder, where the program checks nothing.
    check: str = ""
    #: Shell commands that write the program's input.
    prepare: str = ""
    #: A script for ``sed -E`` that makes the program's problem smaller: a GPU is much faster.
    smaller: str = ""
    #: What the error says where the program is refused on purpose.
    refused: str = ""


def read_rows(path: Path) -> list[Row]:
    """Return the programs of a file."""
    with path.open("rb") as file:
        suites = tomllib.load(file)
    rows = []
    for name, table in suites.items():
        fields = {field.name for field in dataclasses.fields(Suite)}
        suite = Suite(**{key: value for key, value in table.items() if key in fields})
        base, expect = table.get("folder", ""), table.get("expect", "")
        for entry in table["programs"]:
            folder = f"{base}/{entry['folder']}" if base else entry["folder"]
            rows.append(Row(**{"expect": expect, **entry, "name": entry.get("name", Path(folder).name), "suite": suite,
                               "folder": folder}))  # fmt: skip
        assert rows, name
    return rows


class Failed(Exception):
    """A step did not work: how the row ends, and the reason."""

    def __init__(self, result: str, reason: str) -> None:
        super().__init__(reason)
        self.result = result


class Runner:
    """Fetches suites; builds and runs rows in a working folder."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._work: Path = arguments.work.resolve()
        self._seconds: int = arguments.seconds
        self._mirror: str = arguments.mirror

    def run(self, row: Row) -> dict[str, Any]:
        """Carry a row out, and write its result down."""
        found: dict[str, Any] = {"result": "correct", "reason": "", "loops": 0, "fibers": 0, "build": 0, "seconds": 0}
        try:
            folder = self._fetch(row.suite) / row.folder
            begin = time.monotonic()
            said = self._build(row, folder)
            kinds = dict(_KERNEL.findall(said))
            found |= {kind: sum(value == kind for value in kinds.values()) for kind in ("loops", "fibers")}
            found["build"] = round(time.monotonic() - begin, 1)
            begin = time.monotonic()
            self._check(row, folder)
            found["seconds"] = round(time.monotonic() - begin, 1)
        except Failed as error:
            found |= {"result": error.result, "reason": str(error)}
            if row.refused and re.search(row.refused, str(error)):
                found["result"] = "refused"
        path = self._result(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**found, "version": row.suite.version}), encoding="utf-8")
        return found

    def read(self, row: Row) -> dict[str, Any] | None:
        """Return the result of an earlier run of the same version."""
        try:
            found: dict[str, Any] = json.loads(self._result(row).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if found.get("version") == row.suite.version else None

    def _result(self, row: Row) -> Path:
        return self._work / "results" / f"{row.name}.json"

    def _fetch(self, suite: Suite) -> Path:
        owner, _, name = suite.source.partition("/")
        folder = self._work / f"{name}-{suite.version[:12]}"
        if not folder.exists():
            url = self._mirror.format(owner=owner, name=name) if self._mirror else f"https://github.com/{suite.source}"
            scratch = self._work / f"fetching-{name}"
            scratch.mkdir(parents=True, exist_ok=True)
            self._step(["git", "clone", "-q", "--no-checkout", url, "."], scratch, "not run")
            # A mirror may lack large files, which no program here reads: the rest is checked out.
            subprocess.run(
                ["git", "checkout", "-q", suite.version, "--", "."], cwd=scratch, capture_output=True, check=False
            )
            scratch.rename(folder)
        return folder

    def _build(self, row: Row, folder: Path) -> str:
        sources = sorted({path for pattern in row.sources for path in folder.glob(pattern)})
        if not sources:
            raise Failed("not run", f"no source: {folder}")
        if row.smaller:
            self._step(["sed", "-E", "-i", row.smaller, *map(str, sources)], folder, "not run")
        include = [f"-I{self._fetch(row.suite) / place}" for place in row.suite.include]
        nvcc = [sys.executable, "-m", "torchdevice_cuda.cuda_cpp.nvcc", "-O2", "--resource-usage"]
        words = [*include, *row.suite.flags, *row.flags, *map(str, sources), "-o", str(folder / "program")]
        return self._step([*nvcc, *words], folder, "not built")

    def _check(self, row: Row, folder: Path) -> None:
        if row.prepare:
            self._step(["bash", "-ec", row.prepare], folder, "not run")
        text = self._step(["./program", *row.arguments], folder, "wrong")
        if not re.search(row.expect, text):
            raise Failed("wrong", f"it does not print {row.expect!r}: {find_reason(text)}")
        if row.check:
            (folder / "output.txt").write_text(text, encoding="utf-8")
            self._step([sys.executable, "-c", f"text = open('output.txt').read()\n{row.check}"], folder, "wrong")

    def _step(self, command: list[str], where: Path, otherwise: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(command, cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=self._seconds, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed("too slow", f"more than {self._seconds} s: {' '.join(command[:1])}") from None
        if done.returncode < 0:
            raise Failed("crashed", f"signal {-done.returncode}: {find_reason(done.stdout)}")
        if done.returncode:
            raise Failed(otherwise, find_reason(done.stdout))
        return done.stdout


def find_reason(text: str) -> str:
    """Return the line of an output that says what is wrong: ours first, then a compiler's, then the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for word in ("is not supported here", "fatal error:", " error: ", "undefined reference", "rror"):
        for line in lines:
            if word in line:
                return line[-200:]
    return lines[-1][-200:] if lines else "no output"


def write_table(rows: list[Row], runner: Runner) -> str:
    """Return the results as a Markdown table, with lines that count them."""
    lines = [
        "| program | of | result | kernels with barriers: loops, fibers | build, run (s) | reason |",
        "|" + "---|" * 6,
    ]
    counts, kinds = dict.fromkeys(RESULTS, 0), {"loops": 0, "fibers": 0}
    empty = {"result": "not run", "reason": "", "loops": 0, "fibers": 0, "build": 0, "seconds": 0}
    for row in rows:
        found = runner.read(row) or empty
        counts[found["result"]] += 1
        for kind in kinds:
            kinds[kind] += found[kind]
        reason = found["reason"].replace("|", "\\|").replace(str(runner._work), "")
        suite = row.suite.source.split("/")[1]
        lines.append(
            f"| {row.name} | {suite} | {found['result']} | {found['loops']}, {found['fibers']} "
            f"| {found['build']}, {found['seconds']} | {reason} |"
        )
    said = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    barriers = f"{kinds['loops']} of {sum(kinds.values())} kernels with barriers are loops."
    return "\n".join([*lines, "", f"{len(rows)} programs: {said}. {barriers}"])


def main() -> int:
    """Run the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="tools/programs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs; all by default")
    parser.add_argument("--rows", type=Path, default=HERE / "rows.toml", help="the file of the programs")
    parser.add_argument("--work", type=Path, required=True, help="a folder outside of this repository's sources")
    parser.add_argument("--mirror", default="", help="where clones are, with {owner} and {name}")
    parser.add_argument("--seconds", type=int, default=300, help="limit of one step")
    parser.add_argument("--again", action="store_true", help="run rows that have a result")
    parser.add_argument("--table", action="store_true", help="print the table only")
    arguments = parser.parse_args()
    rows, runner = read_rows(arguments.rows), Runner(arguments)
    unknown = set(arguments.names) - {row.name for row in rows}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen = [row for row in rows if not arguments.names or row.name in arguments.names]
    for row in () if arguments.table else chosen:
        if arguments.again or runner.read(row) is None:
            found = runner.run(row)
            print(f"{row.name}: {found['result']} {found['reason']}", file=sys.stderr, flush=True)
    print(write_table(chosen, runner))
    return int(any((runner.read(row) or {}).get("result") in ("wrong", "crashed") for row in chosen))


if __name__ == "__main__":
    sys.exit(main())
