"""Our own oracle: small questions to the device, what a real GPU answered, and what is answered here.

    python tools/oracle record golden.json                    # on a machine with a CUDA GPU
    python tools/oracle compare --driver virtual              # what differs from the record, and is not expected to
    python tools/oracle compare --driver virtual --only amp   # an area, or a probe
    python tools/oracle bundle record.py                      # one file that records, for a machine that has no more

A probe (``probes/*.py``) is a function whose answer is a JSON value. What a driver answers otherwise is listed in
``tests/oracle/expected.toml`` with the reason; an answer that is as recorded although it is listed is told, too.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
BUNDLE = '''"""Records what a CUDA GPU answers to our probes, after every process, to $OUT/proof-golden.json."""
import base64, os, subprocess, sys, tempfile

FILES = {files}
folder = tempfile.mkdtemp()
for name, text in FILES.items():
    path = os.path.join(folder, "oracle", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(text))
record = os.path.join(os.environ["OUT"], "proof-golden.json")
command = [sys.executable, os.path.join(folder, "oracle"), "record", record, "--jobs", "12"]
subprocess.run([*command, "--patience", "25", "--seconds", "280", *{only}])
'''


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("file", type=Path)
    record.add_argument("--jobs", type=int, default=1)
    record.add_argument("--patience", type=float, default=60.0, help="seconds for a probe")
    record.add_argument("--seconds", type=float, default=3600.0, help="seconds in all; what is known by then is kept")
    record.add_argument("--only", action="append", default=[], help="an area or a probe; all, if none is said")
    bundle = commands.add_parser("bundle")
    bundle.add_argument("file", type=Path)
    bundle.add_argument("--only", action="append", default=[])
    compare = commands.add_parser("compare")
    compare.add_argument("--driver", required=True)
    compare.add_argument("--golden", type=Path)
    compare.add_argument("--only", action="append", default=[])
    compare.add_argument("--jobs", type=int, default=1)
    compare.add_argument("--slow", action="store_true", help="probes that start programs, too")
    compare.add_argument("--answers", type=Path, help="compare these, which --json has written")
    compare.add_argument("--json", type=Path, help="write every answer there")
    compare.add_argument("-v", "--verbose", action="store_true", help="print answers that are expected to differ, too")
    ask = commands.add_parser("ask")
    ask.add_argument("--answers", type=Path, required=True)
    ask.add_argument("--names", required=True)
    ask.add_argument("--fork", action="store_true", help="a fork for each unit, instead of all here")
    ask.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    return globals()[f"{options.command}_command"](options)


def ask_command(options: argparse.Namespace) -> int:
    """What the children do."""
    import running

    running.load()
    names = options.names.split(",")
    if not options.fork:
        running.ask(names, options.answers)
        sys.stderr.flush()
        os._exit(0)  # what probes have left behind need not be taken down in order
    running.preload(names)
    with options.answers.open("w") as file:
        for row in running.all_answers(names, running.Fork, jobs=options.jobs):
            file.write(json.dumps(row) + "\n")
            file.flush()
    return 0


def record_command(options: argparse.Namespace) -> int:
    """Asks a real GPU."""
    import datetime

    import running
    import torch

    about = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name(),
        "python": sys.version.split()[0],
        "date": datetime.date.today().isoformat(),
    }
    end = time.monotonic() + options.seconds
    answers: dict[str, Any] = {}
    running.load()
    names = running.chosen(options.only)
    for name, found, seconds in running.all_answers(
        names, running.spawn([]), jobs=options.jobs, patience=options.patience
    ):
        print(f"{seconds:7.2f} {name}", flush=True)
        answers[name] = found
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(answers[name])}" for name in sorted(answers))
        options.file.write_text(f'{{"about": {json.dumps(about)},\n"answers": {{\n{rows}\n}}}}\n')
        if time.monotonic() > end:
            print("stopped", flush=True)
            os._exit(0)
    print(len(answers), "of", len(names), flush=True)
    return 0


def bundle_command(options: argparse.Namespace) -> int:
    """Writes the recording as one file."""
    files = {
        str(path.relative_to(HERE)): base64.b64encode(path.read_bytes()).decode() for path in sorted(HERE.rglob("*.py"))
    }
    only = [f"--only={word}" for word in options.only]
    options.file.write_text(BUNDLE.replace("{files}", json.dumps(files, indent=0)).replace("{only}", repr(only)))
    return 0


def compare_command(options: argparse.Namespace) -> int:
    """Asks a driver, and says what is not as recorded."""
    import comparing

    return comparing.compare(options)


if __name__ == "__main__":
    sys.exit(main())
