"""What computes with nested tensors of a GPU whose backend has none, and makes them there (``nested_tensors``).

Arguments go to the CPU, what CUDA has no kernel for is refused in its words, and results come back; those that are
views on the CPU are views on the GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from . import cpu
from .devices import is_stranger, mixed, two_devices
from .nested_tensors import NO_SIZES, Kernel, Members, StridedNestedTensor, homes, on_host, places_of, whole
from .operators import Shape, overload

if TYPE_CHECKING:
    from .operators import Operator

_aten = torch.ops.aten
_base = torch._C.TensorBase
_CPU = torch.device("cpu")
NO_BACKEND = "the GPU's backend has no nested tensors"
#: Operators that make nested tensors of others.
MAKING = (
    "_nested_tensor_from_tensor_list",
    "_nested_view_from_buffer",
    "_nested_from_padded",
    "_nested_tensor_from_mask",
)
#: What the CPU computes with nested tensors and CUDA does not.
_NOT_CUDAS = frozenset({"aten::sum.dim_IntList", "aten::_nested_sum_backward"})
#: Between devices on purpose.
_BETWEEN = frozenset({"aten::copy_"})
#: Its gradient is a formula that takes the tensor for one of C++.
_UNSOUND_BACKWARD = frozenset({"aten::split_with_sizes"})


class Home:
    """The GPU that nested tensors are on, and what computes with them there.

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
        self.left = left
        self._translated = translated
        self._believed_cpu = believed_cpu
        self.kernel = functools.cache(self._kernel)

    def made(self, host: torch.Tensor) -> StridedNestedTensor:
        """A nested tensor of the CPU, on the GPU."""
        return StridedNestedTensor(Members(_base.to(whole(host), self.device), *places_of(host)), self)

    def view(self, elements: torch.Tensor, *places: torch.Tensor) -> StridedNestedTensor:
        """A nested tensor whose elements are those of another on the GPU."""
        return StridedNestedTensor(Members(whole(elements), *places), self)

    def check(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse what CUDA refuses, and what torch cannot do without taking ours for its own."""
        if op.name() not in _BETWEEN and any(map(is_stranger, (*args, *kwargs.values()))):
            error = mixed(op, args, kwargs)
            words = two_devices(self.device, _CPU) if error is None else str(error)
            raise self._translated(RuntimeError(words.replace("wrapper_CUDA_", "wrapper_NestedTensorCUDA_")))
        nested = [value for value in tree_leaves((args, kwargs)) if isinstance(value, StridedNestedTensor)]
        if op.name() in _NOT_CUDAS and not any(map(self._believed_cpu, nested)):
            # Asked for its kernel, the dispatcher says that there is none before it looks at arguments.
            cudas = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("NestedTensorCUDA"))
            op.redispatch(cudas, *args, **kwargs)
        if op.name() in _UNSOUND_BACKWARD and torch.is_grad_enabled() and any(one.requires_grad for one in nested):
            raise NotImplementedError(
                f"{op.name()} of a nested tensor that requires a gradient is not possible with layout=torch.strided on "
                "this GPU; with layout=torch.jagged, and on the CPU, it is"
            )

    def _kernel(self, op: Operator) -> Kernel:
        shape, name = Shape.of(op), op.name()

        def compute(*args: Any, **kwargs: Any) -> Any:
            self.check(op, args, kwargs)
            self.left(name, "CPU", NO_BACKEND)
            named = dict(zip(shape.names, args, strict=False), **kwargs)
            visit = _Visit(self)
            brought = {key: visit.bring(value) for key, value in named.items()}
            if shape.draws:
                brought["generator"] = cpu.seeded(named.get("generator"), self.device)
            positional = [brought[key] for key in shape.names[: len(args)]]
            try:
                given = op(*positional, **{key: brought[key] for key in brought if key not in shape.names[: len(args)]})
            except NotImplementedError as error:
                raise NotImplementedError(str(error).replace("'NestedTensorCPU'", "'NestedTensorCUDA'", 1)) from None
            for written in shape.written:
                visit.write_back(named.get(written), brought.get(written))
            if len(shape.results) == 1:
                return visit.place(given) if shape.results[0] is None else named[shape.results[0]]
            owners = zip(given, shape.results, strict=True) if shape.results else ()
            return tuple(visit.place(value) if owner is None else named[owner] for value, owner in owners)

        return compute


class _Visit:
    """One call's stay on the CPU: what shares memory on the GPU shares it there, and a view comes back as one."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._hosts: dict[int, torch.Tensor] = {}
        self._origins: dict[int, torch.Tensor] = {}

    def bring(self, value: Any) -> Any:
        """An argument as the CPU takes it."""
        if isinstance(value, StridedNestedTensor):
            elements, *places = value._members
            host = self._hosts.get(elements.data_ptr())
            if host is None:
                host = self._hosts[elements.data_ptr()] = _base.to(elements, _CPU)
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
        """A result as the program is to see it."""
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
        """Put what was written on the CPU where it belongs."""
        if isinstance(target, StridedNestedTensor):
            _base.copy_(target._members.elements, whole(source))
            target._members = Members(target._members.elements, *places_of(source))
        elif target is not None:
            cpu.write_back(target, source)


def _empty(like: torch.Tensor) -> torch.Tensor:
    """One of the CPU, of the same shape."""
    return torch._C._VariableFunctions.empty(like.shape, dtype=like.dtype, device=_CPU)


def _joined(home: Home, parts: Sequence[torch.Tensor], options: dict[str, Any]) -> torch.Tensor:
    """A nested tensor of others, which stay on the GPU; the CPU looks whether they fit each other."""
    home.check(_aten._nested_tensor_from_tensor_list.default, (parts,), {})
    asked = options.pop("device", None) or home.device
    shell: torch.Tensor = _aten._nested_tensor_from_tensor_list([_empty(part) for part in parts], **options)
    elements = torch._C._VariableFunctions.cat([part.reshape(-1) for part in parts]).to(asked, shell.dtype)
    if asked.type != home.device.type:
        return on_host(elements, *places_of(shell))
    return home.view(elements, *places_of(shell))


def register(library: torch.library.Library, home: Home) -> None:
    """Have nested tensors made on the GPU."""
    homes[home.device.type] = home

    def of_list(parts: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        return _joined(
            home, parts, dict(zip(("dtype", "layout", "device", "pin_memory"), args, strict=False), **kwargs)
        )

    def of_buffer(elements: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        places = [cpu.to_cpu(place, home.device) for place in given]  # loaded, they may be on the GPU
        on_host(_empty(elements), *places)  # looks whether they fit
        return home.view(elements, *places)

    def computed(name: str) -> Kernel:
        op = overload(name)

        def compute(*args: Any, **kwargs: Any) -> torch.Tensor:
            home.left(op.name(), "CPU", NO_BACKEND)
            given = {key: cpu.to_cpu(value, home.device) for key, value in kwargs.items()}
            return home.made(op(*cpu.to_cpu(args, home.device), **given))

        return compute

    kernels = (of_list, of_buffer, *map(computed, MAKING[2:]))
    for name, kernel in zip(MAKING, kernels, strict=True):
        library.impl(name, kernel, "MPS")
