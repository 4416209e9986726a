"""Modules: how ``Module.to`` reads its arguments."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install


@patch("cpu", "mps", "cuda")
def parse_to(editor: Editor, driver: Driver) -> None:
    """``Module.to`` and ``PackedSequence.to`` parse their arguments in C; the device among them is translated.

    An integer means the accelerator, which C++ looks for among those compiled in: it is named before C++ sees it.
    Programs that call the parser themselves (Lightning does, to know where a module is) keep the device they named.
    """
    original = torch._C._nn._parse_to
    translator = editor.translator

    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        if args and args[0].__class__ is int:
            args = (torch.device("cuda", args[0]), *args[1:])
        if kwargs.get("device").__class__ is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        if args and args[0] == "cpu:-1":
            args = (translator.device(args[0]), *args[1:])
        device, *rest = original(*args, **kwargs)
        if device is None or not sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
            return (device, *rest)
        return (translator.device(device), *rest)

    editor.set(torch._C._nn, "_parse_to", _parse_to)


@patch("cpu", "mps")
def empty(editor: Editor, driver: Driver) -> None:
    """``Module.to_empty(device="cuda")`` hands the device to ``torch.empty_like``, and accepts integers."""
    original = torch.nn.Module.to_empty
    translator = editor.translator

    def to_empty(self: torch.nn.Module, *, device: Any, recurse: bool = True) -> torch.nn.Module:
        return original(self, device=None if device is None else translator.device(device), recurse=recurse)

    install(editor, torch.nn.Module, "to_empty", disguise(to_empty, original), original)
