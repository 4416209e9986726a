"""Errors of the accelerator become CUDA's: in its types, and where the program believes in CUDA in its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .error_messages import in_cudas_words

if TYPE_CHECKING:
    from ...drivers import Driver

#: Exactly these: torch's C++ raises no classes of its own for what is translated here.
PLAIN_ERRORS = frozenset({RuntimeError, TypeError, ValueError, IndexError})


class Errors:
    """How errors of the accelerator are translated."""

    def __init__(self, driver: Driver, words: bool, on_cpu: Callable[[], bool] = lambda: False) -> None:
        self._driver = driver
        self._words = words
        #: whether all that is on the accelerator is the CPU's to the program
        self._on_cpu = on_cpu

    def translated(self, error: BaseException) -> BaseException:
        """CUDA's error for the device's out-of-memory error; any other is returned as it is, in CUDA's words."""
        if error.__class__ not in PLAIN_ERRORS or not error.args or error.args[0].__class__ is not str:
            return error
        if error.__class__ is RuntimeError:
            other = self._driver.memory.translated(error)
            if other is not error:
                return other
        if self._words:
            shown = in_cudas_words(error.args[0], self._on_cpu())
            if shown is not error.args[0]:
                error.args = (shown, *error.args[1:])
        return error
