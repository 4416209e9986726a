"""Ranks that create a group compare its members: otherwise Gloo would wait for a rank that never comes."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from torch._C._distributed_c10d import Store

_KEY = "members"


def check(store: Store, rank: int, size: int, members: Sequence[int]) -> list[str]:
    """Raise if another rank creates the group with other members, or another process has this one's rank.

    ``members`` are the ranks of the default group. Return the store's keys that were used.
    """
    if not 0 <= rank < size:
        raise ValueError(
            f"Rank {rank} is not in a process group of {size} ranks: WORLD_SIZE is how many ranks there are."
        )
    if size < 2:
        return []
    if len(members) != size:
        members = range(size)
    mine = " ".join(map(str, members))
    _take(store, members[rank], mine)
    for other in members:
        theirs = _wait_for(store, other)
        if theirs != mine:
            (first, its), (second, others) = sorted(((members[rank], mine), (other, theirs)))
            raise RuntimeError(
                f"Detected mismatch between ranks of a process group. Rank {first} makes it of ranks "
                f"{its.replace(' ', ', ')}, but Rank {second} of ranks {others.replace(' ', ', ')}."
            )
    return [f"{_KEY}/{member}" for member in members]


def _wait_for(store: Store, rank: int) -> str:
    """Return the members that a rank passes for the group, when it has arrived."""
    try:
        return store.get(f"{_KEY}/{rank}").decode().split(";")[0]
    except RuntimeError as error:
        raise RuntimeError(f"Rank {rank} has not joined the process group: {error}") from error


def _take(store: Store, rank: int, mine: str) -> None:
    """Claim a rank, which a live process of this host may have claimed."""
    key, value = f"{_KEY}/{rank}", f"{mine};{socket.gethostname()};{os.getpid()}"
    try:
        found = store.compare_set(key, "", value).decode()
    except (RuntimeError, NotImplementedError):  # a store class of the program
        found = ""
    if found == value:
        return
    _, _, holder = found.partition(";")
    host, _, process = holder.partition(";")
    if host == socket.gethostname() and process != str(os.getpid()) and _is_alive(process):
        raise RuntimeError(
            f"Rank {rank} of a process group is taken: process {process} has it, and so has process {os.getpid()}. "
            "Give every process a RANK of its own."
        )
    store.set(key, value)


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (OSError, ValueError):
        return False
    return True
