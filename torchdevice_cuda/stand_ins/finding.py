"""A ``sys.meta_path`` finder that serves stand-ins, and their versions to :mod:`importlib.metadata`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..settings.stand_ins import STAND_INS, StandIn

_log = logging.getLogger(__name__)
_PACKAGES = Path(__file__).parent / "packages"


class Finder:
    """Serve stand-ins for packages that are absent, and for installed ones that do not load."""

    def __init__(self, names: Sequence[str]) -> None:
        self._rows = {name: STAND_INS[name] for name in names}
        sys.meta_path.insert(0, self)  # before the finder of what is installed

    def remove(self) -> None:
        """Leave ``sys.meta_path``; modules that were imported stay."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a package of the table. Its modules are found beside it."""
        row = self._rows.get(fullname)
        if row is None:
            return None
        installed = self._find_installed(fullname)
        if installed is None:
            return _locate(fullname)
        _guard(installed, row)
        return installed

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterator[importlib.metadata.Distribution]:
        """Find the packages that are served, by any spelling of a name; without one, all of them."""
        wanted = None if context is None or context.name is None else _normalize(context.name)
        for name, row in self._rows.items():
            if wanted in (None, _normalize(row.distribution)) and self._find_installed(name) is None:
                yield _Distribution(name, row)

    def invalidate_caches(self) -> None:
        """Keep nothing; part of the import protocol."""

    def _find_installed(self, name: str) -> ModuleSpec | None:
        """Find the real package; a folder of its name without code is none."""
        for other in sys.meta_path:
            find: Callable[..., ModuleSpec | None] | None = getattr(other, "find_spec", None)
            spec = None if other is self or find is None else find(name, None, None)
            if spec is not None and spec.loader is not None and spec.origin is not None:
                return spec
        return None


def _normalize(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _locate(name: str) -> ModuleSpec:
    """Return the spec of a stand-in."""
    folder = _PACKAGES / name
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    return spec


def _guard(spec: ModuleSpec, row: StandIn) -> None:
    """Have a package whose libraries do not load replaced by its stand-in, in the same module."""
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)  # the module keeps its genuine loader
        try:
            execute(module)
            error = _find_load_error(row)
        except (ImportError, OSError) as raised:
            error = raised
        if error is not None:
            _log.warning("the installed %s does not load (%s): its stand-in is used", spec.name, _shorten(error))
            _execute_stand_in(module)

    loader.exec_module = exec_module


def _find_load_error(row: StandIn) -> BaseException | None:
    """Return the error that a package caught when it loaded its library."""
    if row.load_error is None:
        return None
    module, variable = row.load_error
    error: BaseException | None = getattr(sys.modules.get(module), variable, None)
    return error


def _shorten(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__


def _execute_stand_in(module: ModuleType) -> None:
    name = module.__name__
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(f"{name}.")]:
        del sys.modules[loaded]
    spec = _locate(name)
    assert spec.loader is not None
    module.__dict__.clear()
    module.__dict__.update(
        __name__=name,
        __package__=name,
        __spec__=spec,
        __loader__=spec.loader,
        __file__=spec.origin,
        __path__=spec.submodule_search_locations,
    )
    spec.loader.exec_module(module)


class _Distribution(importlib.metadata.Distribution):
    """What :mod:`importlib.metadata` reports of a stand-in."""

    def __init__(self, name: str, row: StandIn) -> None:
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {row.distribution}\nVersion: {row.version}\n"
            f"Summary: torchdevice_cuda's stand-in for {row.distribution}\n",
            "top_level.txt": f"{name}\n",
        }

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """Return one of the files of a ``.dist-info`` folder."""
        return self._texts.get(str(filename))

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        """Return the path of a file of the package."""
        return _PACKAGES / path
