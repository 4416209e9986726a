"""An executable ``nvidia-smi`` in a folder of its own, for the ``PATH`` of a program and its children."""

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
    # The package may have been found by way of the working folder, which children need not share.
    parent, python = shlex.quote(str(_PACKAGE.parent)), shlex.quote(sys.executable)
    return (
        f"#!/bin/sh\n{_MARK}\n"
        f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{parent} exec {python} -m {_PACKAGE.name} {_NAME} "$@"\n'
    )


def folder() -> Path:
    """Return the folder with the executable for this Python, which is written where it is missing or differs."""
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
    """Return whether the ``nvidia-smi`` of a folder is this one."""
    with contextlib.suppress(OSError), open(Path(directory, _NAME), "rb") as file:
        return _MARK.encode() in file.read(4096)
    return False


class OnPath:
    """Has the children of this process find it; ``undo`` ends that."""

    def __init__(self) -> None:
        self._folder = str(folder())
        entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
        self._added = self._folder not in entries
        if self._added:
            os.environ["PATH"] = os.pathsep.join([self._folder, *entries])

    def undo(self) -> None:
        """Take the folder off the path."""
        entries = os.environ.get("PATH", "").split(os.pathsep)
        if self._added and self._folder in entries:
            entries.remove(self._folder)
            os.environ["PATH"] = os.pathsep.join(entries)
