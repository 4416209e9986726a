"""Ranks of one host write down what they are about to do, and see what the others do: Gloo ends a process that is sent
more than it expects.

The memory is shared, so that a look costs no message. A rank writes first and looks then: of two ranks that disagree,
the later one is told before it calls Gloo, which sends nothing until both have called.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import secrets
import threading
import weakref
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch
from torch._C._distributed_c10d import Store

from .. import folders, leftovers, trust

#: Words at the beginning of the memory, and of each rank's part: the first of a part counts the rank's calls.
HEAD = 8
#: How many of its last calls a rank shows. Who is further ahead is not compared with.
RING = 1024
#: The same of what is sent between two ranks, with the counter.
_PAIR = 64
_SENT, _WANTED = 0, 1
#: A word: which call it is, counted in 16 bits, and 48 bits that say what it does.
_NUMBER, _SIZE = 48, (1 << 38) - 1
_PREFIX = "torchdevice_cuda-"
_KEY, _JOINED = "agreement", "agreement/joined"


class Kind(IntEnum):
    """What a rank does, in the words that PyTorch compares calls with."""

    #: Known to the compiled part.
    ALLREDUCE = 1
    REDUCE = 2
    BROADCAST = 3
    ALLGATHER = 4
    REDUCE_SCATTER = 5
    GATHER = 6
    SCATTER = 7
    ALLTOALL = 8
    BARRIER = 9


#: As C++ counts types: those that are computed with.
_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bfloat16: 15,
}
_TYPE_NAMES = {number: str(dtype).removeprefix("torch.") for dtype, number in _TYPES.items()}
#: What is moved has no type: bytes.
_BYTES = 31


def _said(word: int) -> str:
    kind, dtype, size = Kind(word >> 43 & 31), word >> 38 & 31, word & _SIZE
    if kind in (Kind.ALLTOALL, Kind.BARRIER):
        return kind.name
    return f"{kind.name} of {size} " + ("bytes" if dtype == _BYTES else f"elements of {_TYPE_NAMES[dtype]}")


class Agreement:
    """What the ranks of a group say that they do, in memory of this host."""

    def __init__(self, memory: mmap.mmap, rank: int, size: int) -> None:
        self.memory = memory
        self.rank, self.size = rank, size
        self.stride = _stride(size)
        self._words = memoryview(memory).cast("Q")
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        """Where the words are, for the compiled part."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def reduces(self, kind: Kind, tensor: torch.Tensor) -> None:
        """Raise if another rank's call with this number is another, or has another size or type."""
        self._compare(kind, _TYPES[tensor.dtype], tensor.numel())

    def moves(self, kind: Kind, count: int = 0) -> None:
        """The same of bytes that are not looked at."""
        self._compare(kind, _BYTES, count)

    def _compare(self, kind: Kind, dtype: int, size: int) -> None:
        with self._lock:
            here = self._part(self.rank)
            number = self._words[here] + 1
            place = HEAD + number % RING
            word = (number & 0xFFFF) << _NUMBER | kind << 43 | dtype << 38 | size & _SIZE
            self._words[here + place] = word
            self._words[here] = number
        for other in range(self.size):
            theirs = self._words[self._part(other) + place]
            if theirs and theirs >> _NUMBER == number & 0xFFFF and theirs != word:
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks. Rank {self.rank} is running collective: "
                    f"{_said(word)}, but Rank {other} is running collective: {_said(theirs)}. "
                    f"It is collective {number} of the process group."
                )

    def sends(self, to: int, count: int) -> None:
        """Raise if the other rank expects another number of bytes."""
        found = self._meet(_SENT, to, count)
        if found is not None:
            self._disagree(self.rank, count, to, found)

    def wants(self, source: int, count: int) -> None:
        """Raise if the other rank sends another number of bytes."""
        found = self._meet(_WANTED, source, count)
        if found is not None:
            self._disagree(source, found, self.rank, count)

    def _disagree(self, source: int, sent: int, to: int, wanted: int) -> None:
        raise RuntimeError(
            f"Detected mismatch between collectives on ranks. Rank {source} is sending {sent} bytes to Rank {to}, "
            f"which is receiving {wanted} bytes."
        )

    def _meet(self, what: int, other: int, count: int) -> int | None:
        """Write down what is sent or wanted; what the other rank says, if it says something else."""
        with self._lock:
            here = self._pair(self.rank, other, what)
            number = self._words[here] + 1
            place = 1 + number % (_PAIR - 1)
            word = (number & 0xFFFF) << _NUMBER | count + 1
            self._words[here + place] = word
            self._words[here] = number
        theirs = self._words[self._pair(other, self.rank, 1 - what) + place]
        if not theirs or theirs >> _NUMBER != number & 0xFFFF or theirs == word:
            return None
        return (theirs & (1 << _NUMBER) - 1) - 1

    def _part(self, rank: int) -> int:
        return HEAD + rank * self.stride

    def _pair(self, rank: int, other: int, what: int) -> int:
        return self._part(rank) + HEAD + RING + (2 * other + what) * _PAIR


def _stride(size: int) -> int:
    return HEAD + RING + 2 * _PAIR * size


def join(store: Store, rank: int, size: int, owner: Any) -> Agreement | None:
    """The memory of a group, whose ranks all call this; ``None`` for ranks of another host than the first."""
    if size < 2:
        return None
    length = 8 * (HEAD + size * _stride(size))
    if rank == 0:
        memory, path = _made(length, owner)
        store.set(_KEY, path)
    else:
        path = store.get(_KEY).decode()
        memory = _opened(path, length)
    # Whoever is last takes the name away: nothing is left behind, however the processes end.
    if store.add(_JOINED, 1) == size:
        _unlink(path)
    return None if memory is None else Agreement(memory, rank, size)


def _made(length: int, owner: Any) -> tuple[mmap.mmap | None, str]:
    path = str(folders.memory_dir() / f"{_PREFIX}{secrets.token_hex(16)}")
    leftovers.remove(folders.memory_dir(), _PREFIX)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None, ""
    weakref.finalize(owner, _unlink, path)
    leftovers.hold(file)  # as long as it is mapped
    try:
        os.ftruncate(file, length)
        if hasattr(os, "posix_fallocate"):  # memory that is full is an error now, and SIGBUS when it is used
            os.posix_fallocate(file, 0, length)
        return mmap.mmap(file, length), path
    except OSError:
        return None, ""
    finally:
        os.close(file)


def _opened(path: str, length: int) -> mmap.mmap | None:
    """The first rank's file, if it is on this host: nobody else can have one of its name."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        trust.check_open(file, Path(path))
        return mmap.mmap(file, length)
    except trust.Untrusted:
        return None
    finally:
        os.close(file)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
