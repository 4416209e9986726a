"""CSR, CSC, BSR and BSC tensors on a GPU whose backend cannot make them.

No release of torch makes one on MPS: it refuses in the operator that every way to make one goes through. Where it does,
one of ours takes its place: its members (indices and values) are ordinary tensors on the GPU, its operators compute on
the CPU and come back. Where torch makes them, ours are never seen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ..drivers.refusals import NO_LAYOUT, refusal
from . import cpu

_aten = torch.ops.aten
_base = torch._C.TensorBase
Kernel = Callable[..., Any]


def indices(layout: torch.layout) -> tuple[Any, Any]:
    """The operators that give the compressed and the plain indices of a tensor."""
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return _aten.crow_indices.default, _aten.col_indices.default
    return _aten.ccol_indices.default, _aten.row_indices.default


class CompressedTensor(torch.Tensor):
    """A compressed sparse tensor on the GPU, as far as its operators can tell."""

    _members: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    _size: tuple[int, ...]
    _layout: torch.layout
    _kernel: Callable[[Any], Kernel]

    # Functions of torch take it as they take any tensor; only operators are its own.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls, members: tuple, size: Any, layout: torch.layout, kernel: Callable[[Any], Kernel]
    ) -> CompressedTensor:
        """Of compressed indices, plain indices and values on the GPU; ``kernel`` gives the kernel of an operator."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            size,
            dtype=members[2].dtype,
            device=_device(members[2]),
            layout=layout,
            dispatch_sizes_strides_policy="sizes",
            dispatch_layout=True,
        )
        made._members, made._size, made._layout, made._kernel = members, tuple(size), layout, kernel
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        # torch shows the name of a class that is not its own.
        shown = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        return shown.replace(f"{type(self).__name__}(", "tensor(", 1)

    def become(self, other: torch.Tensor) -> None:
        """Take the elements of a tensor of this layout on the CPU; members that keep their shape keep their memory."""
        given = (*(operator(other) for operator in indices(self._layout)), other.values())
        members = list(self._members)
        for number, (mine, value) in enumerate(zip(members, given, strict=True)):
            if mine.shape == value.shape:
                cpu.write_back(mine, value)
            else:
                members[number] = cpu.away(value, _device(self))
        self._members, self._size = tuple(members), tuple(other.shape)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # What is saved is what any tensor of the layout saves: it can be read where torch makes them itself.
        return self._reduce_ex_internal(protocol)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        own = _OWN.get(func)
        if own is not None:
            return own(*args, **kwargs)
        if func._can_decompose():
            return func.decompose(*args, **kwargs)
        one = next(value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(value, cls))
        if func in indices(one._layout):
            return one._members[indices(one._layout).index(func)].detach()
        device = _device(one)
        asked = kwargs.get("device")
        if asked is not None and asked.type != device.type:
            return func(*cpu.home(args, device), **{name: cpu.home(value, device) for name, value in kwargs.items()})
        return one._kernel(func)(*args, **kwargs)


# The program sees another device where this one looks at its own.
_device = _base.device.__get__


def _again(self: CompressedTensor) -> CompressedTensor:
    """Another tensor of the same members."""
    return CompressedTensor(self._members, self.shape, self._layout, self._kernel)


def _moved(self: CompressedTensor, **kwargs: Any) -> torch.Tensor:
    """Another dtype, or home to the CPU."""
    device = kwargs.pop("device", None) or _device(self)
    dtype = kwargs.get("dtype") or self.dtype
    compressed, plain, values = self._members
    members = _base.to(compressed, device), _base.to(plain, device), _base.to(values, device, dtype, copy=True)
    return _aten._sparse_compressed_tensor_unsafe(*members, self.shape, dtype=dtype, layout=self._layout, device=device)


def _ask(func: Any) -> Kernel:
    """What a tensor of the CPU answers, or how it refuses to."""
    return lambda self, *args: func(cpu.home(self, _device(self)), *args)


def _own() -> dict[Any, Kernel]:
    """Operators that need no computing, and those that are about the tensor and not its elements."""
    own: dict[Any, Kernel] = {
        torch.ops.prim.layout.default: lambda self: self._layout,
        _aten.detach.default: _again,
        _aten.alias.default: _again,
        _aten.values.default: lambda self: self._members[2].detach(),
        _aten._nnz.default: lambda self: self._members[1].shape[-1],
        _aten._to_copy.default: _moved,
        _aten.dim.default: lambda self: len(self._size),
    }
    asked = {
        "size": lambda self: self._size,
        "numel": lambda self: math.prod(self._size),
        "stride": _ask(_base.stride),
        "storage_offset": _ask(_base.storage_offset),
    }
    for name, function in asked.items():
        own[getattr(_aten, name).default] = own[getattr(_aten, f"sym_{name}").default] = function
    own[_aten.is_non_overlapping_and_dense.default] = lambda self: False
    own[_aten.is_contiguous.default] = own[_aten.is_contiguous.memory_format] = _ask(_base.is_contiguous)
    return own


_OWN = _own()


def register(library: Any, kernel: Callable[[Any], Kernel]) -> None:
    """Have compressed tensors made on the GPU, by torch if it can."""
    make = _aten._sparse_compressed_tensor_unsafe.default
    validate = _aten._validate_sparse_compressed_tensor_args.default
    kernel = functools.cache(kernel)
    composite = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # the key at which a composite is itself
    refused = False

    def made(compressed: Any, plain: Any, values: Any, size: Any, **options: Any) -> torch.Tensor:
        nonlocal refused
        if not refused:
            try:
                return make.redispatch(composite, compressed, plain, values, size, **options)
            except NotImplementedError as error:
                if refusal(error) != NO_LAYOUT:
                    raise
            refused = True
        device = options.get("device") or _device(values)
        members = (compressed.detach(), plain.detach(), _base.to(values.detach(), options.get("dtype") or values.dtype))
        members = tuple(_base.to(member, device) for member in members)
        return CompressedTensor(members, size, options["layout"], kernel)

    def below(*args: Any, **kwargs: Any) -> torch.Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            return make(*args, **kwargs)

    library.impl("_sparse_compressed_tensor_unsafe", made, "SparseCsrMPS")
    library.impl("_sparse_compressed_tensor_unsafe", below, "AutogradMPS")
    library.impl("_validate_sparse_compressed_tensor_args", kernel(validate), "MPS")
