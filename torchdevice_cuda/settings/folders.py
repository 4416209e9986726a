"""The folders in which torchdevice_cuda stores files.

They are not fields of the settings: they are needed before there are settings, and by tools that never activate.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

CACHE_DIR, RUNTIME_DIR = "TORCHDEVICE_CACHE_DIR", "TORCHDEVICE_RUNTIME_DIR"
# Memory that every process of a Linux machine sees under the same name, whatever its environment.
_MEMORY = Path("/dev/shm")


class SettingsError(ValueError):
    """A setting has a value that cannot be read."""


def expand(named: str) -> Path:
    """Return the absolute path of a folder that a variable names; RuntimeError for the home of an unknown user."""
    return Path(named.strip()).expanduser().absolute()


def _read(variable: str) -> Path | None:
    named = os.environ.get(variable, "").strip()
    if not named:
        return None
    try:
        return expand(named)
    except (RuntimeError, OSError) as error:  # an unknown user, or a working folder that no longer exists
        raise SettingsError(f"{variable}={named!r} names no folder: {error}; set it to a path") from error


def cache_dir() -> Path:
    """Return the folder of built libraries and measurements: ``$TORCHDEVICE_CACHE_DIR``, or the user's cache folder."""
    named = _read(CACHE_DIR)
    if named is not None:
        return named
    import platformdirs

    # Without a home folder, some versions raise, and some leave "~", which would be created in the working folder.
    with contextlib.suppress(RuntimeError, OSError):
        found = platformdirs.user_cache_path("torchdevice-cuda", appauthor=False)
        if found.is_absolute():
            return _below_own_home(found)
    raise SettingsError("this user has no home folder to keep a cache in; set TORCHDEVICE_CACHE_DIR")


def _below_own_home(path: Path) -> Path:
    """Move a path below another user's home folder to this user's own.

    Under sudo -E and in containers of a CI service, $HOME may belong to another user, who could replace files that are
    loaded from there.
    """
    home = Path.home()
    try:
        if not path.is_relative_to(home) or home.stat().st_uid in (os.geteuid(), 0):
            return path
        import pwd

        return Path(pwd.getpwuid(os.geteuid()).pw_dir) / path.relative_to(home)
    except (OSError, KeyError):  # no such folder, or no account with that number
        return path


def runtime_dir() -> Path | None:
    """Return the folder in which running processes publish their devices, if ``$TORCHDEVICE_RUNTIME_DIR`` names one."""
    return _read(RUNTIME_DIR)


def memory_dir() -> Path:
    """Return the folder for files that processes of this machine share while they run: in memory, if possible."""
    return _MEMORY if sys.platform == "linux" and os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
