"""Errors of the Apple GPU become CUDA's, and calls that raise none pay nothing.

torch's C++ raises wherever an operator is called, and wrapping every operator to see its errors would slow down all
that go well. From Python 3.12 on the interpreter itself tells of an exception as it is raised (``sys.monitoring``): out
of memory becomes ``torch.cuda.OutOfMemoryError``, and texts that name the device name CUDA's.

Before, errors are seen where torchdevice_cuda calls torch itself (factories, moves, the backward pass), and out of
memory also when the program asks for the class to catch: ``except torch.cuda.OutOfMemoryError`` looks the name up while
the error is in flight.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

import torch

from ..drivers import Driver
from ..drivers.mpsmemory import MpsMemory
from .patches import Editor, patch
from .words import in_cudas_words
from .wrapping import disguise

_TOLD_OF_ERRORS = hasattr(sys, "monitoring")
#: Exactly these: torch's C++ raises no classes of its own for what is translated here.
_PLAIN = frozenset({RuntimeError, TypeError, ValueError, IndexError})
_OUT_OF_MEMORY = "OutOfMemoryError"


class Errors:
    """How errors of the GPU are translated."""

    def __init__(self, driver: Driver, words: bool) -> None:
        self._driver = driver
        self._words = words

    def translated(self, error: BaseException) -> BaseException:
        """CUDA's error for the GPU's out-of-memory error; any other is returned as it is, in CUDA's words."""
        if error.__class__ not in _PLAIN or not error.args or error.args[0].__class__ is not str:
            return error
        if error.__class__ is RuntimeError:
            other = self._driver.memory.translated(error)
            if other is not error:
                return other
        if self._words:
            shown = in_cudas_words(error.args[0])
            if shown is not error.args[0]:
                error.args = (shown, *error.args[1:])
        return error


def watch(editor: Editor, translated: Callable[[BaseException], BaseException]) -> None:
    """Have every exception translated as it is raised, by the interpreter (Python 3.12 and later)."""
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    free = [tool for tool in (3, 4) if monitoring.get_tool(tool) is None]  # the others belong to kinds of tools
    if not free:
        return
    plain = _PLAIN

    def raised(code: CodeType, offset: int, error: BaseException) -> None:
        if error.__class__ in plain:
            other = translated(error)
            if other is not error:
                try:
                    raise other.with_traceback(error.__traceback__) from None
                finally:
                    # This frame is in the error's traceback: what it names would hold the error, and through it all
                    # the tensors of the frames that failed, until the next garbage collection.
                    del other, error

    monitoring.use_tool_id(free[0], "torchdevice_cuda")
    editor.on_undo(lambda: monitoring.free_tool_id(free[0]))
    monitoring.register_callback(free[0], monitoring.events.RAISE, raised)
    monitoring.set_events(free[0], monitoring.events.RAISE)
    editor.on_undo(lambda: monitoring.set_events(free[0], monitoring.events.NO_EVENTS))


@patch("mps")
def as_they_are_raised(editor: Editor, driver: Driver) -> None:
    """Errors of operators, from Python 3.12 on."""
    if _TOLD_OF_ERRORS:
        watch(editor, editor.errors.translated)


@patch("mps")
def backward(editor: Editor, driver: Driver) -> None:
    """Errors of the backward pass, one call of which runs hundreds of operators; before Python 3.12."""
    if _TOLD_OF_ERRORS:
        return
    import torch.autograd.graph

    translated = editor.errors.translated
    original = torch.autograd.graph._engine_run_backward

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            other = translated(error)
            if other is error:
                raise
        raise other

    for owner in (torch.autograd.graph, torch.autograd):
        editor.set(owner, "_engine_run_backward", disguise(_engine_run_backward, original))


@patch("mps")
def out_of_memory(editor: Editor, driver: Driver) -> None:
    """``except torch.cuda.OutOfMemoryError`` meets what the GPU raised inside an operator; before Python 3.12.

    The name is looked up while the error is in flight. If that is the GPU's plain error for memory that ran out, it is
    given CUDA's words, counted, and the class that catches it is its own.
    """
    if _TOLD_OF_ERRORS:
        return
    in_flight = InFlight(driver.memory)
    for module in (torch.cuda, torch):
        editor.set(module, "__getattr__", in_flight.attributes_of(module))
        editor.remove(module, _OUT_OF_MEMORY)


class InFlight:
    """Which class catches the error in flight where the program wants to catch that memory ran out."""

    def __init__(self, memory: MpsMemory) -> None:
        self._memory = memory
        self._latest: str | None = None  # the text of the error that was last given CUDA's words

    def out_of_memory(self) -> type[BaseException]:
        """CUDA's class, or that of the GPU's own error if it is the one in flight."""
        error = sys.exc_info()[1]
        if error.__class__ is not RuntimeError:
            return torch._C.OutOfMemoryError
        other = self._memory.translated(error)
        if other is not error:
            error.args = other.args
            self._latest = str(error)
        return RuntimeError if str(error) == self._latest else torch._C.OutOfMemoryError

    def attributes_of(self, module: ModuleType) -> Callable[[str], Any]:
        """The ``__getattr__`` of a module that has lost the class to this."""
        original = vars(module).get("__getattr__")

        def __getattr__(name: str) -> Any:
            if name == _OUT_OF_MEMORY:
                return self.out_of_memory()
            if original is not None:
                return original(name)
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")

        return __getattr__
