"""Names and identities of torch's functions: what was bound before, what is derived from them, function modes."""

from __future__ import annotations

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import follow, forget_derived, modes

_MODE = "torch.overrides.TorchFunctionMode"


@patch(f"{_MODE}.__enter__", f"{_MODE}.__exit__", traits=Trait.REDIRECTS)
def function_modes(context: Context) -> None:
    """Wrappers hand calls to the program's function modes under their own identity, if there are any in force."""
    modes.watch(context.editor)


@patch(traits=Trait.REDIRECTS)
def bound_before(context: Context) -> None:
    """``from torch import zeros`` before activation must mean the same function as ``torch.zeros`` after it."""
    follow(context)


@patch(traits=Trait.REDIRECTS)
def derived(context: Context) -> None:
    """Sets of functions that torch derived from its names and keeps (``torch.overrides``) are derived anew."""
    forget_derived(context.editor)
