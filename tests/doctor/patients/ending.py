"""Checks that do not come to an end: one that cannot start, and one that fails when all has been asked."""

from __future__ import annotations

import atexit
import os
import sys

from torchdevice_cuda.doctor.asking import main, question

if os.environ.get("PATIENT") == "stillborn":
    sys.exit("there is no such package")


@question
def one() -> None:
    atexit.register(os._exit, 5)


if __name__ == "__main__":
    main()
