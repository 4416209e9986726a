"""The memory that a kernel works on: the device's own where that is the host's, else what the GPU lends to the host."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..drivers.loans import Loan
    from ..rehearsal.kernels import Counts

#: The first address, and the size in bytes.
Range = tuple[int, int]
#: Kinds of accesses.
READ, WRITE, ATOMIC = "Read", "Write", "Atomic"


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
        #: the addresses of the tensors
        self.pointers: list[int] = []
        #: what the launch does, if the clock is a GPU's and that was counted
        self.counts: Counts | None = None
        self.list_accessible = list_accessible

    def address(self, tensor: Any) -> int:
        """Where the kernel finds a tensor's first element."""
        storage = tensor.untyped_storage()
        self._know(storage.data_ptr(), storage.nbytes())
        self.pointers.append(int(tensor.data_ptr()))
        return self.pointers[-1]

    def _know(self, first: int, size: int) -> None:
        if size:
            self._ranges.append((first, size))

    def ranges(self) -> list[Range]:
        """Return the memory that the kernel was given."""
        return list(dict.fromkeys(self._ranges))

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *error: object) -> None:
        """The kernel is done."""


class Lent(Memory):
    """Memory of tensors that the GPU lends to the host."""

    def __init__(self, loan: Loan) -> None:
        super().__init__(list)  # an address in a tensor is the device's
        self._loan = loan

    def address(self, tensor: Any) -> int:
        """Where the kernel finds a tensor's first element on the host."""
        return self._loan.address(tensor)

    def ranges(self) -> list[Range]:
        """Return the memory that the kernel was given."""
        return self._loan.ranges()

    def __enter__(self) -> Memory:
        self._loan.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """The kernel is done: take the memory back."""
        self._loan.__exit__(*error)
