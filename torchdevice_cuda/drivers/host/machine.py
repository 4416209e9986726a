"""The memory that this process may use: the machine's, or that of the process's control groups."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")


class Group(NamedTuple):
    """A control group that limits memory: how much, and the files with what is used and what of that is only cached."""

    limit: int
    usage: str
    statistics: str


class _Version(NamedTuple):
    """The files of a version of control groups."""

    folder: str
    limit: str
    usage: str


_FIRST = _Version("memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
_SECOND = _Version("", "memory.max", "memory.current")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text("ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max": no limit


def groups(own: Path = _SELF, root: Path = _ROOT) -> list[Group]:
    """Return this process's control groups, and those above, that have a limit; none if the system has no groups.

    In a container the path may be that of the host, of which the container sees the last part alone, as the root.
    """
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:
        return []
    total = _memory().total
    found: dict[str, Group] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version = _SECOND if not controllers else _FIRST if "memory" in controllers.split(",") else None
        if version is None:
            continue
        top = root / version.folder
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            limit = _number(folder / version.limit)
            if limit is not None and limit < total:
                found[str(folder)] = Group(limit, str(folder / version.usage), str(folder / "memory.stat"))
            if folder == top:
                break
    return list(found.values())


def _memory() -> Any:
    import psutil

    return psutil.virtual_memory()


def limit() -> int:
    """Return the most that this process can have: the machine's memory, or a group's."""
    return int(min([_memory().total, *(group.limit for group in groups())]))


def available() -> int:
    """Return the part of it that is not in use."""
    left = [_memory().available]
    for group in groups():
        used = _number(Path(group.usage))
        if used is not None:
            left.append(max(0, group.limit - used))
    return int(min(left))


#: What virtual GPUs claim together where nobody gives them a size: so much of what the process can have, and of what is
#: left so much less than all: the program, torch and the caches of compilers are in the same memory.
_SHARE = 0.75
_SHARE_OF_LEFT = 0.9
_UNIT = 64 << 20


@functools.cache
def share(count: int) -> int:
    """Return the default memory of each of ``count`` devices, constant for the life of the process."""
    claimed = min(_SHARE * limit(), _SHARE_OF_LEFT * available()) / count
    return max(_UNIT, int(claimed) // _UNIT * _UNIT)
