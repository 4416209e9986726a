"""What computes with quantised tensors that stay on the host under the GPU's name (``quantized_tensors``).

What CUDA computes with quantised tensors the CPU computes, and results that are not quantised go to the GPU; what CUDA
has no kernel for is refused, in its words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from . import cpu
from .devices import compares_itself, is_stranger, mixed, rows, two_devices
from .operators import Shape, overload
from .quantized_tensors import Kernel, QuantizedTensor

if TYPE_CHECKING:
    from .operators import Operator

_CPU = torch.device("cpu")
NO_BACKEND = "the GPU's backend has no quantised tensors"
#: What CUDA has of PyTorch's own library of quantised operators, from cuDNN; there is no list of it in a build without.
_CUDNN = frozenset(
    f"quantized::{name}"
    for name in (
        "add add_relu linear_prepack linear linear_relu conv1d_prepack conv2d_prepack conv1d conv1d_relu conv2d.new "
        "conv2d_relu.new max_pool2d"
    ).split()
)
#: An operator with one of these is made of others, whatever tensors it is given.
_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")


@functools.cache
def _delegates() -> dict[str, str]:
    """Of operators that make room for their result, and leave the work to one that writes there: that one's name."""
    from ..native import op_table

    operators = op_table.read(op_table.yaml_path())
    return {f"aten::{op.full_name}": f"aten::{op.delegate}" for op in operators if op.delegate}


def refusing(op: Operator) -> str | None:
    """The operator that CUDA has no kernel for when it is asked for one of quantised tensors; ``None`` if it has."""
    name = op.name()
    if op.namespace == "quantized":
        return None if name in _CUDNN else name
    composite = any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _COMPOSITE)
    if op.namespace != "aten" or composite:
        return None
    row = rows().get(name)
    return None if row is not None and "kCudaQuantizedKernel" in row.flags else _delegates().get(name, name)


def _refuse(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """Have the dispatcher say that CUDA has no kernel: asked for it, it says so before it looks at arguments."""
    one = next(value for value in tree_leaves((args, kwargs)) if isinstance(value, QuantizedTensor))
    given = dict(zip((argument.name for argument in op._schema.arguments), args, strict=False), **kwargs)
    for argument in op._schema.arguments:
        # Room for a result; a number, where the operator that was called makes a tensor of it.
        if str(argument.type) == "Tensor" and not isinstance(given.get(argument.name), torch.Tensor):
            given[argument.name] = one
    return op.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.QuantizedCUDA), **given)


class Home:
    """The device that quantised tensors say they are on, and what computes for it.

    ``left`` is told of each operator; ``translated`` gives an error the words that the program is to see. What the
    program believes to be the CPU's (``believed_cpu``) computes whatever the CPU does.
    """

    def __init__(
        self,
        device: torch.device,
        left: Callable[[str, str, str], None],
        translated: Callable[[BaseException], BaseException],
        believed_cpu: Callable[[torch.Tensor], bool],
    ) -> None:
        self.device = device
        self._left = left
        self._translated = translated
        self._believed_cpu = believed_cpu
        self._kernels: dict[Operator, Kernel] = {}

    def kernel(self, op: Operator, /) -> Kernel:
        """What computes an operator of quantised tensors."""
        made = self._kernels.get(op)
        if made is None:
            made = self._kernels[op] = self._made(op)
        return made

    def brought(self, value: Any) -> Any:
        """An argument as the CPU takes it."""
        if isinstance(value, QuantizedTensor):
            return value._host
        if isinstance(value, torch.UntypedStorage):
            return value.cpu()
        return cpu.to_cpu(value, self.device)

    def placed(self, value: Any) -> Any:
        """A result as the program is to see it: a view of a quantised tensor is one."""
        if isinstance(value, torch.Tensor) and value.is_quantized:
            return QuantizedTensor(value, self)
        if isinstance(value, (list, tuple)):
            items = [self.placed(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return cpu.to_device(value, self.device)

    def _made(self, op: Operator) -> Kernel:
        compute = self._computing(op)
        if (lacking := refusing(op)) is None:
            return compute
        refuse = functools.partial(_refuse, overload(lacking))
        compares = op.namespace == "aten" and compares_itself(op)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(value, QuantizedTensor) and self._believed_cpu(value) for value in args):
                return compute(*args, **kwargs)
            if compares and any(map(is_stranger, (*args, *kwargs.values()))):
                self._refuse_mixed(op, args, kwargs)
            return refuse(*args, **kwargs)

        return kernel

    def _refuse_mixed(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise CUDA's error for arguments on two devices, where it has one.

        cuDNN's operators compare none: they read the CPU's memory, and the GPU is lost. That is refused, too.
        """
        error = mixed(op, args, kwargs)
        if error is None and op.name() in _CUDNN:
            error = RuntimeError(two_devices(self.device, _CPU))
        if error is not None:
            raise self._translated(error)

    def _computing(self, op: Operator) -> Kernel:
        shape, name = Shape.of(op), op.name()

        def compute(*args: Any, **kwargs: Any) -> Any:
            named = dict(zip(shape.names, args, strict=False), **kwargs)
            if any(map(is_stranger, named.values())):
                self._refuse_mixed(op, args, kwargs)
            self._left(name, "CPU", NO_BACKEND)
            brought = tree_map(self.brought, named)
            positional = [brought[name] for name in shape.names[: len(args)]]
            try:
                given = op(*positional, **{name: brought[name] for name in kwargs})
            except NotImplementedError as error:
                # Of an operator that this one is made of.
                raise NotImplementedError(str(error).replace("'QuantizedCPU'", "'QuantizedCUDA'", 1)) from None
            for written in shape.written:
                if not isinstance(named.get(written), (QuantizedTensor, type(None))):
                    cpu.write_back(named[written], brought[written])
            if len(shape.results) == 1 and shape.results[0] is not None:
                return named[shape.results[0]]
            return self.placed(given)

        return compute
