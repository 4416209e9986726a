"""Lend the GPU's memory to code of the host: in place where the host reaches it, otherwise as copies."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import torch


class _Lent(NamedTuple):
    """A storage's bytes: those of the GPU, and those that the host uses."""

    whole: torch.Tensor
    host: torch.Tensor
    is_copy: bool


class Loan:
    """The memory of the tensors that one call of host code uses.

    Take all tensors first, then run the code in the loan's context::

        address = loan.address(tensor)
        with loan:
            code(address)

    Entering waits for the GPU if it lends its own memory; leaving copies back what the code was given as copies.
    Tensors that share a storage share it on the host.
    """

    def __init__(
        self, find_alias: Callable[[torch.UntypedStorage], torch.UntypedStorage | None], wait: Callable[[], None]
    ) -> None:
        """`find_alias` returns a CPU storage over the same memory, or ``None`` if the host does not reach it."""
        self._find_alias, self._wait = find_alias, wait
        self._lent: dict[int, _Lent] = {}
        self._written: set[int] = set()

    def _lend(self, tensor: torch.Tensor, is_written: bool) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if is_written:
            self._written.add(key)
        if key not in self._lent:
            whole = _bytes_of(storage, tensor.device)
            alias = self._find_alias(storage)
            # `torch.Tensor.cpu` may be redirected.
            host = torch._C.TensorBase.cpu(whole) if alias is None else _bytes_of(alias, torch.device("cpu"))
            self._lent[key] = _Lent(whole, host, alias is None)
        return self._lent[key].host

    def tensor(self, tensor: torch.Tensor, *, is_written: bool = True) -> torch.Tensor:
        """Return a CPU tensor over the memory that the host uses for this tensor."""
        lent, size = self._lend(tensor, is_written), tensor.element_size()
        elements: Any = lent[: lent.numel() // size * size].view(tensor.dtype)
        host: torch.Tensor = elements.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        return host

    def address(self, tensor: torch.Tensor) -> int:
        """Return the host's address of a tensor's first element."""
        return int(self._lend(tensor, True).data_ptr() + tensor.storage_offset() * tensor.element_size())

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first address and the size of all memory that is lent."""
        return [(lent.host.data_ptr(), lent.host.numel()) for lent in self._lent.values() if lent.host.numel()]

    def __enter__(self) -> Loan:
        if any(not lent.is_copy for lent in self._lent.values()):
            self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A GPU's memory has what a kernel wrote before it failed, too.
        for key, lent in self._lent.items():
            if lent.is_copy and key in self._written:
                lent.whole.copy_(lent.host)


def _bytes_of(storage: torch.UntypedStorage, device: torch.device) -> torch.Tensor:
    # By the operator, as requests for the CPU may be redirected.
    empty = torch.ops.aten.empty.memory_format([0], dtype=torch.uint8, device=device)
    whole: torch.Tensor = torch.ops.aten.set_.source_Storage(empty, storage)
    return whole
