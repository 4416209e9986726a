"""Tensors of float64 and complex128 on a GPU that supports neither: they stay on the host and report the GPU.

Metal has no doubles, and no release of torch creates such a tensor on MPS. If the program wants full precision
(``--float64 cpu``), a CPU tensor is wrapped, and the CPU computes its operators: the program sees it on CUDA, and can
combine it with the GPU's other tensors.

Tensors that C++ creates by itself, without a wrapper among its arguments, are created on MPS, which fails. So composite
functions of torch are computed on the CPU as a whole in such cases, and gradients cross between wrappers and other
tensors in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import torch
from torch.utils._pytree import tree_iter, tree_map

from ..fallback import cpu
from ..fallback.devices import is_stranger, mixed
from ..fallback.refusals import NARROW, NO_DOUBLE, refusal
from .base import CPU, Home, Kernel, WrapperTensor, answers_of_host, assign, device_of

if TYPE_CHECKING:
    from ..fallback.operators import Operator

_base = torch._C.TensorBase
#: Methods whose result may be a tensor of another class.
_LEAVING = frozenset("to cpu float half bfloat16 cfloat chalf type type_as".split())
#: Classes of torch that contain tensors: wrapper tensors are inside of them, never beside.
_OUTER = frozenset({"NestedTensor", "DTensor"})
#: Functions that torch composes differently for other tensor classes, of parts that CUDA refuses.
_WHOLE = frozenset({"ctc_loss"})
#: Methods that move.
_MOVING = frozenset({"to", "cpu", "cuda", "type"})
#: Methods that write a tensor of any dtype into another, and the position of that argument.
_WRITING = {"copy_": 1, "__setitem__": 2}


#: By device type; empty if float64 is not kept.
homes: dict[str, DoubleHome] = cpu.homes_of_doubles


def _refuse(value: torch.Tensor) -> NoReturn:
    """Raise for a dtype that the GPU lacks and the wrapper does not support."""
    name = str(value.dtype).removeprefix("torch.")
    kind = "nested" if value.is_nested else f"of layout {value.layout}"
    raise NotImplementedError(
        f"--float64 cpu keeps strided tensors on the CPU for a GPU that has no {name}, and this one is {kind}: "
        "make it dense or float32 first, or use --float64 downcast"
    )


def entered(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy of a CPU tensor in a wrapper, with its gradients."""
    if isinstance(value, HostDoubleTensor):
        return value.clone()
    if value.layout is not torch.strided or value.is_nested:
        _refuse(value)
    return _entered_at(value, homes[device.type])


class _Entering(torch.autograd.Function):
    """A copy from the CPU into a wrapper."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, home: Home) -> HostDoubleTensor:
        ctx.home = home
        return HostDoubleTensor(value.detach().clone(), home)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _left_for(grad), None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> HostDoubleTensor:
        return HostDoubleTensor(tangent.clone(), ctx.home)


class _Leaving(torch.autograd.Function):
    """A copy from a wrapper to the CPU."""

    @staticmethod
    def forward(ctx: Any, value: HostDoubleTensor) -> torch.Tensor:
        ctx.home = value._home
        return value._host.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return _entered_at(grad, ctx.home)

    @staticmethod
    def jvp(ctx: Any, tangent: HostDoubleTensor) -> torch.Tensor:
        return tangent._host.clone()


_entered_at: Callable[[torch.Tensor, Home], torch.Tensor] = _Entering.apply
_left_for: Callable[[torch.Tensor], torch.Tensor] = _Leaving.apply


class HostDoubleTensor(WrapperTensor):
    """A tensor of float64 or complex128 that is on the GPU as far as its operators can tell."""

    _host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor, home: Home) -> HostDoubleTensor:
        """Create one over a CPU tensor, with which it shares its memory."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=home.device,
            dispatch_sizes_strides_policy="sizes",
        )
        made._host, made._home = host, home
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # mypy takes it for nameless
        # torch formats values of its own class only, and prints the name of any other.
        numbers = tensor_contents or torch._tensor_str._tensor_str(self._host, len("tensor("))
        shown: str = torch._tensor_str._str(self, tensor_contents=numbers)
        begin, _, end = shown.partition(numbers)
        begin, end = begin.replace(f"{type(self).__name__}(", "tensor("), end.replace(f"\n{' ' * 11}", f"\n{' ' * 7}")
        shown = begin + numbers + end
        if not getattr(self, "_is_param", False):
            return shown
        return "Parameter containing:\n" + shown.removeprefix("Parameter(").replace("))", ")")

    @property
    def data(self) -> torch.Tensor:
        """Return the tensor without its autograd history: writes to it do not count as writes to this one."""
        return HostDoubleTensor(self._host, self._home)

    @data.setter
    def data(self, other: Any) -> None:
        if isinstance(other, HostDoubleTensor) or not isinstance(other, torch.Tensor):
            assign(self, other, self._held)
        else:
            become(self, other)

    def __format__(self, spec: str) -> str:
        return format(self._host, spec) if not self._host.dim() else object.__format__(self, spec)

    def numpy(self, *, force: bool = False) -> Any:
        """Raise as for any GPU tensor, unless it is to be copied."""
        if not force:
            torch.empty(0, device=self._home.device).numpy()
        return _left_for(self).numpy(force=force)

    def tolist(self) -> Any:
        """Return its values; torch's own function accepts no other tensor classes."""
        return self._host.tolist()

    def data_ptr(self) -> int:
        """Return the address of the host's memory, as any tensor has an address."""
        return self._host.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return the host's memory as a separate storage: torch's compiler treats tensors of one storage as views."""
        held = self._host.untyped_storage()
        if type(self._host) is not torch.Tensor:
            return held
        made: Any = torch._C._construct_storage_from_data_pointer(held.data_ptr(), held.device, held.nbytes())
        made._owner = held  # keeps the memory alive
        return cast("torch.UntypedStorage", made)

    def __deepcopy__(self, memo: Any) -> HostDoubleTensor:
        if id(self) in memo:
            return cast("HostDoubleTensor", memo[id(self)])
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment.  If you were attempting to deepcopy a module, this may be because of a torch.nn.utils."
                "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
            )
        made = HostDoubleTensor(self._host.clone(memory_format=torch.preserve_format), self._home)
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            made.grad = self.grad.__deepcopy__(memo)
        if getattr(self, "_is_param", False):
            made._is_param = True  # torch's flag of a parameter of another class
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        # It is saved as an ordinary GPU tensor, so that stock torch can read it.
        bytes_ = self._host.untyped_storage().to(device=self._home.device)
        storage = torch.TypedStorage(wrap_storage=bytes_, dtype=self.dtype, _internal=True)
        is_param = getattr(self, "_is_param", False)
        made: tuple[Any, tuple[Any, ...]] = (
            torch._utils._rebuild_tensor_v2,
            (storage, self.storage_offset(), self.shape, self.stride(), self.requires_grad and not is_param, {}),
        )
        if not is_param:
            return made
        return torch._utils._rebuild_parameter, (_Rebuilt(made), self.requires_grad, {})

    # torch calls this on a tensor that consists of others: modules keep a parameter's identity with it.
    def __tensor_flatten__(self) -> tuple[list[str], str]:
        return ["_host"], self._home.device.type

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], kind: str, size: Any, stride: Any) -> HostDoubleTensor:
        return HostDoubleTensor(inner["_host"], homes[kind])

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _MOVING:
            # C++ calls this with the program's function, whose request was translated before
            func = getattr(_base, name)
        with torch._C.DisableTorchFunctionSubclass():
            if torch.is_grad_enabled():
                if name in _LEAVING and isinstance(args[0], cls) and args[0].requires_grad:
                    return _left(func, args[0], args[1:], kwargs)
                if name in _WRITING and not isinstance(args[0], cls):
                    args = _narrowed(args, _WRITING[name])
            if name == "__setitem__" and isinstance(args[0], cls) and not isinstance(args[2], torch.Tensor):
                args = (*args[:2], HostDoubleTensor(torch.tensor(args[2], dtype=args[0].dtype), args[0]._home))
            if name in _WHOLE:
                return _on_host(func, args, kwargs)
            try:
                return func(*args, **kwargs)
            except TypeError as error:
                writes = name.endswith("_") and not name.endswith("__")
                wants = torch.is_grad_enabled() and any(v.requires_grad for v in args if isinstance(v, torch.Tensor))
                if refusal(error) != NO_DOUBLE or kwargs.get("out") is not None or (writes and wants):
                    raise
            return _written_on_host(func, *args, **kwargs) if writes else _on_host(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own is no classmethod
        cls, func: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(kind.__name__ in _OUTER for kind in types):
            return NotImplemented
        return super().__torch_dispatch__(func, types, args, kwargs)

    @classmethod
    def _answers(cls) -> dict[str, Kernel]:
        return {**answers_of_host(), **dict.fromkeys(("detach", "alias"), lambda self: cls(self._host, self._home))}


def become(self: torch.Tensor, other: torch.Tensor) -> None:
    """Assign ``self.data = other`` if one is a wrapper: the tensor changes its class, and stays the same object."""
    parameter, grad = isinstance(self, torch.nn.Parameter), self.grad
    made = torch.nn.Parameter(other, self.requires_grad) if parameter else other.data.requires_grad_(self.requires_grad)
    torch.utils.swap_tensors(self, made)
    if grad is not None:
        with torch.no_grad():
            self.grad = torch.empty_like(self).copy_(grad)


class _Rebuilt:
    """A tensor inside a pickle: it is pickled as the call that creates it."""

    def __init__(self, made: tuple[Any, tuple[Any, ...]]) -> None:
        self._made = made

    def __reduce__(self) -> Any:
        return self._made


def _left(func: Any, value: HostDoubleTensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a method that may return another class: its gradient returns to the wrapper."""
    made = func(value.detach(), *args, **kwargs)
    if not isinstance(made, torch.Tensor) or isinstance(made, HostDoubleTensor):
        return func(value, *args, **kwargs)  # the name of a type, a wrapper again, or the tensor itself
    return _base.to(_left_for(value), device=device_of(made), dtype=made.dtype)


def _narrowed(args: tuple[Any, ...], which: int) -> tuple[Any, ...]:
    """Convert a wrapper that requires a gradient, before a call that writes it into another tensor."""
    value = args[which]
    if not isinstance(value, HostDoubleTensor) or not value.requires_grad:
        return args
    narrow = _base.to(_left_for(value), device=device_of(args[0]), dtype=args[0].dtype)
    return (*args[:which], narrow, *args[which + 1 :])


def _brought(device: torch.device, value: Any) -> Any:
    """Return an argument on the CPU, with its gradients."""
    if isinstance(value, HostDoubleTensor):
        return _left_for(value)
    if isinstance(value, torch.Tensor):
        return _base.to(value, CPU) if device_of(value).type == device.type else value
    return CPU if isinstance(value, torch.device) and value.type == device.type else value


def _first(arguments: Any) -> HostDoubleTensor:
    """Return the first wrapper among arguments, at any depth."""
    return next(value for value in tree_iter(arguments) if isinstance(value, HostDoubleTensor))


def _on_host(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a composite torch function on the CPU: its parts would be created on MPS."""
    device = _first((args, kwargs))._home.device

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return entered(value, device) if value.dtype in NARROW else _base.to(value, device)

    args, kwargs = tree_map(functools.partial(_brought, device), (args, kwargs))
    return tree_map(placed, func(*args, **kwargs))


def _written_on_host(func: Any, self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Call a method that writes into its tensor, without a gradient."""
    if not isinstance(self, HostDoubleTensor):
        return _base.copy_(self, _on_host(func, (self, *args), kwargs))
    args, kwargs = tree_map(functools.partial(_brought, self._home.device), (args, kwargs))
    func(self._host, *args, **kwargs)
    return self


#: Operators that take several devices on purpose.
_BETWEEN = frozenset({"aten::copy_"})
#: A composite operator has no CUDA kernel that would compare devices.
_COMPOSITE = "CompositeExplicitAutograd"
#: They decide whether and where to copy; seen here if autograd is off.
_DECIDING = frozenset({"to", "type_as"})


class DoubleHome(Home):
    """The device that float64 tensors report: results in float64 stay on the host, others go to the GPU."""

    reason = "the GPU has no float64"
    results_of_cpu = {"aten::_pack_padded_sequence": 1}
    #: returns the kernel of a collective operator, by its name: it moves tensors to the CPU itself
    between: Callable[[str], Kernel] | None = None

    def _kernel(self, op: Operator) -> Kernel:
        if op.name() == "aten::_to_copy":
            return self._moving(op)
        if op.overloadpacket.__name__ in _DECIDING:
            return op.decompose
        if op.namespace == "c10d" and self.between is not None:
            return self.between(op.name().partition("::")[2])
        return self.computing(op)

    def check(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse CPU tensors where CUDA does."""
        if any(map(is_stranger, (*args, *kwargs.values()))) and not _is_between(op.name()):
            error = mixed(op, args, kwargs)
            if error is not None:
                raise self.translated(error)

    def wrap(self, value: torch.Tensor) -> torch.Tensor | None:
        """Wrap a tensor of float64, even if this is no longer the current home."""
        if value.dtype not in NARROW:
            return None
        if value.layout is not torch.strided or value.is_nested:
            _refuse(value)
        return HostDoubleTensor(value, self)

    def _moving(self, op: Operator) -> Kernel:
        """Return a kernel that copies a wrapper, in another dtype or to another device."""

        def move(self_: HostDoubleTensor, **kwargs: Any) -> Any:
            asked = kwargs.pop("device", None)
            made = op(self_._host, device=CPU, **kwargs)
            if asked is None or asked.type == self.device.type:
                self.left(op.name(), "CPU", self.reason)
                return self.place(made)
            return made if asked.type == "cpu" else made.to(asked)

        return move


@functools.cache
def _is_between(name: str) -> bool:
    return name in _BETWEEN or torch._C._dispatch_has_kernel_for_dispatch_key(name, _COMPOSITE)
