"""Compile translated kernels and keep the libraries in the cache, by the rules of `trust`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import leftovers, trust
from ...native import half, sealing, toolchain
from ...settings import folders
from .ir import Unsupported
from .translate import Translation

_log = logging.getLogger(__name__)
_RUNTIME = Path(__file__).parent / "runtime"
_FOLDER, _SCRATCH, _ENTRY = "triton", "torchdevice-triton-", "ttc_launch"
_FLAGS = (
    "-std=c++17", "-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-fno-semantic-interposition",
    "-fvisibility=hidden", "-fno-plt", "-w", "-shared", "-fPIC", "-pthread",
)  # fmt: skip
#: What makes a compiler use all of this processor.
_TUNED = {"x86_64": "-march=native", "AMD64": "-march=native", "aarch64": "-mcpu=native", "arm64": "-mcpu=native"}
#: Longer sources, such as those of sorts, are optimized less: 5,600 lines take 3.7 s instead of 5.6.
_MOST_LINES = 2000
#: No kernel takes longer to compile: nothing waits for ever.
_PATIENCE_S = 300.0


def load(translation: Translation, contracts: bool) -> Any:
    """Return the function that launches a kernel; `contracts`: products and sums become one operation, as on a GPU."""
    compiler = _find_compiler()
    is_long = translation.source.count("\n") > _MOST_LINES
    level = ["-O1", "-ftree-vectorize"] if is_long else ["-O3"]
    command = [*_FLAGS, *level, *_tune(), f"-ffp-contract={'fast' if contracts else 'off'}"]
    facts = (translation.source, _digest_runtime(), compiler, _identify(compiler), *command, half.identify_processor())
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]
    build = functools.partial(_compile, compiler, command, translation)
    return getattr(_load_cached(f"{key}.so", build), _ENTRY)


def _find_compiler() -> str:
    try:
        return toolchain.compiler()
    except toolchain.BuildError as error:
        raise Unsupported(f"no C++ compiler: {error}") from None


def _tune() -> list[str]:
    flag = _TUNED.get(platform.machine())
    return [flag] if flag else []


@functools.cache
def _identify(compiler: str) -> str:
    """Return what tells a compiler from another that replaces it."""
    status = os.stat(compiler)
    return f"{os.path.realpath(compiler)} {status.st_size} {status.st_mtime_ns}"


@functools.cache
def _digest_runtime() -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_RUNTIME.glob("*.h")))).hexdigest()


def _compile(compiler: str, command: list[str], translation: Translation, target: Path) -> None:
    source = target.with_suffix(".cpp")
    source.write_text(translation.source, encoding="utf-8")
    words = [compiler, *command, f"-I{_RUNTIME}", str(source), "-o", str(target)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unsupported(f"its compilation takes more than {_PATIENCE_S:g} seconds") from None
    if done.returncode:
        _log.debug("%s\n%s", translation.source, done.stderr)
        first = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
        raise Unsupported(f"the compiler failed: {first}")


def _load_cached(name: str, build: Callable[[Path], None]) -> ctypes.CDLL:
    """Load a library of the cache; build it where it is missing or may not be used."""
    try:
        path = folders.cache_dir() / _FOLDER / name
        with contextlib.suppress(trust.Absent):
            return _load_open(path)
    except (OSError, folders.SettingsError) as error:
        _log.info("a Triton kernel is compiled again: %s", error)
    with leftovers.scratch(_SCRATCH) as (scratch, _):
        made = scratch / name
        build(made)
        try:
            path = folders.cache_dir() / _FOLDER / name
            _put(made, path)
            return _load_open(path)
        except (OSError, folders.SettingsError) as error:
            _log.info("a Triton kernel is not cached: %s", error)
            return ctypes.CDLL(str(made))


def _put(made: Path, path: Path) -> None:
    """Put a library into the cache, with its digest."""
    sealing.make_folder(path.parent)
    copy = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        shutil.copyfile(made, copy)
        sealing.seal_library(copy, path)
    finally:
        copy.unlink(missing_ok=True)


def _load_open(path: Path) -> ctypes.CDLL:
    """Load a library from the file that was checked. It stays open: the loader knows it by its number."""
    opened = sealing.open_library(path)
    return ctypes.CDLL(trust.name_open(opened, path))
