"""Wrap a C function of torch so that nothing else about it changes.

A wrapper has the original's name, documentation and (lack of a) signature, and pickles by reference. TorchScript,
``torch.compile`` and ``with torch.device(...)`` treat it as the original. ``__torch_function__`` and function modes get
the wrapper, so that comparing it with ``torch.zeros`` stays true.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function

from ... import _compat
from ...wrapper_tensors.doubles import HostDoubleTensor

if TYPE_CHECKING:
    from .context import Context
    from .editor import Editor

Function = Callable[..., Any]
#: Tensor classes without a ``__torch_function__`` of the program's. HostDoubleTensor is torchdevice_cuda's and handles
#: calls of C++ functions, after translation.
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, HostDoubleTensor})
#: The method that TorchScript calls to get the object to compile instead.
_SCRIPTED = "__prepare_scriptable__"


class Modes(list[None]):
    """The program's function modes in force in any thread; a wrapper only checks whether there are any.

    It is a list, since appending and popping need no lock. ``with torch.device(...)`` is a mode too, but torch uses the
    originals in it, so it is not listed.
    """

    def watch(self, editor: Editor) -> None:
        """Record modes as they are entered and left."""
        enter: Function = TorchFunctionMode.__enter__
        leave: Function = TorchFunctionMode.__exit__

        @functools.wraps(enter)
        def __enter__(mode: TorchFunctionMode) -> Any:
            entered = enter(mode)
            self.append(None)
            return entered

        @functools.wraps(leave)
        def __exit__(mode: TorchFunctionMode, kind: Any, value: Any, traceback: Any) -> Any:
            if self:
                self.pop()
            return leave(mode, kind, value, traceback)

        editor.set(TorchFunctionMode, "__enter__", __enter__)
        editor.set(TorchFunctionMode, "__exit__", __exit__)
        editor.on_undo(self.clear)


modes = Modes()


def dispatch_torch_function(
    wrapper: Function, subjects: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Dispatch a call to the program's ``__torch_function__`` with the wrapper as its function.

    Return ``NotImplemented`` if there is none. ``subjects`` are the arguments that may have one. Each wrapper first
    checks ``modes`` and ``PLAIN`` inline, because a call costs more than both checks.
    """
    if torch._C._has_torch_function(subjects) or (modes and torch._C._is_torch_function_mode_enabled()):
        return handle_torch_function(wrapper, subjects, *args, **kwargs)
    return NotImplemented


def hand(method: Function, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dispatch a tensor method: return ``NotImplemented``, or the result."""
    return dispatch_torch_function(method, (self,), (self, *args), kwargs)


def copy_metadata(wrapper: Function, original: Function) -> Function:
    """Return a wrapper with the original's metadata.

    TorchScript compiles the functions that it meets, torch's Python functions included, and queries each for what to
    compile: that is the original, which is all that TorchScript supports. In compiled code requests are taken
    literally.
    """
    functools.update_wrapper(wrapper, original, updated=())
    if isinstance(original, types.FunctionType):
        innermost = scripted(original)
        vars(wrapper)[_SCRIPTED] = lambda: innermost
    return wrapper


def scripted(function: Any) -> Any:
    """Return the function that TorchScript compiles: for a wrapper, torch's innermost function."""
    prepare = vars(function).get(_SCRIPTED) if isinstance(function, types.FunctionType) else None
    return function if prepare is None else prepare()


def install(context: Context, owner: Any, name: str, wrapper: Function, original: Function) -> None:
    """Install a wrapper with the original's metadata everywhere the original is known."""
    editor, wrapper = context.editor, copy_metadata(wrapper, original)
    if not isinstance(original, types.FunctionType):
        # Builtins pickle differently from functions, which are looked up by these two names.
        in_class = inspect.isclass(owner)
        wrapper.__module__ = owner.__module__ if in_class else owner.__name__
        wrapper.__qualname__ = f"{owner.__qualname__}.{name}" if in_class else name
    editor.set(owner, name, wrapper)
    _tell_torchscript(editor, wrapper, original)
    _tell_device_contexts(editor, wrapper, original)
    _tell_dynamo(editor, wrapper, original)
    _tell_lazy_parameters(editor, wrapper, original)
    context.wrapped[id(original)] = (original, wrapper)


def _tell_torchscript(editor: Editor, wrapper: Function, original: Function) -> None:
    """Register the wrapper with TorchScript, which looks builtins up by identity."""
    import torch.jit._builtins as builtins

    name = builtins._find_builtin(original)
    if name is not None:
        editor.item(builtins._get_builtin_table(), id(wrapper), name)


def _tell_device_contexts(editor: Editor, wrapper: Function, original: Function) -> None:
    """Register the wrapper with ``with torch.device(...)``, which acts on a fixed set of functions."""
    from torch.utils._device import _device_constructors

    constructors = _device_constructors()
    if original in constructors and wrapper not in constructors:
        editor.member(constructors, wrapper)


def _tell_dynamo(editor: Editor, wrapper: Function, original: Function) -> None:
    """Register the wrapper with torch.compile, which knows functions by identity, in tables that exist already.

    Tables that are created later use the names in torch, which are the wrappers then.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    variables = sys.modules.get("torch._dynamo.variables.torch")
    if rules is not None and rules.get_torch_obj_rule_map.cache_info().currsize:
        table = rules.get_torch_obj_rule_map()
        if original in table:
            editor.item(table, wrapper, table[original])
    for name in _compat.FOLDED_BY_DYNAMO:
        table = getattr(variables, name, None)
        if isinstance(table, dict) and original in table:
            editor.item(table, wrapper, table[original])


def _tell_lazy_parameters(editor: Editor, wrapper: Function, original: Function) -> None:
    """Register the wrapper for parameters of lazy modules: without a shape, they allow only a fixed list of methods."""
    from torch.nn import parameter

    mixin: Any = vars(parameter)["UninitializedTensorMixin"]  # torch's stubs leave it out
    allowed: list[Any] = mixin._allowed_methods
    if original in allowed:
        editor.member(allowed, wrapper)


def forget_derived(editor: Editor) -> None:
    """Make torch compute its sets of overridable functions again, from the current names; also after undoing."""
    _compat.forget_derived()
    editor.on_undo(_compat.forget_derived)


def follow(context: Context) -> None:
    """Rebind names that the program imported before activation (``from torch import zeros``)."""
    for name, module in list(sys.modules.items()):
        if module is None or name.split(".")[0] in ("torch", "torchdevice_cuda"):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            latest = value
            # A wrapper may itself be wrapped.
            while (entry := context.wrapped.get(id(latest))) is not None and entry[0] is latest:
                latest = entry[1]
            if latest is not value:
                context.editor.set(module, attribute, latest)
