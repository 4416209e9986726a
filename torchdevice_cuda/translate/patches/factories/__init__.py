"""Functions that make tensors: their ``device`` argument is translated, and only it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from ....drivers.traits import NONE, Trait
from ...core.context import Context
from ...core.entering import entering
from ...core.registry import patch
from ...core.retry import given_second_try
from ...core.wrapping import Function, install
from ..random import draws_on_its_generator
from .common import ENTRANCES, constructors
from .counted import counted
from .host import on_host
from .partial import on_partial
from .separate import on_separate

Maker = Callable[[Context, str, Function], Function]
#: How a factory is wrapped, by the first traits that the driver has.
_MAKERS: tuple[tuple[Trait, Maker], ...] = (
    (Trait.CPU_TENSORS, on_host),
    (Trait.PARTIAL, on_partial),
    (NONE, on_separate),
)


@patch("torch.<factory>", "torch.fft.<factory>", "torch.nested.nested_tensor", traits=Trait.REDIRECTS)
def factories(context: Context) -> None:
    """Every function of torch that makes a tensor on a device it is given, or on none."""
    make = next(maker for trait, maker in _MAKERS if trait in context.traits)
    for name, (owner, attribute, original) in constructors().items():
        wrapper = make(context, name, original)
        # Made of tensors, it draws like other functions of tensors.
        if name == "normal" and Trait.ACCELERATES in context.traits:
            wrapper = draws_on_its_generator(context, wrapper)
        if Trait.COUNTED in context.traits:
            wrapper = counted(context, name, wrapper)
        install(context, owner, attribute, wrapper, original)


@patch("torch.<factory>", "torch.fft.<factory>", traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """Factories understand ``cuda`` and ``cpu`` themselves; ``mps`` and the toggle are translated when they fail."""
    for owner, attribute, original in constructors().values():
        if isinstance(original, types.BuiltinFunctionType):  # others hand the device to one of these
            given_second_try(context, f"{owner.__name__}.{attribute}", original)


@patch("torch.<entrance>", "torch.utils.dlpack.from_dlpack", traits=Trait.ACCELERATES)
def entrances(context: Context) -> None:
    """from_numpy and its kin give CPU tensors; where requests for no device go to the accelerator, these follow."""
    enter = entering(context)
    for name in ENTRANCES:
        original = getattr(torch, name)

        def wrapper(*args: Any, _original: Function = original, **kwargs: Any) -> torch.Tensor:
            return enter(_original(*args, **kwargs))

        install(context, torch, name, wrapper, original)
    # The name under which programs older than torch.from_dlpack know it.
    context.editor.set(torch.utils.dlpack, "from_dlpack", vars(torch)["from_dlpack"])
