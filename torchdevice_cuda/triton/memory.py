"""The memory that a kernel works on: the device's own where that is the host's, else a copy that goes back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

#: The first address, and the size in bytes.
Range = tuple[int, int]


def of_living_tensors() -> list[Range]:
    """Return the memory of every tensor of the host that Python knows: needed where a kernel leaves its arguments."""
    import torch

    found = set()
    for candidate in gc.get_objects():
        if issubclass(type(candidate), torch.Tensor) and type(candidate).__name__ in ("Tensor", "Parameter"):
            try:
                storage = candidate.untyped_storage()
                found.add((storage.data_ptr(), storage.nbytes()))
            except (NotImplementedError, RuntimeError):  # it has none that can be looked at
                continue
    return [(first, size) for first, size in found if first]


class Memory:
    """Addresses of the tensors of one launch, and of all memory that the GPU could use by now."""

    def __init__(self, list_accessible: Callable[[], list[Range]]) -> None:
        self._ranges: list[Range] = []
        self.list_accessible = list_accessible

    def address(self, tensor: Any) -> int:
        """Where the kernel finds a tensor's first element."""
        storage = tensor.untyped_storage()
        self._know(storage.data_ptr(), storage.nbytes())
        return int(tensor.data_ptr())

    def _know(self, first: int, size: int) -> None:
        if size:
            self._ranges.append((first, size))

    def ranges(self) -> list[Range]:
        """Return the memory that the kernel was given."""
        return list(dict.fromkeys(self._ranges))

    def finish(self) -> None:
        """The kernel is done."""


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
