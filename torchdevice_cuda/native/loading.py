"""Loads a library that is open and checked: the file that was checked, whatever its path leads to by then."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from ..trust import Untrusted, name_open


class LoadError(Exception):
    """The library does not load; the message names it and says why."""


def load(name: str, path: Path, opened: int) -> ModuleType:
    """Imports the module that `opened` is open on. It says that it is at `path`, as the process's map of memory does.

    The descriptor stays open, also where loading fails: the system's loader knows a library by the name it was given,
    and would take another under the same number for this one.
    """
    try:
        file = name_open(opened, path)
    except Untrusted as error:
        raise LoadError(str(error)) from error
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
