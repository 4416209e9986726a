"""The shadow tree: ``torch.cuda`` over a driver, and the ``torch._C`` names that a CPU build lacks.

``cuda/`` is served as ``torch.cuda``, file for file under the stock tree's names. Each file executes stock's code over
torchdevice_cuda's ``torch._C`` and replaces what differs (``stock.py``). A stock module has a file here if it uses
``torch._C`` while it is imported, or if something in it differs. All others are served from the installed torch.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from . import absent, stock

_ROOT = Path(__file__).with_name("cuda")
_MISSING = object()


@functools.cache
def files() -> MappingProxyType[str, Path]:
    """Return ``{module name: file}`` of all served modules: those that the installed torch has, too."""
    found: dict[str, Path] = {}
    for file in sorted(_ROOT.rglob("*.py")):
        parts = file.relative_to(_ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join(("torch", "cuda", *parts))
        if stock.file_of(name).exists():
            found[name] = file
    return MappingProxyType(found)


class Bindings:
    """The names added to ``torch._C``: an explicit list, recorded and removed again.

    The list is explicit because adding all missing names is not safe: torch registers some names only later, and a name
    that already exists aborts the process.
    """

    def __init__(self, torch_c: ModuleType) -> None:
        self._torch_c = torch_c
        self._before: dict[str, Any] = {}
        self._modules: dict[str, ModuleType | None] = {}

    def apply(self) -> None:
        """Set every name, and record the old values."""
        from .bindings import names

        answers = names()
        refusals = {name: absent.stand_in(name) for name in absent.unanswered(self._torch_c, set(answers))}
        for name, value in (answers | refusals).items():
            self._before[name] = self._torch_c.__dict__.get(name, _MISSING)
            setattr(self._torch_c, name, value)
            if isinstance(value, ModuleType):
                # Objects of such a submodule pickle by reference to it.
                self._modules[value.__name__] = sys.modules.get(value.__name__)
                sys.modules[value.__name__] = value

    def undo(self) -> None:
        """Restore every name."""
        absent.forget()
        while self._modules:
            module_name, module = self._modules.popitem()
            if module is None:
                sys.modules.pop(module_name, None)
            else:
                sys.modules[module_name] = module
        while self._before:
            name, before = self._before.popitem()
            if before is _MISSING:
                if name in self._torch_c.__dict__:
                    delattr(self._torch_c, name)
            else:
                setattr(self._torch_c, name, before)
