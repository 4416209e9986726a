"""Functions and operators that the backend has, but not for every dtype: what it refuses is computed on the CPU.

The backend refuses only when it is called. Functions are guarded where programs call them; operators that backward
passes and other operators call are guarded in the dispatcher. A refusal (see ``refusals``) is cached by name, dtype and
device, so that the device is called once; all other errors are raised unchanged. Until something is refused, a call of
a guarded function costs nothing extra; without compiled code, or if torch's function is written in Python, it costs one
call of a Python function (0.1 us).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import torch

from ..drivers.recording.mode import carrying
from ..report.departures import timed
from . import cpu
from .capabilities import Subject, refusals
from .devices import is_stranger
from .operators import Shape
from .refusals import NO_DOUBLE, refusal

if TYPE_CHECKING:
    from ..native.interface import Handler, Rescue
    from .operators import Operator

#: Functions with limits on MPS, in some version of macOS or torch, that CUDA does not have, by module; for names under
#: ``torch`` also the methods.
LIMITED = {
    "torch": (
        "addr argsort bincount bucketize cholesky cholesky_inverse cummax cummin cumprod cumsum det dot histc "
        "index_reduce inverse isin kthvalue logcumsumexp logdet lu_solve lu_unpack median nanmedian nanquantile "
        "quantile qr renorm scatter_reduce searchsorted slogdet sort std std_mean topk unique unique_consecutive var "
        "var_mean"
    ).split(),
    "torch.linalg": (
        "cholesky cholesky_ex cond det inv inv_ex lu lu_factor lu_factor_ex lu_solve matrix_power matrix_rank pinv qr "
        "slogdet solve solve_ex solve_triangular tensorinv tensorsolve"
    ).split(),
    "torch.nn.functional": (
        "adaptive_avg_pool1d conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
        "scaled_dot_product_attention"
    ).split(),
    "torch._C._nn": ["adaptive_avg_pool2d", "adaptive_max_pool2d"],
}
#: Methods only: in-place forms.
_METHODS = "addr_ cumprod_ cumsum_ index_reduce_ renorm_ scatter_reduce_".split()
#: Functions that compute in a given dtype, or always in float64; also methods.
_COMPUTING = "sum nansum mean prod cumsum cumprod softmax log_softmax norm float_power".split()
#: Methods that are written in Python and call the function of the same name.
_HANDING_ON = frozenset({"norm", "unique", "unique_consecutive"})

#: Returns CUDA's error for a failed call: the function, its positional and keyword arguments, and the device's error.
Explaining = Callable[[Any, "tuple[Any, ...]", "dict[str, Any]", BaseException], BaseException]
#: A function that moves a CPU tensor to its device.
Placing = Callable[[torch.Tensor], torch.Tensor]


def functions(doubles: bool) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield ``(owner, name, function)`` of all guarded functions; ``doubles``: also those about float64."""
    names: dict[Any, set[str]] = {importlib.import_module(module): set(names) for module, names in LIMITED.items()}
    if doubles:
        names[torch] |= set(_COMPUTING)
    names[torch.Tensor] = (names[torch] | set(_METHODS)) - _HANDING_ON
    for owner, wanted in names.items():
        yield from ((owner, name, getattr(owner, name)) for name in sorted(wanted) if hasattr(owner, name))


class Guard:
    """The handling of calls that the device refuses."""

    def __init__(
        self,
        device: torch.device,
        left: Callable[[str, str, str], None],
        place_double: Placing | None = None,
        translated: Callable[[BaseException], BaseException] = lambda error: error,
        explained: Explaining = lambda function, args, kwargs, error: error,
    ) -> None:
        self._device = device
        self._left = left
        #: places a float64 result; ``None`` if the program sees the device's refusal
        self._place_double = place_double
        #: translates an error of the device for the program
        self._translated = translated
        #: works out what CUDA says of a failed call
        self._explained = explained

    def function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that falls back to the CPU if the device refuses."""
        known = refusals.of(name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if known and (kind := self._known(known, args, kwargs)) is not None:
                return self._on_cpu(name, original, args, kwargs, kind)
            try:
                # Passing empty keyword arguments takes longer than checking for them.
                return original(*args, **kwargs) if kwargs else original(*args)
            except (RuntimeError, TypeError) as error:
                kind = self._refused(name, args, kwargs, error)
                if kind is None:
                    other = self._explained(original, args, kwargs, error)
                    if other is error:
                        raise
                    raise other from None
            return self._on_cpu(name, original, args, kwargs, kind)

        return wrapper

    def handler(self, name: str, rescue: Rescue) -> tuple[Handler, bool]:
        """Return a handler of a C function's failed calls, and whether it runs before each call."""
        known = refusals.of(name)

        def handler(function: Any, args: tuple[Any, ...], named: dict[str, Any] | None, error: Any) -> Any:
            kwargs = named or {}
            if error is None:
                kind = self._known(known, args, kwargs)
            elif isinstance(error, (RuntimeError, TypeError)):
                kind = self._refused(name, args, kwargs, error)
                if kind is not None:
                    rescue(function, handler, True)  # from now on, check for known refusals before the call
                elif (other := self._explained(function, args, kwargs, error)) is not error:
                    try:
                        raise other from None
                    finally:
                        # The error's traceback has this frame, whose variables would keep the call's tensors alive.
                        del other, error, args, kwargs, named
            else:
                kind = None
            return NotImplemented if kind is None else self._on_cpu(name, function, args, kwargs, kind)

        return handler, bool(known)

    def operator(self, op: Operator, native: torch._C._SafeKernelFunction) -> Callable[..., Any]:
        """Return a kernel that calls the backend's own, and falls back to the CPU if that refuses."""
        passage = cpu.Passage(translated=self._translated)
        name, on_cpu = op.name(), cpu.carried(Shape.of(op), self._device, passage)
        known, keys = refusals.of(name), torch._C.DispatchKeySet(torch._C.DispatchKey.MPS)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if any(map(is_stranger, args)):
                passage.refuse_mixed(op, args, kwargs)
            kind = known.get(self._subject(args, kwargs)) if known else None
            if kind is None:
                try:
                    return native.call_boxed(keys, *args, **kwargs)
                except (RuntimeError, TypeError) as error:
                    kind = refusal(error)
                    # The caller of the operator handles float64.
                    if kind is None or kind == NO_DOUBLE:
                        raise
                refusals.add(name, *self._subject(args, kwargs), kind)
            self._left(name, "CPU", kind)
            return timed(on_cpu, (name, "CPU", kind))(*args, **kwargs)

        return kernel

    def _known(self, known: Mapping[Subject, str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return the known kind of refusal of a call, if it is handled."""
        kind = known.get(self._subject(args, kwargs))
        return kind if kind is not None and self._answers(kind) else None

    def _refused(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: RuntimeError | TypeError
    ) -> str | None:
        """Return the kind of refusal of an error and cache it; ``None`` if it is not one that is handled.

        Also ``None`` if the device was not called at all.
        """
        kind, subject = refusal(error), self._subject(args, kwargs)
        if kind is None or not self._answers(kind) or subject[0] is None:
            return None
        refusals.add(name, *subject, kind)
        return kind

    def _answers(self, kind: str) -> bool:
        """Return whether a refusal of this kind is handled."""
        return kind != NO_DOUBLE or self._place_double is not None

    def _subject(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
        """Return the dtype that the device would compute in, ``None`` if it is not called; and the device."""
        values = (*args, *kwargs.values())
        found = next((v.dtype for v in values if isinstance(v, torch.Tensor) and v.device == self._device), None)
        asked = next((v for v in values if isinstance(v, torch.dtype)), found)
        return (asked if found is not None else None, str(self._device))

    def _on_cpu(
        self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kind: str
    ) -> Any:
        """Compute on the CPU, and move the result back."""
        if kind == NO_DOUBLE:
            return self._computed(name, original, args, kwargs, kind)
        self._left(name, "CPU", kind)
        return timed(self._computed, (name, "CPU", kind))(name, original, args, kwargs, kind)

    def _computed(
        self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kind: str
    ) -> Any:
        with carrying():
            return self._carried(name, original, args, kwargs, kind)

    def _carried(
        self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kind: str
    ) -> Any:
        brought = cpu.to_cpu(args, self._device)
        named = {key: cpu.to_cpu(value, self._device) for key, value in kwargs.items()}
        given = original(*brought, **named)
        if name.endswith("_"):
            cpu.write_back(args[0], brought[0])
            return args[0]
        out = kwargs.get("out")
        if out is not None:
            cpu.write_back(out, named["out"])
            return out
        back = self._place_double if kind == NO_DOUBLE and self._place_double is not None else self._to_device
        return torch.utils._pytree.tree_map_only(torch.Tensor, back, given)

    def _to_device(self, value: torch.Tensor) -> torch.Tensor:
        return cast("torch.Tensor", cpu.to_device(value, self._device))  # a tensor gives a tensor
