"""Memory accesses of Triton's interpreter, checked as a GPU checks them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drivers.errors import cuda_error
from .memory import ATOMIC, READ, WRITE, Memory, Range

if TYPE_CHECKING:
    from .sanitizing import Sanitizer


def _within(pointers: Any, ranges: list[Range], width: int) -> Any:
    inside = np.zeros(pointers.shape, dtype=bool)
    for first, size in ranges:
        if size >= width:
            inside |= (pointers >= np.uint64(first)) & (pointers <= np.uint64(first + size - width))
    return inside


class _Checker:
    """Whether addresses of one launch are memory of the GPU."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        #: What was accessible when a program of the kernel first left its arguments.
        self._others: list[Range] = []

    def check(self, pointers: Any, mask: Any, width: int) -> None:
        """Refuse, as CUDA does, addresses that no memory of the GPU has: the host would end the process."""
        used = pointers[mask] if mask is not None else pointers.reshape(-1)
        if not used.size:
            return
        low, high = int(used.min()), int(used.max()) + width
        known = [*self._memory.ranges(), *self._others]
        if any(first <= low and high <= first + size for first, size in known):
            return
        used = used[~_within(used, known, width)]
        if not used.size:
            return
        # Asked again before a program is told so: what it reaches for may be newer than the last answer.
        self._others = self._memory.list_accessible()
        if not _within(used, self._others, width).all():
            raise cuda_error(700)


class Checked:
    """The part of the interpreter that reads and writes memory, with addresses looked at first."""

    def __init__(self, genuine: Any, sanitizer: Sanitizer | None) -> None:
        self._genuine = genuine
        self._checker: _Checker | None = None
        self._sanitizer = sanitizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)

    def _look(self, pointers: Any, mask: Any, width: int, kind: str, order: Any = None) -> None:
        if self._checker is None:
            return
        if self._sanitizer is None:
            self._checker.check(pointers, mask, width)
            return
        sanitizer = self._sanitizer
        try:
            self._checker.check(pointers, mask, width)
        except RuntimeError:
            sanitizer.refuse(pointers, mask, width, kind, is_misaligned=False)
            raise
        used = pointers[mask] if mask is not None else pointers
        if sanitizer.checks_addresses and (used % np.uint64(width)).any():
            sanitizer.refuse(pointers, mask, width, kind, is_misaligned=True)
            raise cuda_error(716)
        sanitizer.note(pointers, mask, width, kind, self._read_words, tells="RELEASE" in str(order))

    def _read_words(self, addresses: Any) -> Any:
        kind = np.dtype(np.uint32)
        return self._genuine.load(addresses, np.ones(addresses.shape, bool), np.zeros(addresses.shape, kind), kind)

    def load(self, pointers: Any, mask: Any, other: Any, kind: Any) -> Any:
        """Read elements of a numpy type."""
        self._look(pointers, mask, kind.itemsize, READ)
        return self._genuine.load(pointers, mask, other, kind)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        """Write elements."""
        self._look(pointers, mask, values.dtype.itemsize, WRITE)
        return self._genuine.store(pointers, values, mask)

    def atomic_cas(self, pointers: Any, compared: Any, values: Any, order: Any) -> Any:
        """Compare and swap."""
        self._look(pointers, None, values.dtype.itemsize, ATOMIC, order)
        return self._genuine.atomic_cas(pointers, compared, values, order)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        """Read, change, write."""
        self._look(pointers, mask, values.dtype.itemsize, ATOMIC, order)
        return self._genuine.atomic_rmw(operation, pointers, values, mask, order)

    @contextlib.contextmanager
    def over(self, interpreter: Any, memory: Memory) -> Any:
        """Stand in for it while a kernel runs over this memory."""
        before = interpreter._interpreter
        self._checker, interpreter._interpreter = _Checker(memory), self
        try:
            yield
        finally:
            self._checker, interpreter._interpreter = None, before
