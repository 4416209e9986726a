"""The base of wrapper tensors: the class, its operators, and their computation on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.utils._pytree import tree_leaves

from ..fallback import cpu
from ..fallback.operators import Shape

if TYPE_CHECKING:
    from ..fallback.operators import Operator

Kernel = Callable[..., Any]
CPU = torch.device("cpu")
_base = torch._C.TensorBase
_aten = torch.ops.aten
_data = vars(_base)["data"]
#: The real device of a tensor: the program sees another.
device_of: Callable[[torch.Tensor], torch.device] = vars(_base)["device"].__get__
_INCOMPATIBLE = (
    "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
)


def assign(self: torch.Tensor, other: Any, held: tuple[str, ...]) -> None:
    """Assign a wrapper tensor from another of its class: C++ assigns the state that it knows, this the rest."""
    if isinstance(other, torch.Tensor) and type(other) is not type(self):
        raise RuntimeError(_INCOMPATIBLE)
    _data.__set__(self, other)
    for name in held:
        setattr(self, name, getattr(other, name))


class WrapperTensor(torch.Tensor):
    """A tensor that is on the GPU as far as its operators can tell."""

    #: the attributes that hold its contents
    _held: ClassVar[tuple[str, ...]] = ("_host", "_home")
    _home: Home

    @property
    def data(self) -> torch.Tensor:
        """Return the tensor without its autograd history."""
        return self.detach()

    @data.setter
    def data(self, other: Any) -> None:
        assign(self, other, self._held)

    # mypy treats keywords of special methods as positional only.
    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        # torch prints the name of any other tensor class.
        shown: str = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        return shown.replace(f"{type(self).__name__}(", "tensor(", 1)

    @classmethod
    def _answers(cls) -> Mapping[str, Kernel]:
        """Return kernels, by name, that need no computation, or concern the tensor and not its elements."""
        raise NotImplementedError

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own is no classmethod
        cls, func: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        answer = _operators(cls).get(func)
        if answer is not None:
            return answer(*args, **kwargs)
        one = next((value for value in args if isinstance(value, cls)), None)
        if one is None:
            one = next(value for value in tree_leaves((args, kwargs)) if isinstance(value, cls))
        return one._compute(func, args, kwargs)

    def _compute(self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operator whose first argument of this class is this tensor."""
        return self._home.kernel(func)(*args, **kwargs)


@functools.cache
def _operators(cls: type[WrapperTensor]) -> dict[Operator, Kernel]:
    """Return a class's kernels by operator; not every release has all of them."""
    found: dict[Operator, Kernel] = {}
    for name, kernel in cls._answers().items():
        namespace, _, base = name.rpartition("::")
        packet = getattr(getattr(torch.ops, namespace or "aten"), base, None)
        for overload in packet.overloads() if packet is not None else ():
            if overload in ("default", "memory_format"):
                found[getattr(packet, overload)] = kernel
    return found


def with_symbolic(kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Return kernels, also under the names of their symbolic forms."""
    return {f"{prefix}{name}": kernel for name, kernel in kernels.items() for prefix in ("", "sym_")}


def _ask_host(ask: Kernel) -> Kernel:
    """Return a kernel that queries the CPU tensor."""
    return lambda self, *args: ask(self._host, *args)


def _is_contiguous(self: Any, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    return _base.is_contiguous(self._host, memory_format=memory_format)


def answers_of_host(*others: str) -> dict[str, Kernel]:
    """Return kernels that query the CPU tensor, through methods, which dispatch modes do not see."""
    names = ("size", "stride", "numel", "storage_offset")
    plain = ("is_non_overlapping_and_dense", "is_strides_like_format", *others)
    return {
        **with_symbolic({name: _ask_host(getattr(_base, name)) for name in names}),
        **with_symbolic({"is_contiguous": _is_contiguous}),
        "dim": _ask_host(_base.dim),
        **{name: _ask_host(getattr(_aten, name).default) for name in plain if hasattr(_aten, name)},
    }


class Home:
    """The device that wrapper tensors report, and the computation of their operators.

    ``left`` is called for each operator; ``translated`` translates an error for the program. Tensors that report the
    CPU (``believed_cpu``) support all that the CPU does.
    """

    #: why operators leave the GPU
    reason: str
    #: the name of the CPU's backend in errors, and CUDA's
    backends: tuple[str, str] | None = None
    #: the result of an operator that is on the CPU for any device
    results_of_cpu: Mapping[str, int] = {}

    def __init__(
        self,
        device: torch.device,
        left: Callable[[str, str, str], None],
        translated: Callable[[BaseException], BaseException],
        believed_cpu: Callable[[torch.Tensor], bool] = lambda tensor: False,
    ) -> None:
        self.device = device
        self.left = left
        self.translated = translated
        self.believed_cpu = believed_cpu
        #: returns the kernel of an operator for these tensors
        self.kernel = functools.cache(self._kernel)

    def _kernel(self, op: Operator) -> Kernel:
        return self.computing(op)

    def check(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse calls that CUDA refuses."""
        raise NotImplementedError

    def visit(self) -> Any:
        """Return the object that moves the arguments of one call to the CPU, and its results back."""
        return self

    def bring(self, value: Any) -> Any:
        """Return an argument for the CPU."""
        if isinstance(value, WrapperTensor):
            return value._host  # type: ignore[attr-defined]
        kind = value.__class__
        if kind is list or kind is tuple:  # torch's function for any tree takes as long as all the rest
            return kind([self.bring(item) for item in value])
        if isinstance(value, torch.UntypedStorage):
            return value.cpu()
        return cpu.to_cpu(value, self.device)

    def wrap(self, value: torch.Tensor) -> torch.Tensor | None:
        """Wrap a CPU tensor in this home's class; return ``None`` if it does not belong there."""
        raise NotImplementedError

    def place(self, value: Any) -> Any:
        """Return a result for the program."""
        if isinstance(value, torch.Tensor) and (wrapped := self.wrap(value)) is not None:
            return wrapped
        if isinstance(value, (list, tuple)):
            items = [self.place(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return cpu.to_device(value, self.device)

    def write_back(self, target: Any, source: Any) -> None:
        """Copy outputs from their CPU copies back; for these tensors the host's own memory was written."""
        if isinstance(target, (list, tuple)):
            for one, other in zip(target, source, strict=True):
                self.write_back(one, other)
        elif target is not None and not isinstance(target, WrapperTensor):
            cpu.write_back(target, source)

    def computing(self, op: Operator) -> Kernel:
        """Return a kernel that computes an operator on the CPU."""
        shape, name = Shape.of(op), op.name()
        of_cpu = self.results_of_cpu.get(name)

        def compute(*args: Any, **kwargs: Any) -> Any:
            self.check(op, args, kwargs)
            self.left(name, "CPU", self.reason)
            visit = self.visit()
            named = dict(zip(shape.names, args, strict=False), **kwargs)
            brought = {key: visit.bring(value) for key, value in named.items()}
            if shape.draws:
                brought["generator"] = cpu.seeded(named.get("generator"), self.device)
            positional = [brought[key] for key in shape.names[: len(args)]]
            try:
                given = op(*positional, **{key: brought[key] for key in brought if key not in shape.names[: len(args)]})
            except NotImplementedError as error:
                if self.backends is None:
                    raise
                raise NotImplementedError(str(error).replace(*self.backends, 1)) from None
            for written in shape.written:
                visit.write_back(named.get(written), brought.get(written))
            if len(shape.results) == 1:
                return visit.place(given) if shape.results[0] is None else named[shape.results[0]]
            if not shape.results:
                return None
            return tuple(
                named[owner] if owner is not None else value if place == of_cpu else visit.place(value)
                for place, (value, owner) in enumerate(zip(given, shape.results, strict=True))
            )

        return compute
