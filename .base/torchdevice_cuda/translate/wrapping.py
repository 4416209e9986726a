"""How a C function of torch is wrapped so that nothing else about it changes.

A wrapper has the original's name, documentation and (lack of a) signature, pickles by reference, is known to
TorchScript, to ``torch.compile`` and to ``with torch.device(...)`` as the original is, and is what torch functions
(``__torch_function__``, function modes) are given, so that comparing them with ``torch.zeros`` stays true.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function

from .patches import Editor

Function = Callable[..., Any]
#: Classes of tensors that no torch function of a program's own can belong to.
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


class Modes(list):
    """The function modes of the program in force in any thread; a wrapper looks only at whether there is one.

    A list, since appending and popping need no lock. ``with torch.device(...)`` is a mode too, but torch knows the
    originals in it and needs no detour.
    """

    def watch(self, editor: Editor) -> None:
        """Keep account of modes as they are entered and left."""
        enter, leave = TorchFunctionMode.__enter__, TorchFunctionMode.__exit__

        @functools.wraps(enter)
        def __enter__(mode: TorchFunctionMode) -> TorchFunctionMode:
            entered = enter(mode)
            self.append(None)
            return entered

        @functools.wraps(leave)
        def __exit__(mode: TorchFunctionMode, kind: Any, value: Any, traceback: Any) -> None:
            if self:
                self.pop()
            return leave(mode, kind, value, traceback)

        editor.set(TorchFunctionMode, "__enter__", __enter__)
        editor.set(TorchFunctionMode, "__exit__", __exit__)
        editor.on_undo(self.clear)


modes = Modes()


def dispatched(wrapper: Function, subjects: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Hand a call to the program's torch functions under the wrapper's own identity.

    ``NotImplemented`` if there is none to hand it to. ``subjects`` are the arguments that may have one.
    """
    if torch._C._has_torch_function(subjects) or (modes and torch._C._is_torch_function_mode_enabled()):
        return handle_torch_function(wrapper, subjects, *args, **kwargs)
    return NotImplemented


def disguise(wrapper: Function, original: Function) -> Function:
    """Give a wrapper the original's outward appearance."""
    return functools.update_wrapper(wrapper, original, updated=())


def install(editor: Editor, owner: Any, name: str, wrapper: Function, original: Function) -> None:
    """Put a wrapper in an original's place, everywhere the original is known."""
    if not isinstance(original, types.FunctionType):
        # Builtins pickle by other means than functions, which are looked up by these two names.
        in_class = inspect.isclass(owner)
        wrapper.__module__ = owner.__module__ if in_class else owner.__name__
        wrapper.__qualname__ = f"{owner.__qualname__}.{name}" if in_class else name
    editor.set(owner, name, wrapper)
    _tell_torchscript(editor, wrapper, original)
    _tell_device_contexts(editor, wrapper, original)
    _tell_dynamo(editor, wrapper, original)
    _tell_lazy_parameters(editor, wrapper, original)
    editor.wrapped[id(original)] = (original, wrapper)


def _tell_torchscript(editor: Editor, wrapper: Function, original: Function) -> None:
    """TorchScript looks builtins up by identity."""
    import torch.jit._builtins as builtins

    name = builtins._find_builtin(original)
    if name is not None:
        editor.item(builtins._get_builtin_table(), id(wrapper), name)


def _tell_device_contexts(editor: Editor, wrapper: Function, original: Function) -> None:
    """``with torch.device(...)`` and ``set_default_device`` act on a fixed set of functions."""
    from torch.utils._device import _device_constructors

    constructors = _device_constructors()
    if original in constructors and wrapper not in constructors:
        constructors.add(wrapper)
        editor.on_undo(lambda: constructors.discard(wrapper))


def _tell_dynamo(editor: Editor, wrapper: Function, original: Function) -> None:
    """torch.compile knows functions by identity; tables it has made already get the wrapper beside the original.

    Tables it has yet to make are made of the names of torch, which then are the wrappers.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    variables = sys.modules.get("torch._dynamo.variables.torch")
    if rules is not None and rules.get_torch_obj_rule_map.cache_info().currsize:
        table = rules.get_torch_obj_rule_map()
        if original in table:
            editor.item(table, wrapper, table[original])
    for name in ("constant_fold_functions", "constant_fold_functions_need_guards"):
        table = getattr(variables, name, None)
        if isinstance(table, dict) and original in table:
            editor.item(table, wrapper, table[original])


def _tell_lazy_parameters(editor: Editor, wrapper: Function, original: Function) -> None:
    """A parameter of a lazy module has no shape yet, and allows only methods that need none: a fixed list."""
    from torch.nn.parameter import UninitializedTensorMixin

    allowed = UninitializedTensorMixin._allowed_methods
    if original in allowed:
        allowed.append(wrapper)
        editor.on_undo(lambda: allowed.remove(wrapper))


def forget_derived(editor: Editor) -> None:
    """Have torch derive its sets of overridable functions again, from what its names mean now; and after undoing."""

    def forget() -> None:
        for module in ("torch.overrides", "torch._dynamo.trace_rules", "torch._dynamo.variables.torch"):
            for name in _DERIVED:
                cached = getattr(sys.modules.get(module), name, None)
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()

    forget()
    editor.on_undo(forget)


_DERIVED = (
    "get_ignored_functions",
    "get_testing_overrides",
    "_get_overridable_functions",
    "get_overridable_functions",
    "_get_tensor_methods",
    "get_tensor_method",
)


def follow(editor: Editor) -> None:
    """Names that the program bound before activation (``from torch import zeros``) follow."""
    for name, module in list(sys.modules.items()):
        if module is None or name.split(".")[0] in ("torch", "torchdevice_cuda"):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            entry = editor.wrapped.get(id(value))
            if entry is not None and entry[0] is value:
                editor.set(module, attribute, entry[1])
