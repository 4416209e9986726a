"""``torch.cuda.set_sync_debug_mode`` where kernels are PyTorch's own: reports operators for which CUDA waits.

While the mode is on, kernels in Python are registered over those of the operators: the contract's, and those that
PyTorch tags as data dependent.
"""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..._compat import kernels_can_be_called
from ...contract import read_operators
from ...drivers.streams import SYNCHRONIZES
from .callers import LIBRARY_PACKAGES, site

Rule = Callable[..., bool]
_TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
#: Code that computes for an operator, or for a tensor that is not on the device: CUDA would not copy there.
_INTERNAL = ("torchdevice_cuda.fallback.cpu", "torchdevice_cuda.fallback.mlx", "torchdevice_cuda.wrapper_tensors")
_is_cpu: Callable[[torch.Tensor], bool] = vars(torch._C.TensorBase)["is_cpu"].__get__


def _is_on_cpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and _is_cpu(value)


def _compares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and not one.is_set_to(other)


def _waits_for_indices(
    x: Any, indices: Sequence[torch.Tensor | None], values: Any = None, accumulate: bool = False, *rest: Any
) -> bool:
    """Return whether CUDA counts what a mask selects, or copies indices; a number for a mask is neither."""
    given = [index for index in indices if index is not None]
    masks = [index.dtype in (torch.bool, torch.uint8) for index in given]
    is_number = _is_on_cpu(values) and values.numel() == 1
    if is_number and all(masks) and not accumulate:
        return False
    return is_number or any(mask != _is_cpu(index) for mask, index in zip(masks, given, strict=True))


#: The rules of rows, by their names there; the number is the argument that they look at.
_RULES: dict[str, Callable[[int], Rule]] = {
    "fills_from_device": lambda place: lambda *args: not _is_on_cpu(args[place]),
    "is_none": lambda place: lambda *args: len(args) <= place or args[place] is None,
    "looks_for_range": lambda place: lambda x, bins=100, low=0, high=0: low == high,
    "compares": lambda place: _compares,
    "chooses_from_host": lambda place: lambda mask, one, other: _is_on_cpu(one) or _is_on_cpu(other),
}


def _always(*args: Any, **kwargs: Any) -> bool:
    return True


def _rule(row: dict[str, Any], overload: str, tags: Sequence[Any]) -> Rule | None:
    """Return when an operator waits; ``None`` if it never does."""
    waits = row.get("waits")
    if row.get("indexes"):
        return _waits_for_indices
    if isinstance(waits, dict) and overload.removesuffix("_out") in waits.get("overloads", [overload]):
        name, _, place = waits.get("if", "").partition("(")
        return _RULES[name](int(place.rstrip(")") or 0)) if name else _always
    return _always if waits is True or (waits is None and any(tag in tags for tag in _TAGS)) else None


def _operators(key: str) -> Iterator[tuple[Any, Rule]]:
    """Yield the operators with a kernel at a dispatch key for which CUDA waits, and when it does."""
    rows = read_operators()
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        namespace, _, plain = name.partition("::")
        base, _, overload = plain.partition(".")
        packet = getattr(torch.ops.aten, base, None) if namespace == "aten" else None
        op = getattr(packet, overload or "default", None)
        rule = _rule(rows.get(base.strip("_"), rows.get(base, {})), overload, op.tags) if op is not None else None
        if rule is not None:
            yield op, rule


def _is_internal() -> bool:
    """Return whether an operator is called by code of this package that computes elsewhere."""
    frame = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith(LIBRARY_PACKAGES):
        if frame.f_globals["__name__"].startswith(_INTERNAL):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class Waiting:
    """Reports operators that wait, while the program asks for it."""

    def __init__(self, key: str, believed_cpu: Callable[[torch.Tensor], bool]) -> None:
        self._key, self._believed_cpu = key, believed_cpu
        self._mode, self._inner = 0, threading.local()
        self._library: torch.library.Library | None = None

    def watch(self, mode: int) -> None:
        """Warn (1) or raise (2) from now on; 0 ends it."""
        self._mode = mode
        if mode == 0 and self._library is not None:
            self._library._destroy()
            self._library = None
        elif mode and self._library is None and kernels_can_be_called():
            self._register(torch.library.Library("aten", "IMPL"))

    def _register(self, library: torch.library.Library) -> None:
        self._library = library
        keys = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(self._key))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
            for op, rule in list(_operators(self._key)):
                below = functools.partial(torch.library.get_kernel(op, self._key).call_boxed, keys)
                library.impl(
                    op.name().removeprefix("aten::"), self._kernel(below, rule), self._key, allow_override=True
                )
            library.impl("copy_", self._kernel(self._copying(keys), self._copies), self._key, allow_override=True)

    def _copying(self, keys: torch._C.DispatchKeySet) -> Callable[..., Any]:
        """Return a function that copies and waits, as all copies do here."""
        op = torch.ops.aten.copy_.default
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), self._key):
            below = functools.partial(torch.library.get_kernel(op, self._key).call_boxed, keys)
        else:
            below = functools.partial(op._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)
        return lambda target, source, non_blocking=False: below(target, source, False)

    def _kernel(self, below: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
        inner = self._inner

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if getattr(inner, "on", False) or not rule(*args, **kwargs) or self._is_exempt(args):
                return below(*args, **kwargs)
            if self._mode == 2:
                raise RuntimeError(SYNCHRONIZES)
            warnings.warn_explicit(SYNCHRONIZES, UserWarning, *site())
            inner.on = True
            try:
                return below(*args, **kwargs)
            finally:
                inner.on = False

        return kernel

    @staticmethod
    def _copies(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> bool:
        """Return whether a copy is between the device and the host, which CUDA waits for."""
        return not non_blocking and _is_cpu(target) != _is_cpu(source)

    def _is_exempt(self, args: tuple[Any, ...]) -> bool:
        """Return whether the program sees no tensor on CUDA, or does not see the call."""
        tensors = [value for value in args if isinstance(value, torch.Tensor) and not _is_cpu(value)]
        return (bool(tensors) and all(map(self._believed_cpu, tensors))) or _is_internal()
