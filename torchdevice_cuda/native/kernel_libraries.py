"""Libraries of the program's kernels, as bytes: cached by the rules of `trust`, and loaded."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import logging
import sys
from collections.abc import Callable

from .. import leftovers, trust

_log = logging.getLogger("torchdevice_cuda")
#: What folders for temporary files begin with.
SCRATCH = "torchdevice-kernels-"
Build = Callable[[], bytes]
_numbers = itertools.count()


def provide(area: str, key: str, build: Build) -> tuple[bytes, bool]:
    """Return the library of a key, and whether it came from the cache; build it if it may not be used."""
    cached, why = trust.get(area, key)
    if cached is not None:
        return cached, True
    if why != trust.MISSING:
        explain(why)
    return rebuild(area, key, build), False


def rebuild(area: str, key: str, build: Build) -> bytes:
    """Build a library and cache it."""
    made = build()
    uncached = trust.put(area, key, made)
    if uncached:
        _log.info("a kernel is not cached, and compiled again next time: %s", uncached)
    return made


def provide_loaded(area: str, key: str, build: Build) -> ctypes.CDLL:
    """Load the library of a key. One of the cache that does not load is built again."""
    content, is_cached = provide(area, key, build)
    try:
        return load(content)
    except OSError as error:
        if not is_cached:
            raise
        explain(f"it does not load: {error}")
        return load(rebuild(area, key, build))


@functools.cache
def explain(why: str) -> None:
    """Print once on standard error why a cached kernel is not used."""
    advice = "; TORCHDEVICE_CACHE_DIR names another cache" if "by others" in why or "another user" in why else ""
    print(f"torchdevice_cuda: compiling a kernel again: {why}{advice}", file=sys.stderr, flush=True)


def load(content: bytes, files: contextlib.ExitStack | None = None) -> ctypes.CDLL:
    """Load a library from a file that is found through the descriptor of a folder that only this user can write.

    Each has a name of its own: the system's loader takes a library of a known name for the one that it has. `files`
    keeps the file.
    """
    with contextlib.ExitStack() as held:
        scratch, opened = held.enter_context(leftovers.scratch(SCRATCH))
        file = f"kernels-{next(_numbers)}.so"
        (scratch / file).write_bytes(content)
        library = ctypes.CDLL(f"{trust.name_open(opened, scratch)}/{file}")
        if files is not None:
            files.push(held.pop_all())
    return library
