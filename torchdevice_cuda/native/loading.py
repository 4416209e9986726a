"""Load a library that is open and checked: the checked file, whatever its path refers to by then."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ..trust import Untrusted, name_open
from . import parts


class LoadError(Exception):
    """The library does not load; the message names it and the reason."""


def load(name: str, path: Path, opened: int) -> ModuleType:
    """Import the module that `opened` is open on. It reports `path` as its file, as the process's memory map does.

    The descriptor stays open, even if loading fails: the system's loader identifies a library by its name, and would
    mistake another library under the same descriptor number for this one.
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


def attach(core: Any, kind: str, load: Callable[[str], ModuleType]) -> None:
    """Pass the core its parts; `load` imports one, after compiling it if needed."""
    loaded: set[str] = set()
    # A second thread waits for the first, for as long as a build may take.
    lock = threading.RLock()

    def load_part(part: str) -> None:
        with lock:
            if part in loaded:
                return
            module = load(part)
            for name in parts.parts_of(kind)[part].functions:
                if hasattr(module, name):  # some depend on how torch was built
                    setattr(core, name, getattr(module, name))
            loaded.add(part)

    def find_function(name: str) -> Any:
        part = parts.find_part(kind, name)
        if part is None or part in loaded:
            raise AttributeError(f"module {core.__name__!r} has no attribute {name!r}")
        load_part(part)
        return getattr(core, name)

    core.set_parts(parts.list_deferred(kind), load_part)
    core.load_part = load_part
    core.__getattr__ = find_function
