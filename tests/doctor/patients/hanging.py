"""A check whose second question hangs with the interpreter held, beside a process of its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

from torchdevice_cuda.doctor.asking import main, question


@question
def one() -> str:
    return "1"


@question
def hangs() -> None:
    print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    ctypes.PyDLL(None).sleep(600)


@question
def another() -> str:
    return "3"


if __name__ == "__main__":
    main()
