"""Names and texts of CUDA's errors, by code: what cudaGetErrorName and cudaGetErrorString answer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

RECORD = "runtime-errors-13.0.json"
NEEDS = "a CUDA build of torch; no GPU"
CODES = range(1000)


def read_errors() -> dict[str, list[str]]:
    """Ask the runtime that torch has loaded."""
    runtime = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
    runtime.cudaGetErrorName.restype = runtime.cudaGetErrorString.restype = ctypes.c_char_p
    found = {code: [runtime.cudaGetErrorName(code), runtime.cudaGetErrorString(code)] for code in CODES}
    known = {code: [text.decode() for text in said] for code, said in found.items()}
    return {str(code): said for code, said in known.items() if said[0] != "unrecognized error code"}


def list_cases() -> dict[str, Callable[[], dict[str, list[str]]]]:
    return {"errors": read_errors}
