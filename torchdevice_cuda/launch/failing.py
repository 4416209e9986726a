"""The end of a program that cannot use CUDA: as with the shim, one line and exit status 2."""

from __future__ import annotations

from ..children import torchdevice_cuda_shim as shim

NAME = "torchdevice-cuda"
STATUS, INTERRUPTED = shim.STATUS, shim.INTERRUPTED


def say(message: str) -> None:
    """Print one line on standard error."""
    shim.say(NAME, message)


def end_program(failure: BaseException) -> None:
    """End the program."""
    shim.end(NAME, str(failure), failure)
