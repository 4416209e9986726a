"""Replace NVIDIA's library for Python programs that load it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ...settings import Settings
from .library import Library, is_nvml

#: NVIDIA's bindings, and copies of them in other packages. Each loads the library through its own name ``CDLL``.
BINDINGS = ("pynvml", "pynvml.nvml", "py3nvml.py3nvml", "ray._private.thirdparty.pynvml")
#: Drivers with which a real library is called first: there may be a real GPU.
_MAY_BE_REAL = ("auto", "cuda")
WhenImported = Callable[[str, Callable[[ModuleType], None]], Callable[[], None]]


class Hook:
    """Serves bindings when they are imported, or if they have been; ``undo`` restores them."""

    def __init__(self, settings: Settings, when_imported: WhenImported) -> None:
        self._settings = settings
        self._served: list[tuple[ModuleType, Any]] = []
        self._waits = [when_imported(name, self._serve) for name in BINDINGS]

    def _serve(self, module: ModuleType) -> None:
        original = vars(module).get("CDLL")
        if original is None:  # a package whose binding is a separate module
            return
        settings = self._settings

        def load(name: Any = None, *arguments: Any, **named: Any) -> Any:
            if not is_nvml(name):
                return original(name, *arguments, **named)
            if settings.driver in _MAY_BE_REAL:
                try:
                    return ctypes.CDLL(name)
                except OSError:
                    pass
            return Library(settings)

        self._served.append((module, original))
        vars(module)["CDLL"] = load

    def undo(self) -> None:
        """Stop waiting, and make the bindings load NVIDIA's library again."""
        for stop in self._waits:
            stop()
        for module, original in self._served:
            names = vars(module)
            names["CDLL"] = original
            if isinstance(names.get("nvmlLib"), Library):
                names.update(nvmlLib=None, _nvmlLib_refcount=0)
                names.get("_nvmlGetFunctionPointer_cache", {}).clear()
