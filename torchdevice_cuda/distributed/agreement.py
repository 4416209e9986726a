"""Fingerprints of the calls of all ranks on one host, which each rank compares: Gloo ends a process that receives more
than it expects, and computes with different reductions without an error.

The fingerprints are in shared memory, so that a comparison costs no message. A rank first writes, then compares: if two
ranks disagree, the later one finds out before it calls Gloo, which sends nothing until both have called. It writes why
the group has failed; ``watchdog.py`` makes the others, which may wait in Gloo, raise the same error.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import secrets
import threading
import time
import weakref
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch
from torch._C._distributed_c10d import ReduceOp, Store

from .. import leftovers, trust
from ..settings import folders

#: Header words of the memory, of which the first tells that the group has failed, and of each rank's part, of which the
#: first counts the rank's calls and the second is the length of its error message.
HEAD = 8
#: Number of its last calls that a rank shows, two words each. Ranks further ahead are not compared.
RING = 1024
#: Words of an error message.
TEXT = 128
#: Number of calls between two ranks that are shown, with the counter.
_PAIR = 64
_SENT, _WANTED = 0, 1
#: The second word of a call: its number, in 16 bits, and 48 bits that describe the call.
_NUMBER, _SIZE = 48, (1 << 38) - 1
#: The first word: the reduction, the root plus one, and the number of tensors in the call.
_ROOT, _TENSORS = 8, 32
_PREFIX = "torchdevice_cuda-"
_KEY, _JOINED = "agreement", "agreement/joined"
_NAME = re.compile(f"{_PREFIX}[0-9a-f]{{32}}")
#: Seconds that a mismatch waits for the other ranks' calls, to report them all.
_PATIENCE = 0.25


class Kind(IntEnum):
    """A rank's call, in the terms by which PyTorch compares calls."""

    #: Also used by the compiled part.
    ALLREDUCE = 1
    REDUCE = 2
    BROADCAST = 3
    ALLGATHER = 4
    REDUCE_SCATTER = 5
    GATHER = 6
    SCATTER = 7
    ALLTOALL = 8
    BARRIER = 9


#: C++'s numbers of dtypes that are computed with.
_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bfloat16: 15,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
}
_TYPE_NAMES = {number: str(dtype).removeprefix("torch.") for dtype, number in _TYPES.items()}
#: Moved data has no dtype: bytes.
_BYTES = 31


_REDUCTIONS: Any = ReduceOp.RedOpType


def _describe(call: tuple[int, int]) -> str:
    word, detail = call
    kind, dtype, size = Kind(word >> 43 & 31), word >> 38 & 31, word & _SIZE
    if kind in (Kind.ALLTOALL, Kind.BARRIER):
        return kind.name
    root, tensors = (detail >> _ROOT & 0xFFFFFF) - 1, detail >> _TENSORS
    if dtype == _BYTES:
        text = f"{kind.name} of {size} bytes"
    else:
        text = f"{kind.name}({_REDUCTIONS(detail & 0xFF).name}) of {size} elements of {_TYPE_NAMES[dtype]}"
    return text + (f" with root {root}" if root >= 0 else "") + (f", one of {tensors} tensors" if tensors > 1 else "")


def describe_exchange(source: int, sent: int, to: int, wanted: int) -> str:
    """Return the error for a rank that sends another number of bytes than the other receives."""
    return (
        f"Detected mismatch between collectives on ranks. Rank {source} is sending {sent} bytes to Rank {to}, "
        f"which is receiving {wanted} bytes."
    )


def _name_ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]} is"
    return f"Ranks {', '.join(map(str, ranks))} are"


class CollectiveFingerprints:
    """The fingerprints of the ranks' calls in a group, in this host's shared memory."""

    def __init__(self, memory: mmap.mmap, rank: int, size: int) -> None:
        self.memory = memory
        self.rank, self.size = rank, size
        #: The compiled part's key of the group, if it has one.
        self.group = 0
        self.stride = _stride(size)
        self._words = memoryview(memory).cast("Q")
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        """Return the address of the fingerprints, for the compiled part."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    # ------------------------------------------------------------------- failures
    @property
    def has_failed(self) -> bool:
        """Return whether a rank has reported a failure."""
        return bool(self._words[0])

    @property
    def failure(self) -> str | None:
        """Return why the group has failed, from the first rank that recorded a reason; ``None`` if it has not."""
        if not self._words[0]:
            return None
        for rank in range(self.size):
            start = self._part(rank)
            if length := self._words[start + 1]:
                text = 8 * (start + self.stride - TEXT)
                return bytes(self.memory[text : text + min(length, 8 * TEXT)]).decode(errors="replace")
        return None

    def fail(self, text: str) -> None:
        """Report to the other ranks why the group has failed, unless that is known already."""
        with self._lock:
            if self._words[0]:
                return
            start = self._part(self.rank)
            encoded = text.encode()[: 8 * TEXT]
            place = 8 * (start + self.stride - TEXT)
            self.memory[place : place + len(encoded)] = encoded
            self._words[start + 1] = len(encoded)
            self._words[0] = 1

    def check(self) -> None:
        """Raise if the group has failed."""
        if self._words[0] and (known := self.failure):
            raise RuntimeError(known)

    def explain(self, error: RuntimeError) -> RuntimeError:
        """Return why the group has failed instead of Gloo's error; report an error that is new."""
        known = self.failure
        if known is not None:
            return RuntimeError(known)
        self.fail(f"Rank {self.rank} of the process group failed: {error}")
        return error

    # ---------------------------------------------------------------------- calls
    def reduces(
        self, kind: Kind, dtype: torch.dtype, count: int, reduction: int, root: int | None = None, tensors: int = 1
    ) -> None:
        """Raise if another rank's call with this number differs in anything on which NCCL's ranks must agree."""
        self._compare(kind, _TYPES[dtype], count, reduction, root, tensors)

    def moves(self, kind: Kind, count: int = 0, root: int | None = None, tensors: int = 1) -> None:
        """Compare a call that moves bytes: NCCL ignores their dtype."""
        self._compare(kind, _BYTES, count, 0, root, tensors)

    def _compare(self, kind: Kind, dtype: int, size: int, reduction: int, root: int | None, tensors: int) -> None:
        words = self._words
        if words[0]:
            self.check()
        detail = reduction | (0 if root is None else root + 1) << _ROOT | tensors << _TENSORS
        with self._lock:
            here = self._part(self.rank)
            number = words[here] + 1
            entry = HEAD + 2 * (number % RING)
            word = (number & 0xFFFF) << _NUMBER | kind << 43 | dtype << 38 | size & _SIZE
            words[here + entry] = detail
            words[here + entry + 1] = word
            words[here] = number
        # Every call runs this loop, so it calls no function.
        for start in range(HEAD + entry, len(words), self.stride):
            theirs = words[start + 1]
            if theirs and theirs >> _NUMBER == number & 0xFFFF and (theirs != word or words[start] != detail):
                self._report(entry, number)

    def _call(self, rank: int, entry: int, number: int) -> tuple[int, int] | None:
        """Return the words of a rank's call with a number; ``None`` if the rank has not reached it."""
        start = self._part(rank) + entry
        word = self._words[start + 1]
        return (word, self._words[start]) if word and word >> _NUMBER == number & 0xFFFF else None

    def _report(self, entry: int, number: int) -> None:
        """Raise an error with the calls of all ranks, as far as they arrive soon."""
        end = time.monotonic() + _PATIENCE
        while True:
            calls = {rank: found for rank in range(self.size) if (found := self._call(rank, entry, number))}
            if len(calls) == self.size or self._words[0] or time.monotonic() > end:
                break
            time.sleep(0.001)
        ranks: dict[tuple[int, int], list[int]] = {}
        for rank, call in calls.items():
            ranks.setdefault(call, []).append(rank)
        text = ", but ".join(
            f"{_name_ranks(found)} running collective: {_describe(call)}" for call, found in ranks.items()
        )
        self.fail(
            f"Detected mismatch between collectives on ranks. {text}. It is collective {number} of the process group."
        )
        self.check()

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
        self.fail(describe_exchange(source, sent, to, wanted))
        self.check()

    def _meet(self, what: int, other: int, count: int) -> int | None:
        """Write the number of bytes sent or expected; return the other rank's number, if it differs."""
        self.check()
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
        return self._part(rank) + HEAD + 2 * RING + (2 * other + what) * _PAIR


def _stride(size: int) -> int:
    return HEAD + 2 * RING + 2 * _PAIR * size + TEXT


def join(store: Store, rank: int, size: int, owner: Any, keys: Sequence[str] = ()) -> CollectiveFingerprints | None:
    """Return the memory of a group, whose ranks all call this; ``None`` for ranks on another host than the first.

    The last rank deletes ``keys``, which all have read by then.
    """
    if size < 2:
        return None
    length = 8 * (HEAD + size * _stride(size))
    if rank == 0:
        memory, name = _made(length, owner)
        store.set(_KEY, name)
    else:
        name = store.get(_KEY).decode()
        memory = _opened(name, length)
    # The last rank removes the name, so that no file is left, however the processes end. A later group over the same
    # store finds no keys of this one.
    if store.add(_JOINED, 1) == size:
        if _NAME.fullmatch(name):
            _unlink(_path_of(name))
        for key in (_KEY, _JOINED, *keys):
            _forget_key(store, key)
    return None if memory is None else CollectiveFingerprints(memory, rank, size)


def _forget_key(store: Store, key: str) -> None:
    # Not every kind of store can delete.
    with contextlib.suppress(RuntimeError, NotImplementedError):
        store.delete_key(key)


def _path_of(name: str) -> str:
    return str(folders.memory_dir() / name)


def _made(length: int, owner: Any) -> tuple[mmap.mmap | None, str]:
    leftovers.remove(folders.memory_dir(), _PREFIX)
    name = f"{_PREFIX}{secrets.token_hex(16)}"
    path = _path_of(name)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None, ""
    weakref.finalize(owner, _unlink, path)
    leftovers.hold(file)  # while it is mapped
    try:
        os.ftruncate(file, length)
        if hasattr(os, "posix_fallocate"):  # full memory is an error here; later it would be SIGBUS
            os.posix_fallocate(file, 0, length)
        return mmap.mmap(file, length), name
    except OSError:
        return None, ""
    finally:
        os.close(file)


def _opened(name: str, length: int) -> mmap.mmap | None:
    """Map the first rank's file, if it is on this host. A store's contents are untrusted: no other file is opened."""
    if not _NAME.fullmatch(name):
        return None
    try:
        file = os.open(_path_of(name), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        trust.check_open(file, Path(name))
        return mmap.mmap(file, length) if os.fstat(file).st_size == length else None
    except trust.Untrusted:
        return None
    finally:
        os.close(file)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
