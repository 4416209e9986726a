"""GPU profiles: the properties that a device reports when a program should see a certain GPU.

Each is a file of TOML, here or the user's own (``docs/gpus.md`` explains the keys). A file is read when it is chosen.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ..variables import ValueHint
from .model import ARCHITECTURES as ARCHITECTURES
from .model import KIB as KIB
from .model import Gpu as Gpu

_SUFFIX = ".toml"
_FOLDER = Path(__file__).parent


@functools.cache
def names() -> tuple[str, ...]:
    """Return the names of the profiles that come with the package."""
    return tuple(sorted(entry.removesuffix(_SUFFIX) for entry in os.listdir(_FOLDER) if entry.endswith(_SUFFIX)))


@functools.cache
def find(chosen: str) -> Gpu:
    """Return the profile of a name, or of a file's absolute path; ValueHint if it cannot be read."""
    from .reading import read as read_file  # only where a GPU is chosen

    return read_file(Path(chosen) if os.path.isabs(chosen) else _FOLDER / f"{chosen}{_SUFFIX}")


def read(text: str) -> str:
    """Return the name in its spelling here, or the file's absolute path: children may have another working folder."""
    if text.strip().endswith(_SUFFIX) or os.sep in text:
        chosen = os.path.abspath(text.strip())
        find(chosen)
        return chosen
    key = spelled(text)
    if key not in names():
        raise ValueHint(f"the nearest are {', '.join(near)}" if (near := nearest(text)) else "")
    return key


def spelled(text: str) -> str:
    """Return a name as it is listed: users write ``RTX 4090``, ``rtx4090`` and ``A100_80``."""
    plain = "".join(letter for letter in text.lower() if letter.isalnum())
    return next((key for key in names() if key.replace("-", "") == plain), text.strip().lower())


def nearest(text: str) -> list[str]:
    """Return names that are similar to a text."""
    import difflib  # for errors only

    key = spelled(text)
    near = [*(other for other in names() if other.startswith(key)), *difflib.get_close_matches(key, names(), 3, 0.3)]
    return list(dict.fromkeys(near))[:3]


def table() -> str:
    """List every profile, for people."""
    from .table import write

    return write((key, find(key)) for key in names())
