"""Run a program of the corpus many times in one process, and print what it printed as JSON.

It needs torch alone, so that it also runs on a machine with a CUDA GPU. The program's text comes from standard input.
With ``--serve``, programs come one after the other, as JSON: each is run by a fork of this process, which has imported
torch and has not used the device.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn


def run_once(code: object) -> str:
    """Run the program in a fresh namespace; return its output, or its error."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, {"__name__": "__main__"})  # type: ignore[arg-type]
        except Exception as error:  # any error is an outcome of the program
            return f"{type(error).__name__}: {error}"
    return printed.getvalue()


def find_seeding() -> Callable[[int], None]:
    """Return the function that orders the work of streams by another seed, from the next call on."""
    import torch

    import torchdevice_cuda

    native = torchdevice_cuda.driver().native
    assert native is not None

    def seed(number: int) -> None:
        torch.cuda.synchronize()
        native.start_deferral(number)

    return seed


def run_all(text: str, path: str, runs: int, seeds: int) -> None:
    """Run the program `runs` times, or with each seed, and print its outputs and their counts as JSON."""
    code = compile(text, path, "exec")
    warnings.simplefilter("ignore")
    outputs: collections.Counter[str] = collections.Counter()
    if seeds:
        seed = find_seeding()
        for number in range(seeds):
            seed(number)
            outputs[run_once(code)] += 1
    else:
        outputs.update(run_once(code) for _ in range(runs))
    json.dump(dict(outputs), sys.stdout)


def become(request: dict[str, Any], files: Sequence[Path]) -> NoReturn:
    """Run a program, print into the files, and end: what the process of which this is a fork began is not ended."""
    for descriptor, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    try:
        signal.alarm(request.pop("seconds"))
        run_all(**request)
        status = 0
    except BaseException:  # of any kind: it is the outcome
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve() -> None:
    """Run each program that standard input describes; answer with its exit status and what it printed."""
    import torch  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "output"), Path(folder, "errors")
        for line in sys.stdin:
            if not (child := os.fork()):
                become(json.loads(line), files)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(json.dumps([status, *(file.read_text() for file in files)]), flush=True)


def main() -> None:
    """Run one program, or those that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0, help="order the work of streams by seeds below this one")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--path", help="the file that errors and warnings name")
    what.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    else:
        run_all(sys.stdin.read(), arguments.path, arguments.runs, arguments.seeds)


if __name__ == "__main__":
    main()
