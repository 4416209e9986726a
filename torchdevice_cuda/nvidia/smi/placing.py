"""An executable ``nvidia-smi`` in its own folder, for the ``PATH`` of a program and its children."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
from pathlib import Path

from ... import settings, trust

_NAME = "nvidia-smi"
_MARK = "# written by torchdevice_cuda"
_PACKAGE = Path(__file__).parents[2]


def _script() -> str:
    # The package may have been found through the working folder, which children may not share.
    parent, python = shlex.quote(str(_PACKAGE.parent)), shlex.quote(sys.executable)
    return (
        f"#!/bin/sh\n{_MARK}\n"
        f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{parent} exec {python} -m {_PACKAGE.name} {_NAME} "$@"\n'
    )


def folder() -> Path:
    """Return the folder with the executable for this Python, written if it is missing or differs."""
    script, cache = _script().encode(), settings.cache_dir()
    found = cache / "bin" / hashlib.sha256(script).hexdigest()[:16]
    try:
        trust.provide(found / _NAME, script, cache, 0o755)
    except OSError as error:
        raise settings.SettingsError(
            f"TORCHDEVICE_WITH_NVIDIA_SMI: nvidia-smi cannot be put on the PATH: {error}; set TORCHDEVICE_CACHE_DIR to "
            "another folder"
        ) from error
    return found


def is_ours(directory: str) -> bool:
    """Return whether the ``nvidia-smi`` in a folder is torchdevice_cuda's."""
    with contextlib.suppress(OSError), open(Path(directory, _NAME), "rb") as file:
        return _MARK.encode() in file.read(4096)
    return False


class OnPath:
    """Adds the folder to the ``PATH`` of this process's children; ``undo`` removes it."""

    def __init__(self) -> None:
        self._folder = str(folder())
        entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
        self._added = self._folder not in entries
        if self._added:
            os.environ["PATH"] = os.pathsep.join([self._folder, *entries])

    def undo(self) -> None:
        """Remove the folder from the path."""
        entries = os.environ.get("PATH", "").split(os.pathsep)
        if self._added and self._folder in entries:
            entries.remove(self._folder)
            os.environ["PATH"] = os.pathsep.join(entries)
