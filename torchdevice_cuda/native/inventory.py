"""List the compiled parts without compiling, loading or importing anything."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import NamedTuple

from ..settings import cache_dir
from . import build, parts, prebuilt, sealing


class Part(NamedTuple):
    """A library that would be loaded and its origin; or none, and the reason."""

    path: Path | None
    distribution: str
    #: Why it is not from the distribution, if that is installed, and why it is not in the cache.
    otherwise: str
    why: str


def part(kind: str) -> Part:
    """Return the library of this kind for the installed torch; raise BuildError if there can be none."""
    place = build.whereabouts(kind)
    otherwise = ""
    try:
        shipped = prebuilt.find(prebuilt.name_entry(kind, parts.CORE), place.key, place.torch)
        os.close(shipped.opened)
        return Part(shipped.path, shipped.name, "", "")
    except prebuilt.NotShipped as error:
        otherwise = str(error)
    why = sealing.flaw(place.path)
    return Part(None if why else place.path, "", otherwise, why)


def others() -> list[Path]:
    """Return cache folders with libraries that this torch, this Python and these sources do not use."""
    ours = _own_folders()
    return sorted(path for path in cache_dir().glob("*-*") if build.FOLDER.fullmatch(path.name) and path not in ours)


def write_removal() -> str:
    """Return the shell command that removes :func:`others`."""
    kinds = " -o ".join(f"-name '{kind}-*'" for kind in build.KINDS)
    ours = " ".join(f"! -name {folder.name}" for folder in _own_folders())
    return f"find {shlex.quote(str(cache_dir()))} -maxdepth 1 \\( {kinds} \\) {ours} -exec rm -r {{}} +"


def _own_folders() -> list[Path]:
    return [build.whereabouts(kind).path.parent for kind in build.KINDS]


def size(folder: Path) -> int:
    """Return the size of the files in a folder, in bytes."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
