"""The command: the files to read, and progress."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...settings import Settings
from ...settings.setting_support import MPS, VIRTUAL
from ...settings.variables import suggest_value
from .finding import Use, uses
from .output import FORMATS, Result
from .rules import UNSUPPORTED

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
#: Sources of CUDA C++, which are counted only.
_KERNELS = (".cu", ".cuh")
#: Larger files are data with the name of a program.
_MOST_BYTES = 4 << 20
_SECONDS_BETWEEN = 0.1
#: From this number of files on, starting processes saves time.
_MANY, _MOST_WORKERS = 200, 8
#: The findings of a file, and the reason if it was not read.
_Read = tuple[list[Use], str | None]


class ScanError(Exception):
    """An error that prevents the scan."""


def chosen_driver(settings: Settings) -> str:
    """Return the driver: ``auto`` means the one that this kind of machine gets without an NVIDIA GPU."""
    if settings.driver != "auto":
        return settings.driver
    return MPS if sys.platform == "darwin" or settings.emulate_mps else VIRTUAL


def run(paths: Sequence[str], form: str, settings: Settings) -> tuple[str, int]:
    """Return the text to print and the exit status: 1 if something is unsupported."""
    if form not in FORMATS:
        hint = suggest_value(form, FORMATS)
        raise ScanError(f"--format={form!r} cannot be read; allowed: {', '.join(FORMATS)}{hint}")
    result = scan(paths or ["."], chosen_driver(settings))
    return FORMATS[form](result), int(any(use.verdict.what == UNSUPPORTED for _, use in result.found))


def scan(paths: Sequence[str], driver: str) -> Result:
    """Read every Python file below the paths; count sources of kernels."""
    began = time.monotonic()
    listed = [file for path in paths for file in _files(path)]
    kernels = [file for file in listed if file.endswith(_KERNELS)]
    files = [file for file in listed if not file.endswith(_KERNELS)]
    found: list[tuple[str, Use]] = []
    unread: list[tuple[str, str]] = []
    for file, (these, why) in zip(files, _shown(_all_uses(files, driver), len(files)), strict=True):
        found += [(file, use) for use in these]
        if why is not None:
            unread.append((file, why))
    return Result(driver, found, unread, kernels, len(files), time.monotonic() - began)


def _files(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
        return
    if not os.path.isdir(path):
        raise ScanError(f"there is no file or folder {path!r}; name a Python file, or the folder of a project")
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if name not in _SKIPPED and not name.startswith("."))
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", *_KERNELS)))


def _uses(driver: str, file: str) -> _Read:
    try:
        if os.path.getsize(file) > _MOST_BYTES:
            raise ValueError(f"larger than {_MOST_BYTES >> 20} MiB")
        return uses(Path(file).read_bytes(), driver), None
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return [], f"{type(error).__name__}: {error}"


def _all_uses(files: Sequence[str], driver: str) -> Iterator[_Read]:
    """Yield the uses of each file in order. Many files are parsed on all cores."""
    workers = min(os.cpu_count() or 1, _MOST_WORKERS)
    if len(files) < _MANY or workers == 1:
        yield from (_uses(driver, file) for file in files)
        return
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        yield from pool.map(functools.partial(_uses, driver), files, chunksize=16)


def _shown(results: Iterator[_Read], count: int) -> Iterator[_Read]:
    """Yield the results, with progress on a terminal."""
    shows = sys.stderr is not None and sys.stderr.isatty()
    last = 0.0
    for done, result in enumerate(results):
        if shows and time.monotonic() - last > _SECONDS_BETWEEN:
            last = time.monotonic()
            filled = 30 * done // count
            bar = f"[{'#' * filled}{'.' * (30 - filled)}] {done}/{count} files"
            print(f"\r{bar}", end="", file=sys.stderr, flush=True)
        yield result
    if shows:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
