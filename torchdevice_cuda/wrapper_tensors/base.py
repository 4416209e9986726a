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
    """Make a wrapper tensor the same as another of its class: C++ assigns what it knows of, this the rest."""
    if isinstance(other, torch.Tensor) and type(other) is not type(self):
        raise RuntimeError(_INCOMPATIBLE)
    _data.__set__(self, other)
    for name in held:
        setattr(self, name, getattr(other, name))


class WrapperTensor(torch.Tensor):
    """A tensor on the GPU, as far as its operators can tell."""

    #: the attributes that it consists of
    _held: ClassVar[tuple[str, ...]] = ("_host", "_home")
    _home: Home

    @property
    def data(self) -> torch.Tensor:
        """Return the tensor without its history."""
        return self.detach()

    @data.setter
    def data(self, other: Any) -> None:
        assign(self, other, self._held)

    # mypy takes the keywords of special methods for nameless.
    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        # torch shows the name of a class that is not its own.
        shown: str = torch._tensor_str._str(self, tensor_contents=tensor_contents)
        return shown.replace(f"{type(self).__name__}(", "tensor(", 1)

    @classmethod
    def _answers(cls) -> Mapping[str, Kernel]:
        """Return kernels, by name, that need no computing, or are about the tensor and not its elements."""
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
        """Compute an operator of which this is the first argument of the class."""
        return self._home.kernel(func)(*args, **kwargs)


@functools.cache
def _operators(cls: type[WrapperTensor]) -> dict[Operator, Kernel]:
    """Return the answers of a class by operator; not every release has all of them."""
    found: dict[Operator, Kernel] = {}
    for name, kernel in cls._answers().items():
        namespace, _, base = name.rpartition("::")
        packet = getattr(getattr(torch.ops, namespace or "aten"), base, None)
        for overload in packet.overloads() if packet is not None else ():
            if overload in ("default", "memory_format"):
                found[getattr(packet, overload)] = kernel
    return found


def with_symbolic(kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Return kernels together with the same under the names of their symbolic forms."""
    return {f"{prefix}{name}": kernel for name, kernel in kernels.items() for prefix in ("", "sym_")}


def _ask_host(ask: Kernel) -> Kernel:
    """Return what asks the tensor of the CPU about itself."""
    return lambda self, *args: ask(self._host, *args)


def _is_contiguous(self: Any, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    return _base.is_contiguous(self._host, memory_format=memory_format)


def answers_of_host(*others: str) -> dict[str, Kernel]:
    """Return the answers of a tensor over one of the CPU: that one's, by methods, which no mode that watches sees."""
    names = ("size", "stride", "numel", "storage_offset")
    plain = ("is_non_overlapping_and_dense", "is_strides_like_format", *others)
    return {
        **with_symbolic({name: _ask_host(getattr(_base, name)) for name in names}),
        **with_symbolic({"is_contiguous": _is_contiguous}),
        "dim": _ask_host(_base.dim),
        **{name: _ask_host(getattr(_aten, name).default) for name in plain if hasattr(_aten, name)},
    }


class Home:
    """The device that wrapper tensors say they are on, and what computes with them there.

    ``left`` is told of each operator; ``translated`` gives an error the words that the program is to see. What the
    program believes to be the CPU's (``believed_cpu``) computes whatever the CPU does.
    """

    #: why operators leave the GPU
    reason: str
    #: the CPU's name of its backend in errors, and CUDA's
    backends: tuple[str, str] | None = None
    #: which result of an operator is the CPU's on any device
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
        #: what computes an operator of these tensors
        self.kernel = functools.cache(self._kernel)

    def _kernel(self, op: Operator) -> Kernel:
        return self.computing(op)

    def check(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse what CUDA refuses."""
        raise NotImplementedError

    def visit(self) -> Any:
        """Return what brings the arguments of one call to the CPU, and its results back."""
        return self

    def bring(self, value: Any) -> Any:
        """Return an argument as the CPU takes it."""
        if isinstance(value, WrapperTensor):
            return value._host  # type: ignore[attr-defined]
        kind = value.__class__
        if kind is list or kind is tuple:  # torch's way through any tree takes as long as all the rest
            return kind([self.bring(item) for item in value])
        if isinstance(value, torch.UntypedStorage):
            return value.cpu()
        return cpu.to_cpu(value, self.device)

    def wrap(self, value: torch.Tensor) -> torch.Tensor | None:
        """Return a tensor of the CPU in one of this home's; ``None`` if it is not for them."""
        raise NotImplementedError

    def place(self, value: Any) -> Any:
        """Return a result as the program is to see it."""
        if isinstance(value, torch.Tensor) and (wrapped := self.wrap(value)) is not None:
            return wrapped
        if isinstance(value, (list, tuple)):
            items = [self.place(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return cpu.to_device(value, self.device)

    def write_back(self, target: Any, source: Any) -> None:
        """Put what was written into a copy where it belongs; of these tensors the host's own memory was written to."""
        if isinstance(target, (list, tuple)):
            for one, other in zip(target, source, strict=True):
                self.write_back(one, other)
        elif target is not None and not isinstance(target, WrapperTensor):
            cpu.write_back(target, source)

    def computing(self, op: Operator) -> Kernel:
        """Return what computes an operator on the CPU."""
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
