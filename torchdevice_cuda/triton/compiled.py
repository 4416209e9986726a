"""Kernels of the program inside graphs that ``torch.compile`` makes: one call of an operator of ours each.

Inductor would write code for Triton around them. Here its C++ code calls the operator, which launches the kernel as
the program itself would have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from .modes import trusted

_NAMESPACE, _OPERATOR = "torchdevice_cuda", "launch_triton"
_SCHEMA = f"{_OPERATOR}(Tensor(a!)[] tensors, SymInt[] numbers, int which) -> ()"
#: A graph's tensors are the device's, or aliases of them on the host.
_KEYS = ("CPU", "CUDA", "MPS")


@dataclasses.dataclass(frozen=True)
class _Slot:
    """Where a launch has a tensor, or a number that is known when the graph runs."""

    index: int
    is_tensor: bool


class Calls:
    """The launches of the graphs that were compiled, by number, and the operator that makes them."""

    def __init__(self) -> None:
        self._launches: list[dict[str, Any]] = []
        self._library = torch.library.Library(_NAMESPACE, "FRAGMENT")
        self._library.define(_SCHEMA)
        for key in _KEYS:
            self._library.impl(_OPERATOR, self._launch, key)
        self._library.impl(_OPERATOR, lambda tensors, numbers, which: None, "Meta")

    def forget(self) -> None:
        """Take the operator away, and what TorchScript was told of it when it was looked up."""
        known = torch.jit._builtins._get_builtin_table()
        for number in [number for number, name in known.items() if name == f"{_NAMESPACE}::{_OPERATOR}"]:
            del known[number]
        self._library._destroy()

    def _launch(self, tensors: list[torch.Tensor], numbers: list[int], which: int) -> None:
        from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation_dense as launch

        def filled(value: Any) -> Any:
            return (tensors if value.is_tensor else numbers)[value.index] if isinstance(value, _Slot) else value

        with trusted():
            launch(**pytree.tree_map(filled, self._launches[which]))

    def lowering(self, is_tensor: Callable[[Any], bool], is_number: Callable[[Any], bool]) -> Callable[..., Any]:
        """How inductor lowers a kernel of the program."""
        from torch._inductor import ir

        operator = getattr(getattr(torch.ops, _NAMESPACE), _OPERATOR).default

        def triton_kernel_wrap_(**launch: Any) -> dict[str, Any]:
            tensors: list[Any] = []
            numbers: list[Any] = []

            def slot(value: Any) -> Any:
                if not is_tensor(value) and not is_number(value):
                    return value
                of = tensors if is_tensor(value) else numbers
                of.append(value)
                return _Slot(len(of) - 1, is_tensor(value))

            self._launches.append(pytree.tree_map(slot, launch))
            ir.FallbackKernel.create(operator, tensors, numbers, len(self._launches) - 1)
            return {name: value for name, value in launch["kwargs"].items() if is_tensor(value)}

        return triton_kernel_wrap_
