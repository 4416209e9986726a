"""The memory that this process may use: the machine's, or that of the process's control groups."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")


class Group(NamedTuple):
    """A control group that limits memory: its limit, and the files with its usage and the cached part of that."""

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
    """Return this process's control groups, and their parents, that have a limit; none if the system has no groups.

    In a container the path may be the host's, of which the container sees only the last part, as the root.
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
    """Return the most memory that this process can have: the machine's, or a group's limit."""
    return int(min([_memory().total, *(group.limit for group in groups())]))


def available() -> int:
    """Return the part of that memory that is not in use."""
    left = [_memory().available]
    for group in groups():
        used = _number(Path(group.usage))
        if used is not None:
            left.append(max(0, group.limit - used))
    return int(min(left))


#: Shares that virtual GPUs without a chosen size claim together: of the memory that the process can have, and of the
#: memory that is free. The program, torch and compiler caches need the rest.
_SHARE = 0.75
_SHARE_OF_LEFT = 0.9
_UNIT = 64 << 20


@functools.cache
def share(count: int) -> int:
    """Return the default memory of each of ``count`` devices, constant for the life of the process."""
    claimed = min(_SHARE * limit(), _SHARE_OF_LEFT * available()) / count
    return max(_UNIT, int(claimed) // _UNIT * _UNIT)
