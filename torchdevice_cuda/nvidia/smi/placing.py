"""An executable ``nvidia-smi`` in a folder of its own, for the ``PATH`` of a program and its children."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
from pathlib import Path

from ... import settings

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
    """The folder, with the executable for this Python in it; made where it is missing."""
    text = _script()
    place = settings.cache_dir() / "bin" / hashlib.sha256(text.encode()).hexdigest()[:16]
    path = place / _NAME
    if path.is_file() and os.access(path, os.X_OK):
        return place
    place.mkdir(parents=True, exist_ok=True)
    temporary = place / f".{_NAME}.{os.getpid()}"
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o755)
    os.replace(temporary, path)
    return place


def is_ours(directory: str) -> bool:
    """Whether the ``nvidia-smi`` of a folder is this one."""
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
