"""Which libraries of the cache may be loaded: those of the user or of root, that nobody else can write, and whole.

A library is code, so whoever can write it runs as the user. The cache's root, the library's folder in it and the
library are opened one from the other, without following links, and each is checked as it was opened: nothing is looked
up by name twice. The library's last bytes are a digest of all before them, so a damaged one is seen before it is loaded
(loading it could end the process); in the same file, because two files could be of two builds. Not on macOS, where the
linker signs a library up to its end: there it is in a file beside it, and a library of another build counts as damaged.

The root may be writable by all where only owners may rename and remove, as in /tmp: nobody can replace what is ours
there, and what others put there is seen to be theirs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

_MARK = b"\ntorchdevice-native sha256:"
_SEAL_LENGTH = len(_MARK) + hashlib.sha256().digest_size
_BESIDE = sys.platform == "darwin"
_SUFFIX = ".sha256"
_NOTE_LENGTH = 1000
MISSING = "missing"


class Untrusted(Exception):
    """Why something in the cache may not be used."""


def _check(descriptor: int, path: Path, shared: bool = False) -> None:
    """Whether nobody but the user and root could have written what is open; a `shared` folder may let others add."""
    status = os.fstat(descriptor)
    if status.st_uid not in (os.geteuid(), 0):
        raise Untrusted(f"{path} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (shared and status.st_mode & stat.S_ISVTX):
        raise Untrusted(f"{path} can be written by others; chmod go-w takes that away")


def _open(path: Path, kind: int, directory: int | None = None) -> int:
    """Opens `path`, by its last name in `directory` where one is open. A named pipe must not hold it up."""
    name = path if directory is None else path.name
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | kind, dir_fd=directory)
    except FileNotFoundError:
        raise Untrusted(MISSING) from None
    except OSError as error:
        what = "is a link, which is not followed" if path.is_symlink() else f"cannot be opened: {error.strerror}"
        raise Untrusted(f"{path} {what}") from None


@contextlib.contextmanager
def folder(path: Path) -> Iterator[int]:
    """A folder of the cache, open and checked, as the cache's root above it is."""
    root = _open(path.parent, os.O_DIRECTORY)
    try:
        _check(root, path.parent, shared=True)
        opened = _open(path, os.O_DIRECTORY, root)
    finally:
        os.close(root)
    try:
        _check(opened, path)
        yield opened
    finally:
        os.close(opened)


def make_folder(path: Path) -> None:
    """Makes a folder of the cache, and the root. Readable by all: an image is built by root and run by others."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    for each in (path.parent, path):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o755)
    # The folder is nobody's business but ours, so its mode is put right; the root is the user's, who hears of it.
    opened = _open(path, os.O_DIRECTORY)
    try:
        status = os.fstat(opened)
        if status.st_uid == os.geteuid() and status.st_mode & 0o022:
            os.fchmod(opened, stat.S_IMODE(status.st_mode) & ~0o022)
    finally:
        os.close(opened)
    with folder(path):
        pass


def open_library(path: Path) -> int:
    """A descriptor of the library, which may be loaded; :class:`Untrusted` says why not."""
    with folder(path.parent) as directory:
        opened = _open(path, 0, directory)
        wanted = _beside(path, directory) if _BESIDE else None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise Untrusted(f"{path} is not a plain file")
        _check(opened, path)
        if not _is_whole(opened, wanted):
            raise Untrusted(f"{path} is damaged")
    except BaseException:
        os.close(opened)
        raise
    return opened


def digest(opened: int) -> str:
    """What a whole library is known by."""
    if _BESIDE:
        return _of(opened)
    size = hashlib.sha256().digest_size
    return os.pread(opened, size, os.fstat(opened).st_size - size).hex()


def note(path: Path) -> str:
    """A line that is kept in a folder of the cache; empty if none is."""
    try:
        with folder(path.parent) as directory, open(_open(path, 0, directory), "rb") as file:
            return file.read(_NOTE_LENGTH).decode(errors="replace")
    except (Untrusted, OSError):
        return ""


def write_note(path: Path, text: str) -> None:
    """Keeps it, where the cache can be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(Untrusted, OSError), folder(path.parent) as directory:
        opened = os.open(path.name, flags, 0o644, dir_fd=directory)
        try:
            os.write(opened, text.encode())
        finally:
            os.close(opened)


def flaw(path: Path) -> str:
    """Why a cached library may not be loaded; empty if it may."""
    try:
        os.close(open_library(path))
    except Untrusted as error:
        return str(error)
    return ""


def put(made: Path, target: Path) -> None:
    """Puts a library where it is looked for, with its digest: at its end, where no loader looks, or beside it."""
    with made.open("r+b") as file:
        made_of = hashlib.sha256(file.read()).digest()
        if not _BESIDE:
            file.write(_MARK + made_of)
        file.flush()
        os.fsync(file.fileno())
    made.chmod(0o755)
    if _BESIDE:
        noted = made.with_name(target.name + _SUFFIX)
        noted.write_text(made_of.hex())
        noted.chmod(0o644)
        os.replace(noted, target.with_name(noted.name))
    os.replace(made, target)


def _beside(path: Path, directory: int) -> str:
    """The digest that is kept beside a library; empty if there is none."""
    noted = path.with_name(path.name + _SUFFIX)
    try:
        with open(_open(noted, 0, directory), "rb") as file:
            _check(file.fileno(), noted)
            return file.read(_NOTE_LENGTH).decode(errors="replace")
    except Untrusted as error:
        if str(error) == MISSING:
            return ""
        raise


def _of(descriptor: int) -> str:
    """The digest of a whole file."""
    made_of, at = hashlib.sha256(), 0
    while part := os.pread(descriptor, 1 << 20, at):
        made_of.update(part)
        at += len(part)
    return made_of.hexdigest()


def _is_whole(descriptor: int, wanted: str | None) -> bool:
    """Whether a library is what its digest says: the one that is ``wanted``, or that at its end."""
    if wanted is not None:
        return _of(descriptor) == wanted
    with open(descriptor, "rb", closefd=False) as file:
        content = memoryview(file.read())
    body, end = content[:-_SEAL_LENGTH], content[-_SEAL_LENGTH:]
    # Of those in hashlib the fastest where the processor helps: 1.1 ms for a library of 1.4 MB.
    return end == _MARK + hashlib.sha256(body).digest()
