"""Where the files of running processes are: one folder for a user, which nobody else can write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .. import folders


class NoFolder(OSError):
    """There is no place for the files."""


def folder() -> Path:
    """The folder of this user; whether it exists or not."""
    return folders.runtime_dir() or folders.memory_dir() / f"torchdevice-cuda-{_user()}"


def make() -> Path:
    """The same, which exists and belongs to this user alone; another's, or a link, is not written to."""
    path = folder()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_ours(path):
        raise NoFolder(f"{path} is not a folder of this user alone")
    return path


def is_ours(path: Path) -> bool:
    """Whether nobody else can have written what is in it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"
