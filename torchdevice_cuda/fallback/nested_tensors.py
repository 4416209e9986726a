"""Nested tensors of layout ``torch.strided`` on a GPU whose backend has none.

No release of torch makes one on MPS. One of ours takes its place: its elements lie in an ordinary tensor on the GPU, of
which ``unbind`` and the like give views; its operators compute on the CPU and come back. Those of layout
``torch.jagged`` are torch's own, written in Python, and are never seen here.

torch's C++ takes what is nested for an object of its own, unless its layout is ``torch.jagged``: that is left to
Python. So ours say that they are, to C++ alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import torch
from torch.utils._pytree import tree_leaves

from .assigning import Assigned

if TYPE_CHECKING:
    from .operators import Operator

_aten = torch.ops.aten
_base = torch._C.TensorBase
_CPU = torch.device("cpu")
Kernel = Callable[..., Any]
#: torch's words where something is made of the sizes of irregular dimensions.
NO_SIZES = "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
#: What tells the sizes of irregular dimensions from those of torch's own nested tensors, which are counted.
_OURS = 1 << 61


class Members(NamedTuple):
    """What a nested tensor consists of: all elements of its storage, on the GPU, and where in them each part is."""

    elements: torch.Tensor
    sizes: torch.Tensor
    strides: torch.Tensor
    offsets: torch.Tensor


def places_of(nested: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sizes, strides and offsets of the parts of a nested tensor."""
    return nested._nested_tensor_size(), nested._nested_tensor_strides(), nested._nested_tensor_storage_offsets()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of a tensor's storage, in one dimension."""
    made = torch._C._VariableFunctions.empty(0, dtype=tensor.dtype, device=_device(tensor))
    return made.set_(_base.untyped_storage(tensor))


# The program sees another device where this one looks at its own.
_device: Callable[[torch.Tensor], torch.device] = vars(_base)["device"].__get__


def on_host(elements: torch.Tensor, *places: torch.Tensor) -> torch.Tensor:
    """A nested tensor of the CPU."""
    if places[0].dim():
        return cast("torch.Tensor", _aten._nested_view_from_buffer(elements, *places))
    return cast("torch.Tensor", _aten._nested_tensor_from_tensor_list([], dtype=elements.dtype, device=_CPU))


class Home(Protocol):
    """The GPU that nested tensors are on, and what computes with them there."""

    device: torch.device

    def kernel(self, op: Operator, /) -> Kernel:
        """What computes an operator of nested tensors."""

    def made(self, host: torch.Tensor) -> StridedNestedTensor:
        """A nested tensor of the CPU, on the GPU."""

    def view(self, elements: torch.Tensor, *places: torch.Tensor) -> StridedNestedTensor:
        """A nested tensor whose elements are those of another on the GPU."""


class StridedNestedTensor(Assigned):
    """A nested tensor on the GPU, as far as its operators can tell."""

    _held = ("_members", "_home")
    _members: Members
    _home: Home

    @staticmethod
    def __new__(cls, members: Members, home: Home) -> StridedNestedTensor:
        """Of elements on the GPU, which it shares its memory with."""
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensor)
        zeros = (0,) * (_dim(members) or 1)
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            zeros,
            strides=zeros,
            dtype=members.elements.dtype,
            layout=torch.jagged,
            device=home.device,
            dispatch_sizes_strides_policy="sizes",
            dispatch_layout=True,
            _extra_dispatch_keys=keys.add(torch._C.DispatchKey.AutogradNestedTensor),
        )
        made._members, made._home = members, home
        return made

    @property
    def layout(self) -> torch.layout:  # type: ignore[override]
        """What the program asked for."""
        return torch.strided

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """There is none, as the error says."""
        return self.size()

    def size(self, dim: int | None = None) -> Any:
        """The size of a dimension that has one."""
        return self._shell().size() if dim is None else self._shell().size(dim)

    def stride(self, dim: int | None = None) -> Any:
        """There is none, as the error says."""
        return self._shell().stride() if dim is None else self._shell().stride(dim)

    def data_ptr(self) -> int:
        """Where the elements are."""
        return self._members.elements.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """That of the elements."""
        return self._members.elements.untyped_storage()

    # mypy takes the keywords of special methods for nameless.
    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        shown: str = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        return shown

    def __reduce_ex__(self, protocol: Any) -> Any:
        # What is saved is what any nested tensor saves: it can be read where torch makes them itself.
        return self._reduce_ex_internal(protocol)  # type: ignore[no-untyped-call]  # torch's, in a class of ours

    def __deepcopy__(self, memo: Any) -> StridedNestedTensor:
        made = self.detach().clone().requires_grad_(self.requires_grad)
        return cast("StridedNestedTensor", memo.setdefault(id(self), made))

    def _shell(self) -> torch.Tensor:
        """A nested tensor of the CPU of the same sizes, which knows what to say of them; its elements are anything."""
        elements = torch._C._VariableFunctions.empty(self._members.elements.shape, dtype=self.dtype, device=_CPU)
        return on_host(elements, *self._members[1:])

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Functions of torch take it as they take any tensor, but for those whose C++ goes its own way.
        with torch._C.DisableTorchFunctionSubclass():
            function: Kernel = _FUNCTIONS.get(getattr(func, "__name__", ""), _as_any)
            return function(func, *args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own is no classmethod
        cls, func: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        own = _own().get(func)
        if own is not None:
            return own(*args, **kwargs)
        one = next(value for value in tree_leaves((args, kwargs)) if isinstance(value, cls))
        return one._home.kernel(func)(*args, **kwargs)


def _dim(members: Members) -> int:
    return members.sizes.shape[1] + 1 if members.sizes.dim() else 1


#: By the type of the device.
homes: dict[str, Home] = {}


def moved(value: torch.Tensor, device: torch.device, error: Exception) -> torch.Tensor:
    """A nested tensor of the CPU on a device that refused it, with its history; else ``error``."""
    home = homes.get(device.type)
    if home is None or not value.is_nested or value.layout is not torch.strided:
        raise error
    parts = [_base.to(part, device) for part in value.unbind()]
    if not parts:
        return home.made(value.detach())
    return torch._C._VariableFunctions._nested_tensor_from_tensor_list(parts)


# ------------------------------------------------------------------------------ functions
def _as_any(func: Kernel, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _attention(
    func: Kernel,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """As C++ computes it of others: the kernel that it chooses by the device knows no nested tensors."""
    given = [value.contiguous() if value.is_nested else value for value in (query, key, value)]
    math: Kernel = torch._C._VariableFunctions._scaled_dot_product_attention_math
    return math(*given, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]


def _moved_with_history(func: Kernel, self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """A move to the CPU, part by part where a gradient is to come back: of the whole, C++ would move it."""
    made: torch.Tensor = func(self, *args, **kwargs)
    if isinstance(made, StridedNestedTensor) or not made.requires_grad:
        return made
    parts = [func(part, *args, **kwargs) for part in self.unbind()]
    return torch._C._VariableFunctions._nested_tensor_from_tensor_list(parts)


_FUNCTIONS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "to": _moved_with_history,
    "cpu": _moved_with_history,
}


# ------------------------------------------------------------------------------ operators
def _sizes(self: StridedNestedTensor) -> tuple[Any, ...]:
    """What C++ compares to know whether a gradient fits; the program never sees it.

    The size of an irregular dimension is a symbol, the same for the same sizes, with which nothing can be computed.
    """
    sizes = self._members.sizes
    if not sizes.dim():
        return (0,)
    return (sizes.shape[0], *map(_common, sizes.t().tolist()))


def _common(sizes: list[int]) -> Any:
    """The size that all parts have in a dimension, else a symbol."""
    if sizes.count(sizes[0]) == len(sizes):
        return sizes[0]
    return torch._C._get_nested_int(_OURS + hash(tuple(sizes)) % _OURS, 1)


def _numel(self: StridedNestedTensor) -> int:
    sizes = self._members.sizes
    return int(sizes.prod(1).sum()) if sizes.dim() else 0


def _is_contiguous(self: StridedNestedTensor, *format: Any) -> bool:
    return self._shell().is_contiguous()


def _again(self: StridedNestedTensor) -> StridedNestedTensor:
    """Another tensor of the same members."""
    return StridedNestedTensor(self._members, self._home)


def _moved(self: StridedNestedTensor, **kwargs: Any) -> torch.Tensor:
    """A copy of another dtype, or on another device; of one piece, as on CUDA."""
    if not self.is_contiguous():
        raise RuntimeError("NestedTensor must be contiguous to get buffer.")
    elements, *places = self._members
    device = kwargs.get("device") or self._home.device
    copied = _base.to(elements, device, kwargs.get("dtype") or self.dtype, copy=True)
    if device.type == self._home.device.type:
        return self._home.view(copied, *places)
    return on_host(copied, *places)


def _dropout(self: StridedNestedTensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each element by itself: the GPU's numbers are drawn on the GPU."""
    elements, *places = self._members
    made = cast("tuple[torch.Tensor, torch.Tensor]", _aten.native_dropout(elements, p, train))
    return self._home.view(made[0], *places), self._home.view(made[1], *places)


def _from_padded(
    padded: torch.Tensor, offsets: torch.Tensor, dummy: StridedNestedTensor, *rest: Any, **kwargs: Any
) -> Any:
    """The gradient of ``to_padded_tensor``, as C++ asks for it of those that it leaves to Python."""
    return _aten._nested_from_padded(padded, dummy._members.sizes)


@functools.cache
def _own() -> dict[Operator, Kernel]:
    """Operators that need no computing, and those that are about the tensor and not its elements."""
    own: dict[str, Kernel] = {
        "sym_size": _sizes,
        "size": lambda self: self.size(),
        "sym_stride": lambda self: (0,) * _dim(self._members),
        "stride": lambda self: self.stride(),
        "sym_numel": _numel,
        "numel": _numel,
        "sym_storage_offset": lambda self: 0,
        "storage_offset": lambda self: 0,
        "dim": lambda self: _dim(self._members),
        "is_contiguous": _is_contiguous,
        "is_non_overlapping_and_dense": lambda self: False,
        "is_pinned": lambda self, *device: False,
        "detach": _again,
        "alias": _again,
        "_to_copy": _moved,
        "native_dropout": _dropout,
        "_nested_tensor_size": lambda self: self._members.sizes,
        "_nested_tensor_strides": lambda self: self._members.strides,
        "_nested_tensor_storage_offsets": lambda self: self._members.offsets,
        # What C++ asks of those that it leaves to Python, to hand it to ``_nested_from_padded_tensor``.
        "_nested_get_offsets": lambda self: self._members.offsets,
        "_nested_get_jagged_dummy": _again,
        "_nested_get_ragged_idx": lambda self: 1,
        "_nested_get_min_seqlen": lambda self: None,
        "_nested_get_max_seqlen": lambda self: None,
        "_nested_get_values": lambda self: whole(self._members.elements),
        "_nested_from_padded_tensor": _from_padded,
    }
    found: dict[Operator, Kernel] = {}
    for name, kernel in own.items():
        packet = getattr(_aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            if overload in ("default", "memory_format"):
                found[getattr(packet, overload)] = kernel
    found[torch.ops.prim.layout.default] = lambda self: torch.jagged
    return found
