"""Quantized tensors of a GPU whose backend has none: they stay on the host and report the GPU.

No release of torch creates one on MPS, and none can be extended: its dispatch key for them takes no kernels. If torch
refuses to create one, a CPU tensor is wrapped, and the CPU computes its operators.

C++ must never create a wrapper by itself: torch's code would look for a quantizer in it, which it lacks.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._pytree import tree_leaves

from ..fallback.devices import compares_itself, is_stranger, mixed, rows, two_devices
from ..fallback.operators import overload
from .base import CPU, Home, Kernel, WrapperTensor, answers_of_host

if TYPE_CHECKING:
    from ..fallback.operators import Operator

_aten = torch.ops.aten
#: cuDNN's operators in PyTorch's own quantized library; a build without CUDA has no list of them.
_CUDNN = frozenset(
    f"quantized::{name}"
    for name in (
        "add add_relu linear_prepack linear linear_relu conv1d_prepack conv2d_prepack conv1d conv1d_relu conv2d.new "
        "conv2d_relu.new max_pool2d"
    ).split()
)
#: An operator with one of these keys is composed of others, for all tensors.
_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")


@functools.cache
def _delegates() -> dict[str, str]:
    """Return, for operators that only allocate their result, the name of the operator that computes it."""
    from ..native import op_table

    operators = op_table.read(op_table.yaml_path())
    return {f"aten::{op.full_name}": f"aten::{op.delegate}" for op in operators if op.delegate}


def refusing(op: Operator) -> str | None:
    """Return the operator on quantized tensors for which CUDA has no kernel; ``None`` if it has one."""
    name = op.name()
    if op.namespace == "quantized":
        return None if name in _CUDNN else name
    composite = any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _COMPOSITE)
    if op.namespace != "aten" or composite:
        return None
    row = rows().get(name)
    return None if row is not None and "kCudaQuantizedKernel" in row.flags else _delegates().get(name, name)


def _refuse(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """Make the dispatcher raise that CUDA has no kernel, which it does before it checks arguments."""
    one = next(value for value in tree_leaves((args, kwargs)) if isinstance(value, QuantizedTensor))
    given = dict(zip((argument.name for argument in op._schema.arguments), args, strict=False), **kwargs)
    for argument in op._schema.arguments:
        # An output, or a scalar that the called operator converts to a tensor.
        if str(argument.type) == "Tensor" and not isinstance(given.get(argument.name), torch.Tensor):
            given[argument.name] = one
    return op.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.QuantizedCUDA), **given)


class QuantizedTensor(WrapperTensor):
    """A quantized tensor that is on the GPU as far as its operators can tell."""

    _host: torch.Tensor

    # torch's functions treat it like any tensor; only its operators differ.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # a classmethod elsewhere

    @staticmethod
    def __new__(cls, host: torch.Tensor, home: Home) -> QuantizedTensor:
        """Create one over a CPU tensor, with which it shares its memory."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            dtype=host.dtype,
            device=home.device,
            dispatch_sizes_strides_policy="sizes",
        )
        made._host, made._home = host, home
        return made

    def data_ptr(self) -> int:
        """Return the address of the host's memory, as any tensor has an address."""
        return self._host.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return the host's storage."""
        return self._host.untyped_storage()

    def __deepcopy__(self, memo: Any) -> QuantizedTensor:
        return cast("QuantizedTensor", memo.setdefault(id(self), self.clone()))

    def __reduce_ex__(self, protocol: Any) -> Any:
        # It is saved as a CPU tensor, so that stock torch can read it.
        return self._host.__reduce_ex__(protocol)

    @classmethod
    def _answers(cls) -> dict[str, Kernel]:
        return {
            **answers_of_host("qscheme", "q_scale", "q_zero_point", "q_per_channel_axis"),
            **dict.fromkeys(("detach", "alias"), lambda self: cls(self._host, self._home)),
            "_to_copy": _moved,
            "empty_quantized": _empty,
        }


def _moved(self: QuantizedTensor, **kwargs: Any) -> torch.Tensor:
    """Return a copy, here or on another device."""
    asked = kwargs.pop("device", None)
    stays = asked is None or asked.type == self._home.device.type
    made: torch.Tensor = _aten._to_copy(self._host, device=CPU if stays else asked, **kwargs)
    return QuantizedTensor(made, self._home) if stays else made


def _empty(size: Any, like: QuantizedTensor, **kwargs: Any) -> torch.Tensor:
    """Return an uninitialized tensor; on the CPU if no device is named, as on CUDA."""
    asked = kwargs.pop("device", None)
    made: torch.Tensor = _aten.empty_quantized(size, like._host, device=CPU, **kwargs)
    return made if asked is None else made.to(asked)


class QuantizedHome(Home):
    """The device that quantized tensors report."""

    reason = "the GPU's backend has no quantized tensors"
    backends = "'QuantizedCPU'", "'QuantizedCUDA'"

    def wrap(self, value: torch.Tensor) -> torch.Tensor | None:
        """Wrap a quantized tensor; a view of one is also wrapped."""
        return QuantizedTensor(value, self) if value.is_quantized else None

    def _kernel(self, op: Operator) -> Kernel:
        compute = self.computing(op)
        if (lacking := refusing(op)) is None:
            return compute
        refuse = functools.partial(_refuse, overload(lacking))
        compares = op.namespace == "aten" and compares_itself(op)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(value, QuantizedTensor) and self.believed_cpu(value) for value in args):
                return compute(*args, **kwargs)
            if compares and any(map(is_stranger, (*args, *kwargs.values()))):
                self._refuse_mixed(op, args, kwargs)
            return refuse(*args, **kwargs)

        return kernel

    def _refuse_mixed(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise CUDA's error for arguments on two devices, if it has one.

        cuDNN's operators do not compare devices: they read the CPU's memory, and the GPU is lost. That is refused, too.
        """
        error = mixed(op, args, kwargs)
        if error is None and op.name() in _CUDNN:
            error = RuntimeError(two_devices(self.device, CPU))
        if error is not None:
            raise self.translated(error)

    def check(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse CPU tensors where CUDA does."""
        if any(map(is_stranger, (*args, *kwargs.values()))):
            self._refuse_mixed(op, args, kwargs)
