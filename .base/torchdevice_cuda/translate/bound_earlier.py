"""Names that a program bound before activation."""

from __future__ import annotations

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import follow, forget_derived, modes


@patch("cpu", "mps", "cuda")
def function_modes(editor: Editor, driver: Driver) -> None:
    """Wrappers hand calls to the program's function modes under their own identity, if there are any in force."""
    modes.watch(editor)


@patch("cpu", "mps", "cuda")
def names(editor: Editor, driver: Driver) -> None:
    """``from torch import zeros`` before activation must mean the same function as ``torch.zeros`` after it."""
    follow(editor)


@patch("cpu", "mps", "cuda")
def derived(editor: Editor, driver: Driver) -> None:
    """Sets of functions that torch derived from its names and keeps (``torch.overrides``) are derived anew."""
    forget_derived(editor)
