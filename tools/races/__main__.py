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
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD = HERE.parents[1] / "tests" / "data" / "races-cuda-2.11.json"
# Its own folder is no place for imports: the modules are those of the package `races`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.append(str(HERE.parent))

from races.mutants import Program, list_mutants, list_originals  # noqa: E402

VIRTUAL = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--devices", "2"]


WORKER = str(HERE / "worker.py")


def read_outputs(status: int, output: str, errors: str) -> dict[str, int]:
    """Return the outputs of a program and their counts."""
    if status:
        return {f"exit status {status}: {errors.strip()[-300:]}": 1}
    outputs: dict[str, int] = json.loads(output)
    # An error in a thread of the program is printed there.
    found = re.search("StreamRaceError: .*", errors)
    return {found[0]: 1} if found else outputs


def run(program: Program, launcher: list[str], *options: str, seconds: float = 600) -> dict[str, int]:
    """Run a program in one child process; return its outputs and their counts."""
    command = [*launcher, WORKER, *options, "--path", str(program.path)]
    done = subprocess.run(command, input=program.text, text=True, capture_output=True, timeout=seconds, check=False)
    return read_outputs(done.returncode, done.stdout, done.stderr)


class Server:
    """A process in one mode, of which each program gets a fork."""

    def __init__(self, *options: str) -> None:
        command = [*VIRTUAL, *options, WORKER, "--serve"]
        self._process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()

    def run(self, program: Program, seeds: int = 0, seconds: int = 600) -> dict[str, int]:
        """Run a program once, or with each seed; return its outputs and their counts."""
        request = {"text": program.text, "path": str(program.path), "runs": 1, "seeds": seeds, "seconds": seconds}
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with self._lock:
            print(json.dumps(request), file=process.stdin, flush=True)
            answer = process.stdout.readline()
        if not answer:
            raise SystemExit(f"tools/races: {shlex.join(map(str, process.args))} ended with status {process.wait()}")
        return read_outputs(*json.loads(answer))


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


class Modes:
    """Processes in which a program runs eagerly, with the detector, and with each seed."""

    def __init__(self) -> None:
        self._eager, self._checked = Server(), Server("--check-streams", "error")
        self._seeded = Server("--streams", "adversarial")
        self._find_right = functools.cache(lambda path: next(iter(self._eager.run(Program(path)))))

    def ask(self, program: Program, seeds: int) -> Answer:
        """Run a program in all three."""
        checked = next(iter(self._checked.run(program)))
        right = self._find_right(program.path)  # what the whole program prints
        outputs = self._seeded.run(program, seeds)
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
    modes = threading.local()  # each thread has its own

    def ask(program: Program) -> Answer:
        if not hasattr(modes, "own"):
            modes.own = Modes()
        asked: Answer = modes.own.ask(program, seeds)
        return asked

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        asked = pool.map(lambda program: known.get(program.name) or ask(program), programs)
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
    checker.add_argument("--jobs", type=int, default=1, help="programs at a time")
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
