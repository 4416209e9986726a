"""Names and identities of torch's functions: names imported earlier, sets derived from them, function modes."""

from __future__ import annotations

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import follow, forget_derived, modes

_MODE = "torch.overrides.TorchFunctionMode"


@patch(f"{_MODE}.__enter__", f"{_MODE}.__exit__", traits=Trait.REDIRECTS)
def function_modes(context: Context) -> None:
    """Wrappers dispatch to the program's function modes with themselves as the function, if any modes are in force."""
    modes.watch(context.editor)


@patch(traits=Trait.REDIRECTS)
def bound_before(context: Context) -> None:
    """``from torch import zeros`` before activation must mean the same function as ``torch.zeros`` after it."""
    follow(context)


@patch(traits=Trait.REDIRECTS)
def derived(context: Context) -> None:
    """Sets of functions that torch computed from its names and caches (``torch.overrides``) must be computed again."""
    forget_derived(context.editor)
