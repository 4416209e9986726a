"""The tools of the repository, as modules: their names are no package's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(path: str) -> ModuleType:
    """Import a module from its file below ``tools``, under a name by which its dataclasses find their types."""
    name = "tool_" + path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, _TOOLS / path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made
