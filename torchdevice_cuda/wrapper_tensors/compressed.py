"""CSR, CSC, BSR and BSC tensors on a GPU whose backend cannot create them.

No release of torch creates one on MPS: the operator through which all of them are created refuses. Then a wrapper
replaces it: its members (indices and values) are ordinary tensors on the GPU, its operators compute on the CPU and move
results back. If torch creates them, the wrappers are never used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from ..fallback import cpu
from ..fallback.refusals import NO_LAYOUT, refusal
from .base import Kernel, WrapperTensor, device_of, with_symbolic

if TYPE_CHECKING:
    from ..fallback.operators import Operator

_aten = torch.ops.aten
_base = torch._C.TensorBase
#: compressed indices, plain indices, values
Members = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def indices(layout: torch.layout) -> tuple[Operator, Operator]:
    """Return the operators that return the compressed and the plain indices of a tensor."""
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return _aten.crow_indices.default, _aten.col_indices.default
    return _aten.ccol_indices.default, _aten.row_indices.default


class CompressedTensor(WrapperTensor):
    """A compressed sparse tensor that is on the GPU as far as its operators can tell."""

    _held = ("_members", "_size", "_layout", "_kernel")
    _members: Members
    _size: tuple[int, ...]
    _layout: torch.layout
    _kernel: Callable[[Operator], Kernel]

    # torch's functions treat it like any tensor; only its operators differ.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # a classmethod elsewhere

    @staticmethod
    def __new__(
        cls, members: Members, size: Sequence[int], layout: torch.layout, kernel: Callable[[Operator], Kernel]
    ) -> CompressedTensor:
        """Create one from compressed indices, plain indices and values on the GPU; ``kernel`` finds kernels."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            size,
            dtype=members[2].dtype,
            device=device_of(members[2]),
            layout=layout,
            dispatch_sizes_strides_policy="sizes",
            dispatch_layout=True,
        )
        made._members, made._size, made._layout, made._kernel = members, tuple(size), layout, kernel
        return made

    def become(self, other: torch.Tensor) -> None:
        """Take the elements of a CPU tensor of this layout; members that keep their shape keep their memory."""
        given = (*(operator(other) for operator in indices(self._layout)), other.values())
        members = list(self._members)
        for number, (mine, value) in enumerate(zip(members, given, strict=True)):
            if mine.shape == value.shape:
                cpu.write_back(mine, value)
            else:
                members[number] = cpu.to_device(value, device_of(self))
        compressed, plain, values = members
        self._members, self._size = (compressed, plain, values), tuple(other.shape)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # It is saved like any tensor of the layout, so that stock torch can read it.
        return self._reduce_ex_internal(protocol)  # type: ignore[no-untyped-call]  # torch's, in a class of ours

    @classmethod
    def _answers(cls) -> dict[str, Kernel]:
        return {
            "prim::layout": lambda self: self._layout,
            "detach": _again,
            "alias": _again,
            "values": lambda self: self._members[2].detach(),
            "_nnz": lambda self: self._members[1].shape[-1],
            "_to_copy": _moved,
            "dim": lambda self: len(self._size),
            **with_symbolic(
                {
                    "size": lambda self: self._size,
                    "numel": lambda self: math.prod(self._size),
                    "stride": _ask(_base.stride),
                    "storage_offset": _ask(_base.storage_offset),
                }
            ),
            "is_non_overlapping_and_dense": lambda self: False,
            "is_contiguous": _ask(_base.is_contiguous),
        }

    def _compute(self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func._can_decompose():
            return func.decompose(*args, **kwargs)
        if func in indices(self._layout):
            return self._members[indices(self._layout).index(func)].detach()
        device = device_of(self)
        asked = kwargs.get("device")
        if asked is not None and asked.type != device.type:
            brought = {name: cpu.to_cpu(value, device) for name, value in kwargs.items()}
            return func(*cpu.to_cpu(args, device), **brought)
        return self._kernel(func)(*args, **kwargs)


def _again(self: CompressedTensor) -> CompressedTensor:
    """Return another tensor with the same members."""
    return CompressedTensor(self._members, self.shape, self._layout, self._kernel)


def _moved(self: CompressedTensor, **kwargs: Any) -> torch.Tensor:
    """Return a copy of another dtype, or on the CPU."""
    device = kwargs.pop("device", None) or device_of(self)
    dtype = kwargs.get("dtype") or self.dtype
    compressed, plain, values = self._members
    members = _base.to(compressed, device), _base.to(plain, device), _base.to(values, device, dtype, copy=True)
    options = {"dtype": dtype, "layout": self._layout, "device": device}
    return cast("torch.Tensor", _aten._sparse_compressed_tensor_unsafe(*members, self.shape, **options))


def _ask(func: Kernel) -> Kernel:
    """Return a kernel that calls the CPU's, with its result or error."""
    return lambda self, *args: func(cpu.to_cpu(self, device_of(self)), *args)


def register(library: torch.library.Library, kernel: Callable[[Operator], Kernel]) -> None:
    """Make compressed tensors work on the GPU, created by torch if it can."""
    make: Operator = _aten._sparse_compressed_tensor_unsafe.default
    validate: Operator = _aten._validate_sparse_compressed_tensor_args.default
    kernel = functools.cache(kernel)
    composite = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # a composite's own key
    refused = False

    def made(
        compressed: torch.Tensor, plain: torch.Tensor, values: torch.Tensor, size: Sequence[int], **options: Any
    ) -> torch.Tensor:
        nonlocal refused
        if not refused:
            try:
                result: torch.Tensor = make.redispatch(composite, compressed, plain, values, size, **options)
                return result
            except NotImplementedError as error:
                if refusal(error) != NO_LAYOUT:
                    raise
            refused = True
        device = options.get("device") or device_of(values)
        compressed, plain, values = compressed.detach(), plain.detach(), values.detach()
        values = _base.to(values, options.get("dtype") or values.dtype)
        members = _base.to(compressed, device), _base.to(plain, device), _base.to(values, device)
        return CompressedTensor(members, size, options["layout"], kernel)

    def below(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return make(*args, **kwargs)

    library.impl("_sparse_compressed_tensor_unsafe", made, "SparseCsrMPS")
    library.impl("_sparse_compressed_tensor_unsafe", below, "AutogradMPS")
    library.impl("_validate_sparse_compressed_tensor_args", kernel(validate), "MPS")
