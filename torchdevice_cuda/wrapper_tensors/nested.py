"""Nested tensors of layout ``torch.strided`` on a GPU whose backend has none.

No release of torch creates one on MPS. A wrapper replaces it: its elements are in an ordinary tensor on the GPU, of
which ``unbind`` and similar operators return views; its operators compute on the CPU and move results back. Nested
tensors of layout ``torch.jagged`` are torch's own, written in Python, and never come here.

torch's C++ treats a nested tensor as an object of its own class, unless its layout is ``torch.jagged``, which Python
handles. So wrappers report that layout, but only to C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.utils._pytree import tree_leaves

from ..fallback import cpu
from ..fallback.devices import is_stranger, mixed, two_devices
from ..fallback.operators import overload
from .base import CPU, Home, Kernel, WrapperTensor, device_of

if TYPE_CHECKING:
    from ..fallback.operators import Operator

_aten = torch.ops.aten
_base = torch._C.TensorBase
#: torch's message if something is created from the sizes of irregular dimensions.
NO_SIZES = "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
#: Distinguishes the sizes of irregular dimensions from those of torch's own nested tensors, which are numbered.
_OURS = 1 << 61


class Members(NamedTuple):
    """The contents of a nested tensor: all elements of its storage, on the GPU, and the position of each part."""

    elements: torch.Tensor
    sizes: torch.Tensor
    strides: torch.Tensor
    offsets: torch.Tensor


def places_of(nested: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sizes, strides and offsets of the parts of a nested tensor."""
    return nested._nested_tensor_size(), nested._nested_tensor_strides(), nested._nested_tensor_storage_offsets()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all elements of a tensor's storage, in one dimension."""
    made = torch._C._VariableFunctions.empty(0, dtype=tensor.dtype, device=device_of(tensor))
    return made.set_(_base.untyped_storage(tensor))


def on_host(elements: torch.Tensor, *places: torch.Tensor) -> torch.Tensor:
    """Return a nested tensor on the CPU."""
    if places[0].dim():
        return cast("torch.Tensor", _aten._nested_view_from_buffer(elements, *places))
    return cast("torch.Tensor", _aten._nested_tensor_from_tensor_list([], dtype=elements.dtype, device=CPU))


class StridedNestedTensor(WrapperTensor):
    """A nested tensor that is on the GPU as far as its operators can tell."""

    _held = ("_members", "_home")
    _members: Members
    _home: NestedHome

    @staticmethod
    def __new__(cls, members: Members, home: NestedHome) -> StridedNestedTensor:
        """Create one from elements on the GPU, with which it shares its memory."""
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
        """Return the layout that the program requested."""
        return torch.strided

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Raise torch's error: it has no shape."""
        return self.size()

    def size(self, dim: int | None = None) -> Any:
        """Return the size of a dimension that has one."""
        return self._shell().size() if dim is None else self._shell().size(dim)

    def stride(self, dim: int | None = None) -> Any:
        """Raise torch's error: it has no strides."""
        return self._shell().stride() if dim is None else self._shell().stride(dim)

    def data_ptr(self) -> int:
        """Return the address of the elements."""
        return self._members.elements.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return the storage of the elements."""
        return self._members.elements.untyped_storage()

    # mypy treats keywords of special methods as positional only.
    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        shown: str = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        return shown

    def __reduce_ex__(self, protocol: Any) -> Any:
        # It is saved like any nested tensor, so that stock torch can read it.
        return self._reduce_ex_internal(protocol)  # type: ignore[no-untyped-call]  # torch's, in a class of ours

    def __deepcopy__(self, memo: Any) -> StridedNestedTensor:
        made = self.detach().clone().requires_grad_(self.requires_grad)
        return cast("StridedNestedTensor", memo.setdefault(id(self), made))

    def _shell(self) -> torch.Tensor:
        """Return a nested CPU tensor of the same sizes, for queries about them; its elements are unset."""
        elements = torch._C._VariableFunctions.empty(self._members.elements.shape, dtype=self.dtype, device=CPU)
        return on_host(elements, *self._members[1:])

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # torch's functions treat it like any tensor, except for those whose C++ differs.
        with torch._C.DisableTorchFunctionSubclass():
            function: Kernel = _FUNCTIONS.get(getattr(func, "__name__", ""), _as_any)
            return function(func, *args, **(kwargs or {}))

    @classmethod
    def _answers(cls) -> dict[str, Kernel]:
        return {
            "prim::layout": lambda self: torch.jagged,
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
            # C++ queries this, to pass it to ``_nested_from_padded_tensor``.
            "_nested_get_offsets": lambda self: self._members.offsets,
            "_nested_get_jagged_dummy": _again,
            "_nested_get_ragged_idx": lambda self: 1,
            "_nested_get_min_seqlen": lambda self: None,
            "_nested_get_max_seqlen": lambda self: None,
            "_nested_get_values": lambda self: whole(self._members.elements),
            "_nested_from_padded_tensor": _from_padded,
        }


def _dim(members: Members) -> int:
    return members.sizes.shape[1] + 1 if members.sizes.dim() else 1


#: By device type.
homes: dict[str, NestedHome] = {}


def moved(value: torch.Tensor, device: torch.device, error: Exception) -> torch.Tensor:
    """Return a nested CPU tensor on a device that refused it, with its autograd history; otherwise raise ``error``."""
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
    """Compute attention with the math kernel: the kernel that C++ chooses for the device supports no nested tensors."""
    given = [value.contiguous() if value.is_nested else value for value in (query, key, value)]
    math: Kernel = torch._C._VariableFunctions._scaled_dot_product_attention_math
    return math(*given, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]


def _moved_with_history(func: Kernel, self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Move to the CPU part by part if a gradient is needed: C++ would move that of the whole."""
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
    """Return the sizes that C++ compares to check a gradient; the program never sees them.

    The size of an irregular dimension is a symbol, equal for equal sizes, with which nothing can be computed.
    """
    sizes = self._members.sizes
    if not sizes.dim():
        return (0,)
    return (sizes.shape[0], *map(_common, sizes.t().tolist()))


def _common(sizes: list[int]) -> Any:
    """Return the size that all parts have in a dimension, or else a symbol."""
    if sizes.count(sizes[0]) == len(sizes):
        return sizes[0]
    return torch._C._get_nested_int(_OURS + hash(tuple(sizes)) % _OURS, 1)


def _numel(self: StridedNestedTensor) -> int:
    sizes = self._members.sizes
    return int(sizes.prod(1).sum()) if sizes.dim() else 0


def _is_contiguous(self: StridedNestedTensor, *format: Any) -> bool:
    return self._shell().is_contiguous()


def _again(self: StridedNestedTensor) -> StridedNestedTensor:
    """Return another tensor with the same members."""
    return StridedNestedTensor(self._members, self._home)


def _moved(self: StridedNestedTensor, **kwargs: Any) -> torch.Tensor:
    """Return a copy in another dtype, or on another device; it must be contiguous, as on CUDA."""
    if not self.is_contiguous():
        raise RuntimeError("NestedTensor must be contiguous to get buffer.")
    elements, *places = self._members
    device = kwargs.get("device") or self._home.device
    copied = _base.to(elements, device, kwargs.get("dtype") or self.dtype, copy=True)
    if device.type == self._home.device.type:
        return self._home.view(copied, *places)
    return on_host(copied, *places)


def _dropout(self: StridedNestedTensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Drop each element independently: the GPU's numbers are drawn on the GPU."""
    elements, *places = self._members
    made = cast("tuple[torch.Tensor, torch.Tensor]", _aten.native_dropout(elements, p, train))
    return self._home.view(made[0], *places), self._home.view(made[1], *places)


def _from_padded(
    padded: torch.Tensor, offsets: torch.Tensor, dummy: StridedNestedTensor, *rest: Any, **kwargs: Any
) -> Any:
    """Return the gradient of ``to_padded_tensor``, in the form that C++ requests from Python classes."""
    return _aten._nested_from_padded(padded, dummy._members.sizes)


# -------------------------------------------------------------------------------- computing
#: Operators that create nested tensors from others.
MAKING = (
    "_nested_tensor_from_tensor_list",
    "_nested_view_from_buffer",
    "_nested_from_padded",
    "_nested_tensor_from_mask",
)
#: Operators on nested tensors that the CPU has and CUDA lacks.
_NOT_CUDAS = frozenset({"aten::sum.dim_IntList", "aten::_nested_sum_backward"})
#: Operators that take several devices on purpose.
_BETWEEN = frozenset({"aten::copy_"})
#: Operators whose gradient formula treats the tensor as a C++ object.
_UNSOUND_BACKWARD = frozenset({"aten::split_with_sizes"})


class NestedHome(Home):
    """The GPU that nested tensors report."""

    reason = "the GPU's backend has no nested tensors"
    backends = "'NestedTensorCPU'", "'NestedTensorCUDA'"

    def visit(self) -> _Visit:
        """Begin a call."""
        return _Visit(self)

    def made(self, host: torch.Tensor) -> StridedNestedTensor:
        """Return a nested CPU tensor on the GPU."""
        return StridedNestedTensor(Members(_base.to(whole(host), self.device), *places_of(host)), self)

    def view(self, elements: torch.Tensor, *places: torch.Tensor) -> StridedNestedTensor:
        """Return a nested tensor that shares the elements of another on the GPU."""
        return StridedNestedTensor(Members(whole(elements), *places), self)

    def check(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse what CUDA refuses, and what torch can only do with its own class."""
        if op.name() not in _BETWEEN and any(map(is_stranger, (*args, *kwargs.values()))):
            error = mixed(op, args, kwargs)
            words = two_devices(self.device, CPU) if error is None else str(error)
            raise self.translated(RuntimeError(words.replace("wrapper_CUDA_", "wrapper_NestedTensorCUDA_")))
        nested = [value for value in tree_leaves((args, kwargs)) if isinstance(value, StridedNestedTensor)]
        if op.name() in _NOT_CUDAS and not any(map(self.believed_cpu, nested)):
            # The dispatcher raises that CUDA has no kernel before it checks arguments.
            cudas = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("NestedTensorCUDA"))
            op.redispatch(cudas, *args, **kwargs)
        if op.name() in _UNSOUND_BACKWARD and torch.is_grad_enabled() and any(one.requires_grad for one in nested):
            raise NotImplementedError(
                f"{op.name()} of a nested tensor that requires a gradient is not possible with layout=torch.strided on "
                "this GPU; with layout=torch.jagged, and on the CPU, it is"
            )


class _Visit:
    """One call's transfer to the CPU: tensors that share GPU memory share it there, and a view returns as one."""

    def __init__(self, home: NestedHome) -> None:
        self._home = home
        self._hosts: dict[int, torch.Tensor] = {}
        self._origins: dict[int, torch.Tensor] = {}

    def bring(self, value: Any) -> Any:
        """Return an argument for the CPU."""
        if isinstance(value, StridedNestedTensor):
            elements, *places = value._members
            host = self._hosts.get(elements.data_ptr())
            if host is None:
                host = self._hosts[elements.data_ptr()] = _base.to(elements, CPU)
                self._origins[host.data_ptr()] = elements
            return on_host(host, *places)
        if isinstance(value, (list, tuple)):
            return [self.bring(item) for item in value]
        if isinstance(value, torch.SymInt):
            if value.node.nested_int_coeff() != 1:
                raise RuntimeError(NO_SIZES)
            return -1  # an irregular dimension, which a view keeps
        return cpu.to_cpu(value, self._home.device)

    def place(self, value: Any) -> Any:
        """Return a result for the program."""
        if isinstance(value, (list, tuple)):
            items = [self.place(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if not isinstance(value, torch.Tensor):
            return value
        address = value.untyped_storage().data_ptr()
        origin = self._origins.get(address) if address else None
        if value.is_nested:
            return self._home.made(value) if origin is None else self._home.view(origin, *places_of(value))
        if origin is None:
            return cpu.to_device(value, self._home.device)
        return _base.as_strided(origin, value.shape, value.stride(), value.storage_offset())

    def write_back(self, target: Any, source: Any) -> None:
        """Copy outputs from the CPU back."""
        if isinstance(target, StridedNestedTensor):
            _base.copy_(target._members.elements, whole(source))
            target._members = Members(target._members.elements, *places_of(source))
        elif target is not None:
            cpu.write_back(target, source)


def _empty(like: torch.Tensor) -> torch.Tensor:
    """Return an uninitialized tensor of the same shape on the CPU."""
    return torch._C._VariableFunctions.empty(like.shape, dtype=like.dtype, device=CPU)


def _joined(home: NestedHome, parts: Sequence[torch.Tensor], options: dict[str, Any]) -> torch.Tensor:
    """Return a nested tensor of others, which stay on the GPU; the CPU checks whether they fit together."""
    home.check(_aten._nested_tensor_from_tensor_list.default, (parts,), {})
    asked = options.pop("device", None) or home.device
    shell: torch.Tensor = _aten._nested_tensor_from_tensor_list([_empty(part) for part in parts], **options)
    elements = torch._C._VariableFunctions.cat([part.reshape(-1) for part in parts]).to(asked, shell.dtype)
    if asked.type != home.device.type:
        return on_host(elements, *places_of(shell))
    return home.view(elements, *places_of(shell))


def register(library: torch.library.Library, home: NestedHome) -> None:
    """Make nested tensors work on the GPU."""
    homes[home.device.type] = home

    def of_list(parts: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        return _joined(
            home, parts, dict(zip(("dtype", "layout", "device", "pin_memory"), args, strict=False), **kwargs)
        )

    def of_buffer(elements: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        places = [cpu.to_cpu(place, home.device) for place in given]  # loaded ones may be on the GPU
        on_host(_empty(elements), *places)  # checks whether they fit
        return home.view(elements, *places)

    def computed(name: str) -> Kernel:
        op = overload(name)

        def compute(*args: Any, **kwargs: Any) -> torch.Tensor:
            home.left(op.name(), "CPU", home.reason)
            given = {key: cpu.to_cpu(value, home.device) for key, value in kwargs.items()}
            return home.made(op(*cpu.to_cpu(args, home.device), **given))

        return compute

    kernels = (of_list, of_buffer, *map(computed, MAKING[2:]))
    for name, kernel in zip(MAKING, kernels, strict=True):
        library.impl(name, kernel, "MPS")
