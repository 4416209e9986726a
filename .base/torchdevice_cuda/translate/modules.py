"""Modules: how ``Module.to`` reads its arguments."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install


@patch("cpu", "mps", "cuda")
def parse_to(editor: Editor, driver: Driver) -> None:
    """``Module.to`` and Lightning parse the arguments of ``to`` in C, which knows only compiled-in accelerators.

    An integer means the accelerator, and the toggle is no device at all: both are named before C++ sees them. The
    device is returned as the program named it: the tensors' own ``to`` translates it, and modules that keep it
    (``LightningModule.device``) say ``cuda``.
    """
    original = torch._C._nn._parse_to
    translator = editor.translator

    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        if args and args[0].__class__ is int:
            args = (torch.device("cuda", args[0]), *args[1:])
        if kwargs.get("device").__class__ is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        if args and args[0].__class__ is str and args[0] == "cpu:-1":
            args = (translator.device(args[0]), *args[1:])
        if kwargs.get("device").__class__ is str and kwargs["device"] == "cpu:-1":
            kwargs["device"] = translator.device(kwargs["device"])
        return original(*args, **kwargs)

    editor.set(torch._C._nn, "_parse_to", _parse_to)


@patch("cpu", "mps")
def empty(editor: Editor, driver: Driver) -> None:
    """``Module.to_empty(device="cuda")`` hands the device to ``torch.empty_like``, and accepts integers."""
    original = torch.nn.Module.to_empty
    translator = editor.translator

    def to_empty(self: torch.nn.Module, *, device: Any, recurse: bool = True) -> torch.nn.Module:
        return original(self, device=None if device is None else translator.device(device), recurse=recurse)

    install(editor, torch.nn.Module, "to_empty", disguise(to_empty, original), original)
