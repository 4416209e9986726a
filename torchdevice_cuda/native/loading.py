"""Loads a library that is open and checked: the file that was checked, whatever its path leads to by then."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType


class LoadError(Exception):
    """The library does not load; the message names it and says why."""


def _loadable(path: Path, opened: int) -> str:
    """A path that leads to the open file.

    By process number, not "self": a debugger and the tools that turn addresses into names follow it too.
    """
    here = f"/proc/{os.getpid()}/fd/{opened}"
    try:
        if os.path.samestat(os.stat(here), os.fstat(opened)):
            return here
    except OSError:
        pass
    # macOS, or no /proc: there is no way to load an open file. What is left is the moment between this look and the
    # loader's, in which the user or root alone could put another file there.
    if not os.path.samestat(path.lstat(), os.fstat(opened)):
        raise LoadError(f"{path} was replaced while it was being loaded")
    return str(path)


def load(name: str, path: Path, opened: int) -> ModuleType:
    """Imports the module that `opened` is open on. It says that it is at `path`, as the process's map of memory does.

    The descriptor stays open, also where loading fails: the system's loader knows a library by the name it was given,
    and would take another under the same number for this one.
    """
    file = _loadable(path, opened)
    loader = ExtensionFileLoader(name, file)
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None:
        raise LoadError(f"{path} is nothing that Python imports")
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except Exception as error:
        why = str(error).removeprefix(f"{file}: ").replace(file, path.name)
        raise LoadError(f"{path} does not load: {why}") from error
    module.__file__ = spec.origin = loader.path = str(path)
    sys.modules[name] = module
    return module
