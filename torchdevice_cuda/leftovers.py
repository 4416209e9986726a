"""Files and folders of processes that were killed: the user's next process that makes one of the kind removes them.

Whether the owner lives is asked of a lock (``flock``) that it holds on its file, not of its number: a number may have
been given to another process since, and a process of another container, which shares ``/dev/shm``, has a number that
means nothing here. The kernel drops the lock when the last descriptor of the open file is closed, however its process
ends. So forked children, which have that descriptor too, keep the file as long as they live: it is removed late, never
early. POSIX locks (``fcntl.lockf``) would not be inherited, but a process loses them as soon as it closes any other
descriptor of the file, as it does when it reads its own.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

#: Seconds after which an unlocked file is no longer being created.
SETTLED_S = 60.0


def hold(descriptor: int) -> None:
    """Lock an open file for as long as it is open in any process; without a lock where the file system has none."""
    _lock(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file without waiting; False where another process has locked it, or nobody can."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def remove(
    folder: str | os.PathLike[str],
    prefix: str = "",
    suffix: str = "",
    age_s: float = SETTLED_S,
    is_alive: Callable[[str], bool] = lambda name: False,
) -> None:
    """Remove this user's files and folders of such names that nobody has locked; never waits, never fails.

    ``age_s``: leave those that were changed so recently. ``is_alive``: leave those whose names tell of a process that
    lives; for file systems without locks.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(suffix):
                with contextlib.suppress(OSError):
                    _remove_abandoned(entry.path, age_s, is_alive)


def _remove_abandoned(path: str, age_s: float, is_alive: Callable[[str], bool]) -> None:
    # Without waiting for the writer of a FIFO, and not the file that a link names.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < age_s:
            return
        # Names are never used again, so what is removed is what was locked.
        if not _lock(descriptor) or is_alive(os.path.basename(path)):
            return
        if stat.S_ISDIR(found.st_mode):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    finally:
        os.close(descriptor)


def unlink_abandoned(path: str | os.PathLike[str]) -> None:
    """Remove one file, unless its process lives."""
    with contextlib.suppress(OSError):
        _remove_abandoned(os.fspath(path), 0.0, lambda name: False)


class Scratch(NamedTuple):
    """A folder that only this user can use, and its descriptor."""

    path: Path
    opened: int


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Scratch]:
    """Make a temporary folder for as long as it is needed; those that killed processes left under the prefix go."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            hold(descriptor)
            remove(os.path.dirname(name), prefix)
            yield Scratch(Path(name), descriptor)
        finally:
            os.close(descriptor)


def identity(pid: int) -> str | None:
    """Identify a process among those with its number, by the system's own count; ``None`` if it has ended."""
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


def process_namespace() -> str:
    """Return what tells the process numbers of a container from those of another."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"
