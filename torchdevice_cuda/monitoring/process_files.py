"""The files of running processes: one folder per user, which no other user can write."""

from __future__ import annotations

import os
from pathlib import Path

from .. import trust
from ..settings import folders


def folder() -> Path:
    """Return the folder of this user, which may not exist."""
    return folders.runtime_dir() or folders.memory_dir() / f"torchdevice-cuda-{os.geteuid()}"


def make() -> Path:
    """Create the folder of this user, and check that nobody else can write it."""
    path = folder()
    with trust.open_folder(path, path, create=0o700, private=True):
        return path
