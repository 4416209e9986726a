"""Translation of the accelerator's errors into CUDA's, at no cost for calls that raise none.

torch's C++ raises in any operator, and wrapping every operator would slow down all calls that succeed. From Python 3.12
on the interpreter reports each exception as it is raised (``sys.monitoring``): out of memory becomes
``torch.cuda.OutOfMemoryError``, and messages that name the device name CUDA's.

Before 3.12, errors are translated where torchdevice_cuda calls torch itself (factories, moves, the backward pass) and
where they are displayed, and out-of-memory errors also when the program looks up the class to catch:
``except torch.cuda.OutOfMemoryError`` looks the name up while the error is being handled.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from traceback import TracebackException
from types import CodeType, ModuleType
from typing import Any

import torch
import torch.autograd.graph

from ...drivers.memory import Memory
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.editor import Editor
from ..core.errors import PLAIN_ERRORS
from ..core.registry import patch
from ..core.wrapping import copy_metadata

_TOLD_OF_ERRORS = hasattr(sys, "monitoring")
_OUT_OF_MEMORY = "OutOfMemoryError"


def watch(editor: Editor, translated: Callable[[BaseException], BaseException]) -> None:
    """Translate every exception as it is raised, through the interpreter (Python 3.12 and later)."""
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    free = [tool for tool in (3, 4) if monitoring.get_tool(tool) is None]  # the others are reserved for kinds of tools
    if not free:
        return
    plain = PLAIN_ERRORS

    def raised(code: CodeType, offset: int, error: BaseException) -> None:
        if error.__class__ in plain:
            other = translated(error)
            if other is not error:
                try:
                    raise other.with_traceback(error.__traceback__) from None
                finally:
                    # This frame is in the error's traceback: its variables would keep the error, and through it all the
                    # tensors of the frames that failed, alive until the next garbage collection.
                    del other, error

    monitoring.use_tool_id(free[0], "torchdevice_cuda")
    editor.on_undo(lambda: monitoring.free_tool_id(free[0]))
    monitoring.register_callback(free[0], monitoring.events.RAISE, raised)
    monitoring.set_events(free[0], monitoring.events.RAISE)
    editor.on_undo(lambda: monitoring.set_events(free[0], monitoring.events.NO_EVENTS))


@patch(traits=Trait.PARTIAL)
def as_they_are_raised(context: Context) -> None:
    """Errors of operators, from Python 3.12 on."""
    if _TOLD_OF_ERRORS:
        watch(context.editor, context.errors.translated)


@patch("sys.excepthook", "threading.excepthook", "traceback.TracebackException.__init__", traits=Trait.DISGUISED)
def as_they_are_shown(context: Context) -> None:
    """Errors that are not caught, and those that are logged; before Python 3.12."""
    if _TOLD_OF_ERRORS:
        return
    editor, translated = context.editor, context.errors.translated

    def translate(error: BaseException | None) -> None:
        """Translate the messages of an error and of the errors that caused it."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            other = translated(error)
            if other is not error:
                error.args = other.args
            error = error.__cause__ or error.__context__

    def showing(original: Callable[..., Any], error_of: Callable[..., BaseException | None]) -> Callable[..., Any]:
        def show(*args: Any, **kwargs: Any) -> Any:
            translate(error_of(*args, **kwargs))
            return original(*args, **kwargs)

        return copy_metadata(show, original)

    editor.set(sys, "excepthook", showing(sys.excepthook, lambda kind, error, traceback: error))
    editor.set(threading, "excepthook", showing(threading.excepthook, lambda raised: raised.exc_value))
    printed: Any = TracebackException.__init__
    shown = showing(printed, lambda self, kind, error, *args, **kwargs: error)
    editor.set(TracebackException, "__init__", shown)


#: Modules of torch's C functions.
_FUNCTIONS = ("_VariableFunctions", "_nn", "_linalg", "_fft", "_special", "_sparse")
#: Methods that take a tensor beside their own, and those whose kernels refuse dtypes. Compiled code has room for 192.
_METHODS = (
    "__add__ __and__ __eq__ __floordiv__ __ge__ __gt__ __iadd__ __iand__ __ilshift__ __imul__ __ior__ __irshift__ "
    "__isub__ __ixor__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __or__ __rshift__ __sub__ "
    "__truediv__ __xor__ abs add add_ addbmm addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv allclose atan2 "
    "baddbmm bernoulli_ bitwise_and bitwise_or bmm clamp clamp_ cross dist div div_ dot eq equal expand_as "
    "exponential_ fmod gather ge gt hypot index_add index_add_ index_copy index_copy_ index_fill index_put index_put_ "
    "index_select inner le lerp lerp_ log_normal_ logical_and lt masked_fill masked_fill_ masked_scatter masked_select "
    "matmul max maximum min minimum mm mul mul_ mv ne normal_ outer pow put_ random_ remainder repeat_interleave round "
    "scatter scatter_ scatter_add scatter_add_ set_ sub sub_ take take_along_dim tanh uniform_ vdot view_as where xlogy"
).split()


@patch("torch.<function>", "torch.Tensor.<method>", traits=Trait.DISGUISED | Trait.PARTIAL)
def of_failed_calls(context: Context) -> None:
    """Calls that fail because of a device or a dtype: CUDA names the argument and the kernel, Metal does not.

    Without compiled code the device's own words remain.
    """
    rescue, explained = context.driver.rescue, context.errors.explained
    if rescue is None:
        return

    def handler(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, error: Any) -> Any:
        if error.__class__ in PLAIN_ERRORS or error.__class__ is NotImplementedError:
            other = explained(function, args, kwargs or {}, error)
            if other is not error:
                try:
                    raise other from None
                finally:
                    # The error's traceback has this frame, whose variables would keep the call's tensors alive.
                    del other, error, args, kwargs
        return NotImplemented

    modules = [getattr(torch._C, name) for name in _FUNCTIONS]
    found = [getattr(module, name) for module in modules for name in dir(module) if not name.startswith("__")]
    found += [getattr(torch._C.TensorBase, name) for name in _METHODS]
    handled = []
    for function in found:
        with contextlib.suppress(TypeError):  # a constant, or a function without keywords
            rescue(function, handler)
            handled.append(function)

    def undo() -> None:
        for function in handled:
            rescue(function, None)

    context.editor.undone("torch.functions", undo)


_ENGINE = "_engine_run_backward"


@patch(f"torch.autograd.graph.{_ENGINE}", f"torch.autograd.{_ENGINE}", traits=Trait.PARTIAL)
def backward(context: Context) -> None:
    """Errors of the backward pass, one call of which runs hundreds of operators; before Python 3.12."""
    if _TOLD_OF_ERRORS:
        return
    translated = context.errors.translated
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
        context.editor.set(owner, _ENGINE, copy_metadata(_engine_run_backward, original))


@patch(
    *(f"torch.{place}{name}" for place in ("", "cuda.") for name in ("__getattr__", _OUT_OF_MEMORY)),
    traits=Trait.PARTIAL,
)
def out_of_memory(context: Context) -> None:
    """``except torch.cuda.OutOfMemoryError`` must catch the GPU's error from inside an operator; before Python 3.12.

    The name is looked up while the error is being handled. If that is the GPU's plain error for exhausted memory, it
    gets CUDA's message, is counted, and the name resolves to its own class.
    """
    if _TOLD_OF_ERRORS:
        return
    in_flight = InFlight(context.driver.memory)
    for module in (torch.cuda, torch):
        context.editor.set(module, "__getattr__", in_flight.attributes_of(module))
        context.editor.remove(module, _OUT_OF_MEMORY)


class InFlight:
    """Resolves the class that catches an out-of-memory error to that of the error being handled."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._latest: str | None = None  # the message of the last error that was translated

    def out_of_memory(self) -> type[BaseException]:
        """Return CUDA's class, or that of the GPU's own error if it is being handled."""
        error = sys.exc_info()[1]
        if error is None or error.__class__ is not RuntimeError:
            return torch._C.OutOfMemoryError
        other = self._memory.translated(error)
        if other is not error:
            error.args = other.args
            self._latest = str(error)
        return RuntimeError if str(error) == self._latest else torch._C.OutOfMemoryError

    def attributes_of(self, module: ModuleType) -> Callable[[str], Any]:
        """Return the ``__getattr__`` of a module, which replaces its attribute for the class."""
        original = vars(module).get("__getattr__")

        def __getattr__(name: str) -> Any:
            if name == _OUT_OF_MEMORY:
                return self.out_of_memory()
            if original is not None:
                return original(name)
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")

        return __getattr__
