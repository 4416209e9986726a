"""Store compiled libraries, and notes beside them, in cache folders that `trust` has checked.

A library is loaded from the file that was checked. Its last bytes are a digest of all before them, so that a damaged
library is found before it is loaded (loading it could end the process). The digest is in the same file, because two
files could come from two builds. On macOS the linker signs a library up to its end: there the digest is in a file
beside it, and a library from another build than its digest counts as damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path

from .. import trust
from ..trust import Untrusted

_BESIDE = sys.platform == "darwin"
_SUFFIX = ".sha256"
_NOTE_LENGTH = 1000


def make_folder(path: Path) -> None:
    """Create a folder of the cache, and the root. All can read it: an image is built by root and run by others."""
    with trust.open_folder(path, path.parent, create=0o755):
        pass


def open_library(path: Path) -> int:
    """Return a descriptor of a library that may be loaded; raise `Untrusted` otherwise."""
    with trust.open_folder(path.parent, path.parent.parent) as directory:
        opened = trust.open_file(directory, path)
        try:
            wanted = _read_beside(path, directory) if _BESIDE else None
            if not _is_whole(opened, wanted):
                raise Untrusted(f"{path} is damaged")
        except BaseException:
            os.close(opened)
            raise
    return opened


def digest(opened: int) -> str:
    """Return the digest that identifies a library."""
    if _BESIDE:
        return _digest_file(opened)
    size = hashlib.sha256().digest_size
    return os.pread(opened, size, os.fstat(opened).st_size - size).hex()


def flaw(path: Path) -> str:
    """Return why a cached library may not be loaded; an empty string if it may."""
    try:
        os.close(open_library(path))
    except Untrusted as error:
        return str(error)
    return ""


def seal_library(made: Path, target: Path) -> None:
    """Move a library to its path with its digest: at its end, which loaders ignore, or beside it."""
    with made.open("r+b") as file:
        content = file.read()
        if not _BESIDE:
            file.write(trust.seal(content))
        file.flush()
        os.fsync(file.fileno())
    made.chmod(0o755)
    if _BESIDE:
        noted = made.with_name(target.name + _SUFFIX)
        noted.write_text(hashlib.sha256(content).hexdigest())
        noted.chmod(0o644)
        os.replace(noted, target.with_name(noted.name))
    os.replace(made, target)


def read_note(path: Path) -> str:
    """Return a line stored in a cache folder; an empty string if there is none."""
    try:
        return trust.read(path, path.parent.parent)[:_NOTE_LENGTH].decode(errors="replace")
    except OSError:
        return ""


def write_note(path: Path, text: str) -> None:
    """Store a line in a cache folder, if it is writable."""
    with contextlib.suppress(OSError):
        trust.write(path, text.encode(), path.parent.parent)


def _read_beside(path: Path, directory: int) -> str:
    """Return the digest stored beside a library; an empty string if there is none."""
    try:
        with open(trust.open_file(directory, path.with_name(path.name + _SUFFIX)), "rb") as file:
            return file.read(_NOTE_LENGTH).decode(errors="replace")
    except trust.Absent:
        return ""


def _digest_file(opened: int) -> str:
    made_of, at = hashlib.sha256(), 0
    while part := os.pread(opened, 1 << 20, at):
        made_of.update(part)
        at += len(part)
    return made_of.hexdigest()


def _is_whole(opened: int, wanted: str | None) -> bool:
    """Check a library against a digest: `wanted`, or the one at its end."""
    if wanted is not None:
        return _digest_file(opened) == wanted
    with open(opened, "rb", closefd=False) as file:
        return trust.unseal(file.read()) is not None
