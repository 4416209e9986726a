"""Reductions that NCCL has and Gloo lacks, in terms of Gloo's: averages, factors, booleans, eight bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import ReduceOp

from . import rules

Finish = Callable[[], None]
_Kind: Any = ReduceOp.RedOpType


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return its elements in the order of memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


def kind_of(op: Any) -> Any:
    """Return the kind of a reduction."""
    return op if isinstance(op, _Kind) else op.__getstate__()[0]


def _factor_of(op: Any) -> Any:
    """Return the factor by which each rank's values are multiplied first, if any."""
    factor = None if isinstance(op, _Kind) else op.__getstate__()[1]
    return factor.item() if isinstance(factor, torch.Tensor) else factor


class Reduction:
    """One reduction of a host tensor, among ``size`` ranks.

    ``apart``: the tensor is not the destination of the result, and must not change.
    """

    def __init__(self, tensor: torch.Tensor, op: Any, size: int, apart: bool = False) -> None:
        kind, factor = kind_of(op), _factor_of(op)
        own = flat(tensor)
        wide = rules.computed(tensor.dtype)
        asked = rules.gloo_kind(kind, tensor.dtype)
        #: Gloo's reduction.
        self.op = ReduceOp(asked)
        #: NCCL's reduction, on which ranks must agree: it does not add booleans, and treats them as bytes.
        self.number = int(kind if kind in (_Kind.AVG, _Kind.PREMUL_SUM) else asked)
        self.dtype = torch.uint8 if tensor.dtype is torch.bool else tensor.dtype
        self._size = size
        # NCCL divides each rank's values, so that a sum of halves does not overflow, and integers afterwards.
        self._divides = kind == _Kind.AVG and not wide.is_floating_point
        if kind == _Kind.AVG and not self._divides:
            factor = 1 / size
        self._own = own.view(wide) if own.dtype is torch.bool else own
        buffer = self._own.to(wide)
        if factor is not None:
            buffer = buffer.mul(factor) if apart else buffer.mul_(factor)
        elif apart and buffer is self._own:
            buffer = buffer.clone()
        #: The buffer that Gloo reads and writes.
        self.buffer = buffer

    def settled(self) -> Finish | None:
        """Return the step that writes the result into the tensor itself."""
        if self.buffer is self._own and not self._divides:
            return None

        def settle() -> None:
            self.copy(self._own, self.buffer)

        return settle

    def copy(self, target: torch.Tensor, result: torch.Tensor) -> None:
        """Copy the result, or a part of it, into a flat host tensor."""
        if self._divides:
            result.div_(self._size, rounding_mode="trunc")
        if target.dtype is torch.bool:
            target = target.view(torch.uint8)
        if target is not result:
            target.copy_(result)
