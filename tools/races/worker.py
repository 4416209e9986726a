"""Run a program of the corpus many times in one process, and print what it printed as JSON.

It needs torch alone, so that it also runs on a machine with a CUDA GPU. The program's text comes from standard input.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable


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


def main() -> None:
    """Run the program `--runs` times, or with each seed, and print its outputs and their counts as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0, help="order the work of streams by seeds below this one")
    parser.add_argument("--path", required=True, help="the file that errors and warnings name")
    arguments = parser.parse_args()
    code = compile(sys.stdin.read(), arguments.path, "exec")
    warnings.simplefilter("ignore")
    outputs: collections.Counter[str] = collections.Counter()
    if arguments.seeds:
        seed = find_seeding()
        for number in range(arguments.seeds):
            seed(number)
            outputs[run_once(code)] += 1
    else:
        outputs.update(run_once(code) for _ in range(arguments.runs))
    json.dump(dict(outputs), sys.stdout)


if __name__ == "__main__":
    main()
