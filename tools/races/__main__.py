"""Run the corpus of races: correct programs with streams, and mutants that lack one synchronization.

python tools/races check                    # which mutants --check-streams reports; no original may be
python tools/races check side_stream offload
python tools/races record --runs 1000       # on a machine with a CUDA GPU: how often each mutant shows
"""

from __future__ import annotations

import argparse
import json
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

VIRTUAL = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual"]


def run(program: Program, runs: int, launcher: list[str], seconds: float = 600) -> dict[str, int]:
    """Run a program several times in one child process; return its outputs and their counts."""
    command = [*launcher, str(HERE / "worker.py"), "--runs", str(runs), "--path", str(program.path)]
    done = subprocess.run(command, input=program.text, text=True, capture_output=True, timeout=seconds, check=False)
    if done.returncode:
        return {f"exit status {done.returncode}: {done.stderr.strip()[-300:]}": runs}
    outputs: dict[str, int] = json.loads(done.stdout)
    return outputs


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
        outputs = run(program, runs, [sys.executable])
        if not program.removed:
            expected[program.path] = max(outputs, key=lambda text: outputs[text])
        differing = sum(count for text, count in outputs.items() if text != expected[program.path])
        answers[program.name] = {"runs": runs, "differing": differing}
        print(f"{program.name:24} {differing:5} of {runs}  {time.monotonic() - began:5.1f} s", flush=True)
        to.write_text(json.dumps({"made": made, "programs": answers}, indent=1) + "\n")


def check(names: list[str]) -> bool:
    """Run programs with the detector and print a table; return whether it reports every mutant, and no original."""
    recorded = json.loads(RECORD.read_text())["programs"]
    reported = {False: 0, True: 0}
    programs = choose(names)
    print(f"{'program':24} {'on a GPU':>14}  {'reported':8}  removed line")
    for program in programs:
        output = next(iter(run(program, 1, [*VIRTUAL, "--check-streams", "error"])))
        found = "StreamRaceError" in output
        reported[bool(program.removed)] += found
        gpu = f"{recorded[program.name]['differing']} of {recorded[program.name]['runs']}"
        print(f"{program.name:24} {gpu:>14}  {'yes' if found else 'no':8}  {program.removed_text}", flush=True)
        if (found and not program.removed) or output.startswith("exit status"):
            print(output)
    mutants = sum(bool(p.removed) for p in programs)
    print(f"reported: {reported[True]} of {mutants} mutants, {reported[False]} of {len(programs) - mutants} originals")
    return reported[True] == mutants and not reported[False]


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python tools/races")
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("--runs", type=int, default=1000)
    recorder.add_argument("--to", type=Path, default=RECORD)
    commands.add_parser("check").add_argument("names", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.to, arguments.runs)
    elif not check(arguments.names):
        sys.exit(1)


if __name__ == "__main__":
    main()
