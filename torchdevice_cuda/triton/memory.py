"""The memory that a kernel works on: the device's own where that is the host's, else a copy that goes back."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import numpy as np

from ..drivers.errors import cuda_error

#: First address, and the one after the last.
Range = tuple[int, int]


def of_living_tensors() -> list[Range]:
    """The memory of every tensor of the host that Python knows: asked only where a kernel leaves its arguments."""
    import torch

    found = set()
    for candidate in gc.get_objects():
        if issubclass(type(candidate), torch.Tensor) and type(candidate).__name__ in ("Tensor", "Parameter"):
            try:
                storage = candidate.untyped_storage()
                found.add((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
            except (NotImplementedError, RuntimeError):  # it has none that can be looked at
                continue
    return [(first, end) for first, end in found if first]


class Memory:
    """Addresses of the tensors of one launch, and whether an address is one that the GPU could use."""

    def __init__(self, accessible: Callable[[], list[Range]]) -> None:
        self._ranges: list[Range] = []
        self._accessible = accessible
        #: What was accessible when a program of the kernel first left its arguments.
        self._others: list[Range] = []

    def address(self, tensor: Any) -> int:
        """Where the kernel finds a tensor's first element."""
        storage = tensor.untyped_storage()
        self._know(storage.data_ptr(), storage.nbytes())
        return int(tensor.data_ptr())

    def _know(self, first: int, size: int) -> None:
        if size:
            self._ranges.append((first, first + size))

    def ranges(self) -> list[tuple[int, int]]:
        """Addresses and sizes of what the kernel was given."""
        return [(first, end - first) for first, end in dict.fromkeys(self._ranges)]

    def check(self, pointers: Any, mask: Any, width: int) -> None:
        """Refuse, as CUDA does, addresses that no memory of the GPU has: the host would end the process."""
        used = pointers[mask] if mask is not None else pointers.reshape(-1)
        if not used.size:
            return
        low, high = int(used.min()), int(used.max()) + width
        known = [*self._ranges, *self._others]
        if any(first <= low and high <= end for first, end in known):
            return
        used = used[~_within(used, known, width)]
        if not used.size:
            return
        # Asked again before a program is told so: what it reaches for may be newer than the last answer.
        self._others = self._accessible()
        if not _within(used, self._others, width).all():
            raise cuda_error(700)

    def finish(self) -> None:
        """The kernel is done."""


def _within(pointers: Any, ranges: list[Range], width: int) -> Any:
    inside = np.zeros(pointers.shape, dtype=bool)
    for first, end in ranges:
        if end - first >= width:
            inside |= (pointers >= np.uint64(first)) & (pointers <= np.uint64(end - width))
    return inside


class Copies(Memory):
    """Copies of the tensors' storages on the host; what the kernel wrote goes back when it is done."""

    def __init__(self, to_host: Callable[[Any], Any]) -> None:
        super().__init__(list)  # an address in a tensor is the device's
        self._to_host = to_host
        self._copies: dict[int, tuple[Any, Any]] = {}

    def address(self, tensor: Any) -> int:
        """Where the copy of a tensor's first element is."""
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in self._copies:
            import torch

            whole = tensor.detach().new_empty(0, dtype=torch.uint8).set_(storage)
            self._copies[key] = whole, self._to_host(whole)
        copy = self._copies[key][1]
        self._know(copy.data_ptr(), copy.numel())
        return int(copy.data_ptr() + tensor.storage_offset() * tensor.element_size())

    def finish(self) -> None:
        """Bring the copies back."""
        for whole, copy in self._copies.values():
            whole.copy_(copy)


class Checked:
    """The part of the interpreter that reads and writes memory, with addresses looked at first."""

    def __init__(self, genuine: Any) -> None:
        self._genuine = genuine
        self.memory: Memory | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)

    def _look(self, pointers: Any, mask: Any, width: int) -> None:
        if self.memory is not None:
            self.memory.check(pointers, mask, width)

    def load(self, pointers: Any, mask: Any, other: Any, kind: Any) -> Any:
        """Read elements of a numpy type."""
        self._look(pointers, mask, kind.itemsize)
        return self._genuine.load(pointers, mask, other, kind)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        """Write elements."""
        self._look(pointers, mask, values.dtype.itemsize)
        return self._genuine.store(pointers, values, mask)

    def atomic_cas(self, pointers: Any, compared: Any, values: Any, order: Any) -> Any:
        """Compare and swap."""
        self._look(pointers, None, values.dtype.itemsize)
        return self._genuine.atomic_cas(pointers, compared, values, order)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        """Read, change, write."""
        self._look(pointers, mask, values.dtype.itemsize)
        return self._genuine.atomic_rmw(operation, pointers, values, mask, order)

    @contextlib.contextmanager
    def over(self, interpreter: Any, memory: Memory) -> Any:
        """Stand in for it while a kernel runs over this memory."""
        before = interpreter._interpreter
        self.memory, interpreter._interpreter = memory, self
        try:
            yield
        finally:
            self.memory, interpreter._interpreter = None, before
