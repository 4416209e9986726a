"""Where the files of running processes are: one folder for a user, which nobody else can write."""

from __future__ import annotations

import os
from pathlib import Path

from .. import folders, trust


def folder() -> Path:
    """The folder of this user; whether it exists or not."""
    return folders.runtime_dir() or folders.memory_dir() / f"torchdevice-cuda-{os.geteuid()}"


def make() -> Path:
    """Create the folder of this user, and check that nobody else can write it."""
    path = folder()
    with trust.open_folder(path, path, create=0o700, private=True):
        return path


def identity(pid: int) -> str | None:
    """What tells a process from a later one with the same number, by the system's own count; ``None`` if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # The third field of the file is the first after the name: the state, then ... the 22nd is the start.
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
    except (OSError, IndexError):
        return None
    import psutil

    try:
        return str(round(psutil.Process(pid).create_time()))
    except psutil.Error:
        return None
