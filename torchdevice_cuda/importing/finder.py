"""A ``sys.meta_path`` finder that serves modules from files of our choice, and tells when others have been loaded.

Generic: it is given a tree (``{module name: file}``) and callbacks, and knows nothing of what it serves.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Files = Mapping[str, Path]


class Shadow:
    """A package served from other files.

    ``decide`` is called once, when the first module of the tree is asked for, and returns the files to serve (none:
    everything stays stock). Names of the tree without a file, submodules of later versions, come from stock.
    ``give_up`` is called when a served file fails while the tree is first imported; the import then goes on with stock.
    """

    def __init__(
        self,
        root: str,
        decide: Callable[[], Files],
        stock_path: Callable[[], Sequence[str]],
        give_up: Callable[[Exception], None] | None = None,
    ) -> None:
        self.root = root
        self._decide = decide
        self._stock_path = stock_path
        self._give_up = give_up
        self._files: Files | None = None
        self._lock = threading.RLock()

    def files(self) -> Files:
        """Return the served files; they are determined at the first call."""
        with self._lock:
            if self._files is None:
                self._files = self._decide()
            return self._files

    def spec(self, name: str) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that serves a module, or ``None`` to leave it to stock."""
        if name != self.root and not name.startswith(f"{self.root}."):
            return None
        file = self.files().get(name)
        if file is None:
            return None
        package = file.name == "__init__.py"
        if not package:
            return importlib.util.spec_from_file_location(name, file)
        # Stock's own folder stays on the package's path: what we do not serve is found there.
        tail = name.removeprefix(self.root).strip(".").replace(".", "/")
        search = [str(file.parent), *(str(Path(entry, tail)) for entry in self._stock_path())]
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search)
        if name == self.root and self._give_up is not None and spec is not None and spec.loader is not None:
            self._guard(spec.loader, self._give_up)
        return spec

    def stock_spec(self, name: str) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the stock module of this name."""
        parents = [Path(entry).parent for entry in self._stock_path()]
        below = name.removeprefix(self.root.rpartition(".")[0]).strip(".").split(".")[:-1]
        return importlib.machinery.PathFinder.find_spec(name, [str(Path(parent, *below)) for parent in parents])

    def _guard(self, loader: Any, give_up: Callable[[Exception], None]) -> None:
        """Have the root's first execution fall back to stock if it fails; the loader is genuine afterwards."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            _set_back(loader)
            try:
                execute(module)
            except Exception as error:
                self._files = {}
                give_up(error)
                self._execute_stock(module)

        loader.exec_module = exec_module

    def _execute_stock(self, module: ModuleType) -> None:
        for name in [name for name in sys.modules if name.startswith(f"{self.root}.")]:
            del sys.modules[name]
        spec = self.stock_spec(self.root)
        if spec is None or spec.loader is None:
            raise ImportError(f"no stock {self.root} found", name=self.root)
        module.__dict__.clear()
        module.__dict__.update(
            __name__=self.root,
            __package__=self.root,
            __spec__=spec,
            __loader__=spec.loader,
            __file__=spec.origin,
            __path__=spec.submodule_search_locations,
        )
        spec.loader.exec_module(module)


def _set_back(loader: Any) -> None:
    """A loader's own ``exec_module`` again; several may have waited for one module, and each sets it back."""
    vars(loader).pop("exec_module", None)


def when_imported(name: str, callback: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call back with a module once it has been imported, at once if it has been; what is returned ends the wait."""
    if name in sys.modules:
        callback(sys.modules[name])
        return lambda: None
    finder = ShadowFinder(after={name: callback})
    finder.install()
    return finder.remove


class ShadowFinder:
    """Serves shadows and runs callbacks after the modules they wait for have been executed."""

    def __init__(
        self, shadows: Sequence[Shadow] = (), after: Mapping[str, Callable[[ModuleType], None]] | None = None
    ) -> None:
        self.shadows = tuple(shadows)
        self.after = dict(after or {})
        #: what is being looked for, by whom: a finder may ask all finders again, and then this one has been asked
        self._looking: set[tuple[int, str]] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Part of the import protocol."""
        if fullname in self.after:
            return self._watched(fullname, path, target)
        for shadow in self.shadows:
            spec = shadow.spec(fullname)
            if spec is not None:
                return spec
        return None

    def _watched(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec the other finders give, with the callback run once its module has been executed."""
        looking = (threading.get_ident(), fullname)
        if looking in self._looking:
            return None
        self._looking.add(looking)
        try:
            for other in sys.meta_path:
                if other is self or not hasattr(other, "find_spec"):
                    continue
                spec = other.find_spec(fullname, path, target)
                if spec is not None and spec.loader is not None:
                    self._call_after(spec.loader, self.after[fullname])
                    return spec
            return None
        finally:
            self._looking.discard(looking)

    @staticmethod
    def _call_after(loader: Any, callback: Callable[[ModuleType], None]) -> None:
        """Shadow the loader's ``exec_module`` for one call; the module keeps its genuine loader afterwards."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            _set_back(loader)
            execute(module)
            callback(module)

        loader.exec_module = exec_module

    def install(self) -> None:
        """Go first on ``sys.meta_path``."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Leave ``sys.meta_path``."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class Barrier:
    """Stands before a module that must not be imported again: ``refuse`` is called instead, and raises."""

    def __init__(self, module: ModuleType, refuse: Callable[[], None]) -> None:
        self.module = module
        self._refuse = refuse

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Part of the import protocol."""
        if fullname == self.module.__name__:
            self._refuse()
        return None

    def install(self) -> None:
        """Go first on ``sys.meta_path``."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Leave ``sys.meta_path``."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
