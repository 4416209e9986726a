"""A kernel at the device's dispatch key for each operator that has none there.

Registered with the dispatcher, so that operators the backend has cost nothing, backward passes and operators made of
others are covered, and no error has to be caught.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ..report.departures import departures
from ..translate.callers import site
from . import compressed, cpu, guards, mlx_ops
from .capabilities import cut_off, keys, limited, missing

_log = logging.getLogger("torchdevice_cuda")
NO_KERNEL = "the GPU's backend has no kernel"


class FallbackError(NotImplementedError):
    """An operator would leave the accelerator, and the user said that this is an error."""


class Chain:
    """What an operator without a kernel does, by the ``fallback`` setting."""

    def __init__(self, setting: str, device: torch.device, note: Callable[[], None]) -> None:
        self._setting = setting
        self.device = device
        self._note = note
        self._warned: set[str] = set()

    def left(self, name: str, where: str, why: str) -> None:
        """An operator leaves the accelerator: count it, and say so as the setting wants."""
        if self._setting == "error":
            file, line = site()
            raise FallbackError(f"{file}:{line}: {name} would leave the accelerator: {why} (--fallback error)")
        first = departures.count(name, where, why) == 1
        if self._setting == "warn" and name not in self._warned:
            self._warned.add(name)
            file, line = site()
            warnings.warn_explicit(f"{name} runs on {where}: {why}", UserWarning, file, line)
        elif first:
            _log.info("%s runs on %s: %s", name, where, why)

    def kernel(self, op: Any) -> Callable[..., Any]:
        """The kernel of one operator."""
        name, device, shape = op.name(), self.device, cpu.Shape.of(op)
        entry = mlx_ops.TABLE.get(name.removeprefix("aten::"))
        inner = functools.partial(cpu.asked, op) if name in cpu.ASKING else None

        def compute(*args: Any, **kwargs: Any) -> Any:
            if entry is not None and mlx_ops.wins(entry, args, kwargs):
                self.left(name, "MLX", NO_KERNEL)
                made = cpu.compute(shape, device, args, kwargs, functools.partial(mlx_ops.run, entry))
            else:
                self.left(name, "CPU", NO_KERNEL)
                made = cpu.compute(shape, device, args, kwargs, inner)
            self._note()
            return made

        return compute


def overload(name: str) -> Any:
    """The operator object of ``aten::name.overload``."""
    base, _, which = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), which or "default")


def register(chain: Chain) -> Any:
    """Register a kernel for every missing operator, and one over each that refuses; the library that holds them."""
    library = torch.library.Library("aten", "IMPL")
    known = keys()
    refusing = limited("MPS")  # before those that are missing have kernels too
    for key in known:
        for name in missing(key):
            library.impl(name.removeprefix("aten::"), chain.kernel(overload(name)), key)
    for name in cut_off("MPS"):
        library.impl(name.removeprefix("aten::"), overload(name).decompose, "AutogradMPS")
    if "SparseCsrMPS" in known:
        compressed.register(library, chain.kernel)
    with warnings.catch_warnings():
        # torch says once that kernels have been overridden; these call the ones they override.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in refusing:
            op = overload(name)
            native = torch.library.get_kernel(op, "MPS")
            kernel = guards.guard_operator(op, native, chain.device, chain.left)
            library.impl(name.removeprefix("aten::"), kernel, "MPS")
    return library
