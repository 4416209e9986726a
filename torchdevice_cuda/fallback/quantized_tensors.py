"""Quantised tensors of a GPU whose backend has none: they stay on the host, under the GPU's name.

No release of torch makes one on MPS, and none can be taught to: its dispatch key for them takes no kernels. Where torch
refuses to make one, a tensor of the CPU is put into one of ours, whose operators are ``quantized``'s.

C++ may never make one of ours by itself: torch's code would look for a quantizer in it, where it has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch.utils._pytree import tree_leaves

from .assigning import Assigned

if TYPE_CHECKING:
    from .operators import Operator

Kernel = Callable[..., Any]
_aten = torch.ops.aten
_CPU = torch.device("cpu")


class Home(Protocol):
    """The device that quantised tensors say they are on, and what computes for it."""

    device: torch.device

    def kernel(self, op: Operator, /) -> Kernel:
        """What computes an operator of quantised tensors."""


#: By the type of the device.
homes: dict[str, Home] = {}


def place(value: torch.Tensor, device: torch.device, error: Exception) -> torch.Tensor:
    """A quantised tensor of the CPU on a device that refused it; with ``error``, where that is not for the dtype."""
    home = homes.get(device.type)
    if home is None or not value.is_quantized:
        raise error
    return QuantizedTensor(value, home)


class QuantizedTensor(Assigned):
    """A quantised tensor on the GPU, as far as its operators can tell."""

    _held = ("_host", "_home")
    _host: torch.Tensor
    _home: Home

    # Functions of torch take it as they take any tensor; only operators are its own.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # a classmethod elsewhere

    @staticmethod
    def __new__(cls, host: torch.Tensor, home: Home) -> QuantizedTensor:
        """Of one on the CPU, which it shares its memory with."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            dtype=host.dtype,
            device=home.device,
            dispatch_sizes_strides_policy="sizes",
        )
        made._host, made._home = host, home
        return made

    # mypy takes the keywords of special methods for nameless.
    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        # torch shows the name of a class that is not its own.
        shown: str = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        return shown.replace(f"{type(self).__name__}(", "tensor(", 1)

    def data_ptr(self) -> int:
        """An address, as any tensor has one; of the host's memory."""
        return self._host.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """The host's."""
        return self._host.untyped_storage()

    def __deepcopy__(self, memo: Any) -> QuantizedTensor:
        return cast("QuantizedTensor", memo.setdefault(id(self), self.clone()))

    def __reduce_ex__(self, protocol: Any) -> Any:
        # What is saved is the CPU's: it can be read where nobody knows of this class.
        return self._host.__reduce_ex__(protocol)

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


def _asked(func: Operator) -> Kernel:
    """What the tensor of the CPU answers about itself."""
    return lambda self, *args: func(self._host, *args)


def _moved(self: QuantizedTensor, **kwargs: Any) -> torch.Tensor:
    """A copy, here or on another device."""
    asked = kwargs.pop("device", None)
    stays = asked is None or asked.type == self._home.device.type
    made: torch.Tensor = _aten._to_copy(self._host, device=_CPU if stays else asked, **kwargs)
    return QuantizedTensor(made, self._home) if stays else made


def _empty(size: Any, like: QuantizedTensor, **kwargs: Any) -> torch.Tensor:
    """One that nothing was written to; the CPU's where no device is named, as on CUDA."""
    asked = kwargs.pop("device", None)
    made: torch.Tensor = _aten.empty_quantized(size, like._host, device=_CPU, **kwargs)
    return made if asked is None else made.to(asked)


@functools.cache
def _own() -> dict[Operator, Kernel]:
    """Operators that are about the tensor and not its elements."""
    asked = (
        "size sym_size stride sym_stride numel sym_numel storage_offset sym_storage_offset dim is_contiguous "
        "is_non_overlapping_and_dense is_strides_like_format qscheme q_scale q_zero_point q_per_channel_axis"
    ).split()
    own: dict[Operator, Kernel] = {}
    for packet in (getattr(_aten, name, None) for name in asked):
        for name in packet.overloads() if packet is not None else ():
            if name in ("default", "memory_format"):
                own[getattr(packet, name)] = _asked(getattr(packet, name))
    own[_aten.detach.default] = own[_aten.alias.default] = lambda self: QuantizedTensor(self._host, self._home)
    own[_aten._to_copy.default] = _moved
    own[_aten.empty_quantized.default] = _empty
    return own
