"""Functions whose operators the backend has, but not for every dtype: what it refuses is computed on the CPU.

The backend says so only when it is called. A refusal (see ``drivers.refusals``) is remembered by function, dtype and
device, so that the device is asked once; every other error goes on unchanged. Until something has been refused a call
costs one function call more than it would (0.15 us).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers.refusals import NO_DOUBLE, refusal
from . import cpu
from .capabilities import Subject, refusals

#: Functions of torch, and methods of that name, whose operators have limits on MPS in some version of macOS or torch.
LIMITED = frozenset(
    "argsort bincount bucketize cummax cummin cumprod cumsum histc isin kthvalue logcumsumexp median nanmedian "
    "nanquantile quantile searchsorted sort topk unique unique_consecutive".split()
)
#: Functions that compute in a dtype they are given, or in float64 whatever they are given; methods too.
COMPUTING = frozenset("sum nansum mean prod cumsum cumprod softmax log_softmax norm float_power".split())
#: Methods that are written in Python and call the function of the same name.
HANDING_ON = frozenset({"norm", "unique", "unique_consecutive"})

Settle = Callable[[torch.Tensor], torch.Tensor]


class Guard:
    """What happens to a function's calls that the device refuses."""

    def __init__(
        self, device: torch.device, left: Callable[[str, str, str], None], settle: Settle | None = None
    ) -> None:
        self._device = device
        self._left = left
        #: where a result in float64 ends up; ``None`` if the device's refusal of it is to be seen
        self._settle = settle

    def function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function that goes to the CPU where the device refuses."""
        known = refusals.of(name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if known:
                kind = known.get(self._subject(args, kwargs))
                if kind is not None:
                    return self._at_home(name, original, args, kwargs, kind)
            try:
                # Handing on keyword arguments that are not there takes longer than to look.
                return original(*args, **kwargs) if kwargs else original(*args)
            except (RuntimeError, TypeError) as error:
                kind = refusal(error)
                subject = self._subject(args, kwargs)
                if kind is None or subject[0] is None or (kind == NO_DOUBLE and self._settle is None):
                    raise
            refusals.add(name, *subject, kind)
            return self._at_home(name, original, args, kwargs, kind)

        return wrapper

    def _subject(self, args: tuple, kwargs: dict[str, Any]) -> Subject:
        """The dtype that the device is asked to compute in, ``None`` if it is not asked."""
        values = (*args, *kwargs.values())
        found = next((v.dtype for v in values if isinstance(v, torch.Tensor) and v.device == self._device), None)
        asked = next((v for v in values if isinstance(v, torch.dtype)), found)
        return (asked if found is not None else None, str(self._device))

    def _at_home(self, name: str, original: Callable[..., Any], args: tuple, kwargs: dict[str, Any], kind: str) -> Any:
        """Compute on the CPU, and bring the result back."""
        if kind != NO_DOUBLE:
            self._left(name, "CPU", kind)
        at_home = {key: cpu.home(value, self._device) for key, value in kwargs.items()}
        given = original(*cpu.home(args, self._device), **at_home)
        out = kwargs.get("out")
        if out is not None:
            cpu.write_back(out, at_home["out"])
            return out
        back = self._settle if kind == NO_DOUBLE and self._settle is not None else self._away
        return torch.utils._pytree.tree_map_only(torch.Tensor, back, given)

    def _away(self, value: torch.Tensor) -> torch.Tensor:
        return cpu.away(value, self._device)


def guarded(owner: Any, doubles: bool) -> dict[str, Callable[..., Any]]:
    """The functions of a module, or methods of a class, that need a guard; ``doubles``: those about float64 too."""
    names = LIMITED | COMPUTING if doubles else LIMITED
    if isinstance(owner, type):
        names = names - HANDING_ON
    return {name: getattr(owner, name) for name in sorted(names) if hasattr(owner, name)}
