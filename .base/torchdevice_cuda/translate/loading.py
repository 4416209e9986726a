"""``torch.load``: checkpoints written on CUDA."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise

_BEFORE_CUDA = 19  # torch registers CUDA's own restorer at 20


@patch("cpu", "mps")
def restore(editor: Editor, driver: Driver) -> None:
    """A storage tagged ``cuda`` is restored where CUDA requests go; an index that does not exist is torch's error."""
    from torch import serialization

    translator = editor.translator

    def deserialize(storage: Any, location: str) -> Any:
        if location == "cuda" or location.startswith("cuda:"):
            serialization._validate_device(location, "cuda")
            target = translator.device("cuda")
            return storage if target.type == "cpu" else storage.to(device=target)
        return None

    entry = (_BEFORE_CUDA, lambda storage: None, deserialize)
    serialization._package_registry.append(entry)
    serialization._package_registry.sort(key=lambda row: row[0])
    editor.on_undo(lambda: serialization._package_registry.remove(entry))


@patch("mps", "cuda")
def locations(editor: Editor, driver: Driver) -> None:
    """``map_location`` is a request like any other, and what is loaded for the CPU follows the table.

    It has to: torch builds a tensor around a storage with ``torch.empty(device=...)``, whose device is redirected.
    """
    from torch import serialization

    translator = editor.translator
    original = serialization._get_restore_location

    def _get_restore_location(map_location: Any) -> Any:
        if isinstance(map_location, (str, torch.device)) and not str(map_location).startswith("cuda"):
            map_location = translator.device(map_location)
        restore_location = original(map_location)

        def restore(storage: Any, location: str) -> Any:
            restored = restore_location(storage, location)
            if restored.device.type != "cpu":
                return restored
            target = translator.device("cpu")
            return restored if target.type == "cpu" else restored.to(device=target)

        return restore

    editor.set(serialization, "_get_restore_location", disguise(_get_restore_location, original))


@patch("cpu", "mps")
def scripted(editor: Editor, driver: Driver) -> None:
    """``torch.jit.load(map_location="cuda")`` hands the device to C++, once it has been checked."""
    from torch.jit import _serialization

    translator = editor.translator
    original = _serialization.validate_map_location

    def validate_map_location(map_location: Any = None) -> Any:
        checked = original(map_location)
        return checked if checked is None else translator.device(checked)

    editor.set(_serialization, "validate_map_location", disguise(validate_map_location, original))
