"""A check with questions that fail, end the process in several ways, and are right."""

from __future__ import annotations

import faulthandler
import os

from torchdevice_cuda.doctor.asking import NotHereError, Wrong, expect, main, question


@question
def is_wrong() -> None:
    expect(False, "two are three")


@question
def raises() -> None:
    print("before it fails")
    raise ValueError("no such thing")


@question
def crashes() -> None:
    faulthandler._sigsegv()


@question
def is_not_here() -> None:
    raise NotHereError("another machine has it")


@question
def exits() -> None:
    os._exit(3)


@question
def is_right() -> tuple[str, dict[str, float]]:
    return "as it should be", {"figure": 1.5}


@question
def says_so() -> None:
    raise Wrong("at last")


if __name__ == "__main__":
    main()
