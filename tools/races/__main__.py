"""Run the corpus of races: correct programs with streams, and mutants that lack one synchronization.

python tools/races check                    # which mutants --check-streams reports; no original may be
python tools/races check side_stream offload
python tools/races check --resume FILE      # keep answers in a file, and ask only for those that it lacks
python tools/races record --runs 1000       # on a machine with a CUDA GPU: how often each mutant shows
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD = HERE.parents[1] / "tests" / "data" / "races-cuda-2.11.json"
# Its own folder is no place for imports: the modules are those of the package `races`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.append(str(HERE.parent))

from races.mutants import Program, list_mutants, list_originals  # noqa: E402

VIRTUAL = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--devices", "2"]


def run(program: Program, launcher: list[str], *options: str, seconds: float = 600) -> dict[str, int]:
    """Run a program in one child process; return its outputs and their counts."""
    command = [*launcher, str(HERE / "worker.py"), *options, "--path", str(program.path)]
    done = subprocess.run(command, input=program.text, text=True, capture_output=True, timeout=seconds, check=False)
    if done.returncode:
        return {f"exit status {done.returncode}: {done.stderr.strip()[-300:]}": 1}
    outputs: dict[str, int] = json.loads(done.stdout)
    # An error in a thread of the program is printed there.
    found = re.search("StreamRaceError: .*", done.stderr)
    return {found[0]: 1} if found else outputs


def choose(names: list[str]) -> list[Program]:
    """Return the originals and mutants of some programs, or of all."""
    return [p for p in [*list_originals(), *list_mutants()] if not names or p.path.stem in names or p.name in names]


def record(to: Path, runs: int) -> None:
    """Count how often each program prints something else than the original did, on this machine's GPU."""
    import torch

    made = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "command": "python tools/races record"}
    answers: dict[str, dict[str, int]] = {}
    expected: dict[Path, str] = {}
    for program in choose([]):
        began = time.monotonic()
        outputs = run(program, [sys.executable], "--runs", str(runs))
        if not program.removed:
            expected[program.path] = max(outputs, key=lambda text: outputs[text])
        differing = sum(count for text, count in outputs.items() if text != expected[program.path])
        answers[program.name] = {"runs": runs, "differing": differing}
        print(f"{program.name:24} {differing:5} of {runs}  {time.monotonic() - began:5.1f} s", flush=True)
        to.write_text(json.dumps({"made": made, "programs": answers}, indent=1) + "\n")


@dataclasses.dataclass(frozen=True)
class Answer:
    """What becomes of a program."""

    name: str
    finding: str  # of the detector; empty: none
    differing: int  # seeds with another output than the original's
    crash: str = ""


@functools.cache
def find_right(path: Path) -> str:
    """Return what a whole program prints."""
    return next(iter(run(Program(path), VIRTUAL)))


def ask(program: Program, seeds: int) -> Answer:
    """Run a program with the detector, and with each seed."""
    checked = next(iter(run(program, [*VIRTUAL, "--check-streams", "error"])))
    right = find_right(program.path)
    outputs = run(program, [*VIRTUAL, "--streams", "adversarial"], "--seeds", str(seeds))
    crash = next((text for text in (checked, right, *outputs) if text.startswith("exit status")), "")
    finding = checked if "StreamRaceError" in checked else ""
    return Answer(program.name, finding, sum(count for text, count in outputs.items() if text != right), crash)


def read_answers(path: Path | None) -> dict[str, Answer]:
    """Return the answers in a file, by name."""
    lines = path.read_text().splitlines() if path and path.exists() else []
    return {answer.name: answer for answer in (Answer(**json.loads(line)) for line in lines)}


def check(programs: list[Program], seeds: int, jobs: int, kept: Path | None) -> bool:
    """Print a table of what the detector and the seeds show; return whether the originals show nothing."""
    recorded = json.loads(RECORD.read_text())["programs"]
    known = read_answers(kept)
    print(f"{'program':24} {'on a GPU':>14}  {'reported':8} {'seeds':>6}  removed line")
    answers = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        asked = pool.map(lambda program: known.get(program.name) or ask(program, seeds), programs)
        for program, answer in zip(programs, asked, strict=True):
            answers.append((program, answer))
            if kept and answer.name not in known:
                with kept.open("a") as file:
                    file.write(json.dumps(dataclasses.asdict(answer)) + "\n")
            runs = recorded.get(program.name)
            gpu = f"{runs['differing']} of {runs['runs']}" if runs else ""
            reported = "yes" if answer.finding else "no"
            print(f"{program.name:24} {gpu:>14}  {reported:8} {answer.differing:6}  {program.removed_text}", flush=True)
            if answer.crash or (answer.finding and not program.removed):
                print(answer.crash or answer.finding)
    wrong = [answer for program, answer in answers if program.removed]
    right = [answer for program, answer in answers if not program.removed]
    for title, group in (("mutants", wrong), ("originals", right)):
        found, shown = sum(bool(a.finding) for a in group), sum(a.differing > 0 for a in group)
        print(f"{len(group)} {title}: {found} reported, {shown} shown by other results within {seeds} seeds")
    return not any(answer.finding or answer.differing or answer.crash for answer in right)


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python tools/races")
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("--runs", type=int, default=1000)
    recorder.add_argument("--to", type=Path, default=RECORD)
    checker = commands.add_parser("check")
    checker.add_argument("names", nargs="*", metavar="PROGRAM")
    checker.add_argument("--seeds", type=int, default=20)
    checker.add_argument("--originals", action="store_true", help="no mutants")
    checker.add_argument("--resume", type=Path, metavar="FILE", help="answers of an earlier call, to which to add")
    checker.add_argument("--jobs", type=int, default=1, help="processes at a time")
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.to, arguments.runs)
    elif not check(
        [p for p in choose(arguments.names) if not (arguments.originals and p.removed)],
        arguments.seeds,
        arguments.jobs,
        arguments.resume,
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
