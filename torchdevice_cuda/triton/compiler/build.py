"""Compile translated kernels and keep the libraries in the cache, by the rules of `trust`."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from ... import leftovers, sanitizer
from ...native import half, kernel_libraries, toolchain
from .ir import Unsupported
from .translate import Translation

_log = logging.getLogger(__name__)
_RUNTIME = Path(__file__).parent / "runtime"
_AREA, _ENTRY = "triton", "ttc_launch"
#: The headers of inline assembly.
_PTX = Path(__file__).parents[2] / "ptx" / "include"
#: The headers of counts.
_COUNTS = Path(__file__).parents[2] / "native" / "csrc" / "clock"
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
    roots = [_RUNTIME]
    roots += [_PTX] if '#include "host_ptx/' in translation.source else []
    roots += sanitizer.SOURCES if translation.is_sanitized else ()
    roots += [_COUNTS] if translation.is_counted else []
    facts = (
        translation.source,
        _digest_headers(*roots),
        compiler,
        _identify(compiler),
        *command,
        half.identify_processor(),
    )
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]
    build = functools.partial(_compile, compiler, command, translation)
    return getattr(kernel_libraries.provide_loaded(_AREA, f"{key}.so", build), _ENTRY)


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
def _digest_headers(*roots: Path) -> str:
    found = [path for root in roots for path in sorted(root.rglob("*.h"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


def _compile(compiler: str, command: list[str], translation: Translation) -> bytes:
    with leftovers.scratch(kernel_libraries.SCRATCH) as (scratch, _):
        source, library = scratch / "kernel.cpp", scratch / "kernel.so"
        source.write_text(translation.source, encoding="utf-8")
        folders = [f"-I{folder}" for folder in (_RUNTIME, _PTX, sanitizer.INCLUDE)]
        words = [compiler, *command, *folders, str(source), "-o", str(library)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unsupported(f"its compilation takes more than {_PATIENCE_S:g} seconds") from None
        if done.returncode:
            _log.debug("%s\n%s", translation.source, done.stderr)
            first = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
            raise Unsupported(f"the compiler failed: {first}")
        return library.read_bytes()
