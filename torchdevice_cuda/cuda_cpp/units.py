"""A cache of compiled sources: an object file by the content of what was compiled, and by how."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import trust
from ..native import half
from ..settings import folders

_AREA = "units"
#: How much of the disk objects may take: the oldest are removed.
LIMIT = 1 << 30


def compile_once(text: str, facts: Sequence[str], output: Path, build: Callable[[], str]) -> str:
    """Write an object file, from the cache if the same text was compiled before; return the compiler's warnings.

    `build` writes the file and returns the warnings. A text with warnings is compiled each time: they are shown again.
    """
    # A cache in a home folder that machines share must not serve one processor's instructions to another.
    content = "\0".join([text, *facts, half.identify_processor()])
    key = f"{hashlib.sha256(content.encode(errors='replace')).hexdigest()[:32]}.o"
    kept, _ = trust.get(_AREA, key)
    if kept is not None:
        output.write_bytes(kept)
        return ""
    warnings = build()
    if not warnings:
        trust.put(_AREA, key, output.read_bytes())
        _remove_oldest()
    return warnings


def _remove_oldest() -> None:
    """Keep the cache within its limit; another process may remove the same files."""
    try:
        with os.scandir(folders.cache_dir() / _AREA) as entries:
            found = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries)
        total = sum(size for _, size, _ in found)
        for _, size, path in found:
            if total <= LIMIT:
                break
            os.unlink(path)
            total -= size
    except (OSError, folders.SettingsError):
        return  # the next one tries again
