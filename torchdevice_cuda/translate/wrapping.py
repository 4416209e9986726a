"""How a C function of torch is wrapped so that nothing else about it changes.

A wrapper has the original's name, module, documentation and (lack of a) signature, pickles by reference, is known to
TorchScript and to ``with torch.device(...)`` as the original is, and is what torch functions (``__torch_function__``,
function modes) are given, so that comparing them with ``torch.zeros`` stays true.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function_unary

from .patches import Editor

Function = Callable[..., Any]
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


class Modes:
    """How many function modes of the program are in force; a wrapper looks only at whether there is one.

    ``with torch.device(...)`` is a mode too, but torch knows the originals in it and needs no detour.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def watch(self, editor: Editor) -> None:
        """Count modes as they are entered and left."""
        enter, leave = TorchFunctionMode.__enter__, TorchFunctionMode.__exit__

        @functools.wraps(enter)
        def __enter__(mode: TorchFunctionMode) -> TorchFunctionMode:
            entered = enter(mode)
            self.count += 1
            return entered

        @functools.wraps(leave)
        def __exit__(mode: TorchFunctionMode, kind: Any, value: Any, traceback: Any) -> None:
            self.count -= 1
            return leave(mode, kind, value, traceback)

        editor.set(TorchFunctionMode, "__enter__", __enter__)
        editor.set(TorchFunctionMode, "__exit__", __exit__)


modes = Modes()


def dispatched(wrapper: Function, subject: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Hand a call to the program's torch functions under the wrapper's own identity.

    ``NotImplemented`` if there is none to hand it to. ``subject`` is the tensor-like argument, if there is one.
    """
    if type(subject) not in PLAIN and subject is not None and has_torch_function_unary(subject):
        return handle_torch_function(wrapper, (subject,), *args, **kwargs)
    if modes.count and torch._C._is_torch_function_mode_enabled():
        return handle_torch_function(wrapper, (), *args, **kwargs)
    return NotImplemented


def disguise(wrapper: Function, original: Function) -> Function:
    """Give a wrapper the original's outward appearance."""
    functools.update_wrapper(wrapper, original, updated=())
    owner = getattr(original, "__self__", None)
    # A builtin of torch._C._VariableFunctions is known to programs, and to pickle, as an attribute of torch.
    if owner is not None:
        wrapper.__module__, wrapper.__qualname__ = "torch", original.__name__
    return wrapper


def install(editor: Editor, owner: Any, name: str, wrapper: Function, original: Function) -> None:
    """Put a wrapper in an original's place, everywhere the original is known."""
    editor.set(owner, name, wrapper)
    _tell_torchscript(editor, wrapper, original)
    _tell_device_contexts(editor, wrapper, original)
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


def follow(editor: Editor) -> None:
    """Names that the program bound before activation (``from torch import zeros``) follow."""
    for name, module in list(sys.modules.items()):
        if module is None or name.split(".")[0] in ("torch", "torchdevice_cuda"):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            entry = editor.wrapped.get(id(value))
            if entry is not None and entry[0] is value:
                editor.set(module, attribute, entry[1])
