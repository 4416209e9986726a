"""Folders for temporary files of compilers and loaders, which do not outlive a process that is killed for long.

The process that uses a folder holds a lock on it, which the system releases however the process ends. The next one that
makes a folder removes those that nobody has locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PREFIX = "torchdevice-kernels-"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch(NamedTuple):
    """A folder that only this user can use, and its descriptor."""

    path: Path
    opened: int


@contextlib.contextmanager
def make_scratch() -> Iterator[Scratch]:
    """Make a folder among temporary files; it is removed afterwards, or at the end of the process."""
    _remove_scratch(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        opened = os.open(name, _FLAGS)
        try:
            with contextlib.suppress(OSError):  # some file systems have no locks
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Scratch(Path(name), opened)
        finally:
            os.close(opened)


def _remove_scratch(folder: str) -> None:
    """Remove folders of this user that killed processes left."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if entry.name.startswith(_PREFIX)]:
            with contextlib.suppress(OSError):
                opened = os.open(entry.path, _FLAGS)
                try:
                    if os.fstat(opened).st_uid == os.geteuid():
                        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(opened)
