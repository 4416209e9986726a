"""The whole performance table: every bench several times, medians with their spread, against budgets.

    python tools/bench                                  # all of it, three rounds; half an hour on two cores
    python tools/bench virtual graphs --rounds 1        # some
    python tools/bench --check                          # exits 1 where a figure is over its budget
    python tools/bench --history figures.jsonl          # adds a line for this run
    python tools/bench --write                          # writes the table to docs/benchmarks.md
    python tools/bench kernels --write                  # replaces its part of that page
    python tools/bench --from figures.jsonl --write     # of the last run that was written down; nothing is measured

A figure is a ratio of two things that one process, or processes in turns, measured in the same run: the machine's speed
is not in it. ``budgets.toml`` says how large each may be, and by how much noise may exceed it.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import fnmatch
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings to 3.10

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: tools/bench --write -->\n", "<!-- end of figures -->\n"

Row = dict[str, Any]


class Bench(NamedTuple):
    """A benchmark script: its subject, its arguments, and the columns that are figures."""

    about: str
    arguments: tuple[str, ...]
    columns: tuple[str, ...] = ("ratio",)
    environment: dict[str, str] = {}
    script: str = ""


#: An Apple GPU is timed by its own machine; what is added to it can be timed anywhere.
EMULATED = {} if sys.platform == "darwin" else {"TORCHDEVICE_EMULATE_MPS": "1"}

BENCHES: dict[str, Bench] = {
    "startup": Bench("a start of Python, beside stock's", ("--runs", "30", "--torch-runs", "7")),
    "build": Bench("building the native device, beside a compile of `torch/extension.h`", ()),
    "translate": Bench(
        "calls on the driver `cpu`, beside stock's",
        ("--generations", "3", "--rounds", "8", "--calls", "0"),
        ("active", "default device"),
    ),
    "virtual": Bench("operators and steps on the virtual GPU, beside the CPU's", (), ("more_us", "ratio")),
    "workloads": Bench("other steps on the virtual GPU, beside the CPU's", ()),
    "half": Bench("half precision on the virtual GPU, beside float32", (), ("bfloat16_ratio", "float16_ratio")),
    "draws": Bench("random numbers of the virtual GPU, beside the CPU's", ()),
    "reductions": Bench("sums, means, norms, variances and products of the virtual GPU, beside the CPU's", ()),
    "graphs": Bench("replays of CUDA graphs, beside eager calls", ()),
    "streams": Bench("steps with adversarial streams or the detector of races, beside eager ones", ()),
    "collectives": Bench("collectives of the virtual GPU, beside Gloo's", ("--calls", "1000")),
    "scaling": Bench("an addition on the virtual GPU, when there is much else", ()),
    "memory": Bench("memory of the machine for the virtual GPU, beside the CPU's", ()),
    "kernels": Bench("kernels of CUDA C++ on the virtual GPU", (), ("ratio", "ns")),
    "triton": Bench(
        "Triton kernels on the virtual GPU, beside PyTorch's operators on the CPU",
        (),
        ("ratio", "s"),
        script="triton_kernels.py",
    ),  # fmt: skip
    "compiled": Bench("steps that `torch.compile` made with Triton code, beside C++", ()),
    "apple": Bench("calls on the driver `mps`, emulated, beside the same device's", (), environment=EMULATED),
    "identity": Bench(
        "attributes of tensors on the driver `mps`, emulated, beside stock's",
        ("--cycles", "3", "--repeats", "300"),
        ("more_us",),
        environment=EMULATED,
    ),
}


@dataclasses.dataclass
class Figure:
    """The rounds' measurements of one thing."""

    bench: str
    what: str
    found: list[float] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """Return its name in budgets."""
        return f"{self.bench}: {self.what}"

    @property
    def median(self) -> float:
        """Return the one that counts."""
        return statistics.median(self.found)


class Budget(NamedTuple):
    """The largest allowed figure of a pattern, and the share of it that noise may add."""

    pattern: str
    limit: float
    margin: float


def parsed(text: str) -> list[Row]:
    """Return the rows of a bench: one JSON list, or a JSON object in each line."""
    text = text.strip()
    if text.startswith("["):
        rows: list[Row] = json.loads(text)
        return rows
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def figures_of(bench: str, rows: Iterable[Row]) -> Iterator[tuple[str, float]]:
    """Return the figures in the rows of a bench, by name."""
    columns = BENCHES[bench].columns
    for row in rows:
        title = " ".join(str(row[key]) for key in ("what", "size") if key in row)
        for column in columns:
            if column in row:
                yield (title if column == "ratio" else f"{title}, {column.replace('_', ' ')}"), float(row[column])


def run(bench: str) -> list[Row]:
    """Run one round of a benchmark in its own process."""
    chosen = BENCHES[bench]
    command = [sys.executable, str(HERE / (chosen.script or f"{bench}.py")), "--json", *chosen.arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **chosen.environment})
    if done.returncode:
        raise SystemExit(f"{bench} failed with status {done.returncode}:\n{done.stderr[-3000:]}")
    return parsed(done.stdout)


def measure(benches: Iterable[str], rounds: int) -> list[Figure]:
    """Every bench once in each round, so that a busy minute falls on all of them."""
    found: dict[str, Figure] = {}
    for number in range(rounds):
        for bench in benches:
            print(f"round {number + 1} of {rounds}: {bench}", file=sys.stderr, flush=True)
            for what, value in figures_of(bench, run(bench)):
                figure = Figure(bench, what)
                found.setdefault(figure.name, figure).found.append(value)
    return list(found.values())


def budgets(text: str) -> list[Budget]:
    """Read ``budgets.toml``; the first budget that fits a figure applies."""
    data = tomllib.loads(text)
    return [
        Budget(row["figure"], float(row["limit"]), float(row.get("margin", data["margin"]))) for row in data["budget"]
    ]


def budget_of(figure: Figure, known: Iterable[Budget]) -> Budget | None:
    """Return the budget of a figure, if it has one."""
    return next((budget for budget in known if fnmatch.fnmatchcase(figure.name, budget.pattern)), None)


def verdict(figure: Figure, known: Iterable[Budget]) -> str:
    """Within its budget, over it by no more than noise, over it; nothing where there is none."""
    budget = budget_of(figure, known)
    if budget is None:
        return ""
    if figure.median <= budget.limit:
        return f"{budget.limit:g}"
    return (
        f"{budget.limit:g} {'noise' if figure.median <= budget.limit + abs(budget.limit) * budget.margin else 'OVER'}"
    )


def unmet(figures: Iterable[Figure], known: list[Budget], benches: Iterable[str]) -> list[str]:
    """List the failures of ``--check``: figures over budget, and budgets without a figure."""
    figures = list(figures)
    wrong = [f"over its budget: {each.name}, {each.median:.2f}" for each in figures if "OVER" in verdict(each, known)]
    asked = set(benches)
    for budget in known:
        fits = any(budget_of(figure, known) is budget for figure in figures)
        if budget.pattern.split(":")[0] in asked and not fits:
            wrong.append(f"nothing was measured for the budget {budget.pattern!r}")
    return wrong


def table(figures: Iterable[Figure], known: list[Budget]) -> str:
    """All of it, for people."""
    lines: list[str] = []
    last = ""
    for figure in figures:
        if figure.bench != last:
            last = figure.bench
            lines += [
                "",
                f"### {last}: {BENCHES[last].about}",
                "",
                "| what | median | spread | budget |",
                "|---|---|---|---|",
            ]
        spread = f"{min(figure.found):.2f} to {max(figure.found):.2f}" if len(figure.found) > 1 else ""
        lines.append(f"| {figure.what} | {figure.median:.2f} | {spread} | {verdict(figure, known)} |")
    return "\n".join(lines).strip() + "\n"


def circumstances(rounds: int) -> Row:
    """Describe the time and the machine of the measurement."""
    import torch

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "rounds": rounds,
    }


def split_sections(text: str) -> dict[str, str]:
    """Return the parts of a table, by bench."""
    _, *parts = f"\n{text}".split("\n### ")
    return {part.partition(":")[0]: f"### {part.strip()}" for part in parts}


def write(page: Path, text: str, told: Row) -> None:
    """Put the parts of the table between the page's two lines, in place of the same benches'."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    figures, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{page} has no place for figures: the lines {BEGIN.strip()!r} and {END.strip()!r}")
    said = "Measured: " + ", ".join(f"{key} {value}" for key, value in told.items()) + "."
    written = split_sections(figures)
    for bench, part in split_sections(text).items():
        title, _, rows = part.partition("\n\n")
        written[bench] = f"{title}\n\n{said}\n\n{rows}"
    table = "\n\n".join(written[bench] for bench in BENCHES if bench in written)
    page.write_text(f"{before}{BEGIN}\n{table}\n\n{END}{after}", "utf-8")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)} (all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--history", type=Path)
    parser.add_argument("--from", type=Path, dest="past", metavar="HISTORY")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.benches) - set(BENCHES):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    benches = options.benches or list(BENCHES)
    known = budgets((HERE / "budgets.toml").read_text("utf-8"))
    if options.past:
        told = json.loads(options.past.read_text("utf-8").splitlines()[-1])
        figures = [Figure(**each) for each in told.pop("figures")]
    else:
        figures, told = measure(benches, options.rounds), circumstances(options.rounds)
    if options.history:
        with options.history.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**told, "figures": [dataclasses.asdict(each) for each in figures]}) + "\n")
    text = table(figures, known)
    print(text)
    if options.write:
        write(PAGE, text, told)
    wrong = unmet(figures, known, benches) if options.check else []
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
