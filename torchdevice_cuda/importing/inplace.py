"""Replace what loaded modules hold, and keep every reference to them true.

When a package is already imported, other modules hold its modules, functions and classes. Swapping ``sys.modules``
would leave them with the old ones. Instead the new code is executed inside the old module objects; old function objects
get the new functions' code, so that names bound earlier follow; references to old classes are redirected. Everything
is undone by :meth:`Rewrite.undo`.
"""

from __future__ import annotations

import gc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:  # importing it takes 6 ms
    from importlib.abc import Loader

# Attributes the import system sets only where they are missing.
_SET_BY_IMPORT = ("__path__", "__file__", "__cached__", "__loader__")
_CODE_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__annotations__")


class _Reuse:
    """A loader that executes a module's new code in the module object that already exists."""

    def __init__(self, loader: Loader, module: types.ModuleType) -> None:
        self._loader = loader
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)


class _ReuseFinder:
    """Finds the new code of the modules under rewrite and has it executed in their old objects."""

    def __init__(
        self,
        modules: dict[str, types.ModuleType],
        find: Callable[[str], importlib.machinery.ModuleSpec | None],
    ) -> None:
        self._modules = modules
        self._find = find

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        module = self._modules.get(fullname)
        spec = self._find(fullname) if module is not None else None
        if module is None or spec is None or spec.loader is None:
            return None
        # The import system asks a loader for these two methods only.
        spec.loader = cast("Loader", _Reuse(spec.loader, module))
        return spec


class _Forwarding(type):
    """The metaclass given to an old class: whoever still holds it deals with the new one."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _successors[cls](*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _successors[cls]) or type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _successors[cls]) or type.__subclasscheck__(cls, subclass)


_successors: dict[type, type] = {}


def _jump(old: types.FunctionType, new: Callable[..., Any]) -> types.CodeType:
    """Code for ``old`` that calls ``new``, whatever closures either has."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        target: Any = "target"  # the constant below is replaced by the function itself
        return target(*args, **kwargs)

    code = forward.__code__
    constants = tuple(new if constant == "target" else constant for constant in code.co_consts)
    return code.replace(
        co_consts=constants, co_freevars=old.__code__.co_freevars, co_name=old.__name__, co_filename=__file__
    )


class Rewrite:
    """One rewriting of a set of loaded modules."""

    def __init__(self, names: Iterable[str]) -> None:
        self.modules = {name: sys.modules[name] for name in names if name in sys.modules}
        self._saved = {name: dict(module.__dict__) for name, module in self.modules.items()}
        self._functions: list[tuple[types.FunctionType, dict[str, Any]]] = []
        self._classes: list[type] = []
        self._references: list[tuple[Any, Any, Any]] = []

    def apply(
        self,
        root: str,
        find: Callable[[str], importlib.machinery.ModuleSpec | None],
        keep: Callable[[str, Any], bool],
    ) -> None:
        """Execute the new code. ``keep`` says which old attributes stay (those no Python code sets)."""
        finder = _ReuseFinder(self.modules, find)
        parent, _, child = root.rpartition(".")
        rewritten = [name for name in self.modules if find(name) is not None]
        for name in rewritten:
            del sys.modules[name]
            for attribute in _SET_BY_IMPORT:
                self.modules[name].__dict__.pop(attribute, None)
        sys.meta_path.insert(0, finder)
        try:
            for name in sorted(self.modules):  # parents before children, as imports go
                __import__(name)
        finally:
            sys.meta_path.remove(finder)
        if parent and root in self.modules:
            setattr(sys.modules[parent], child, self.modules[root])
        self._drop_leftovers(rewritten, keep)
        self._follow()

    def _drop_leftovers(self, rewritten: list[str], keep: Callable[[str, Any], bool]) -> None:
        """Remove functions and classes of the old code that the new code does not define.

        Nothing was removed before: a thread that looks a name up meanwhile finds the old or the new one, never none.
        """
        for name in rewritten:
            namespace = self.modules[name].__dict__
            for attribute, old in self._saved[name].items():
                unchanged = namespace.get(attribute) is old
                defined_here = isinstance(old, (type, types.FunctionType)) and old.__module__ == name
                if unchanged and defined_here and not keep(attribute, old):
                    del namespace[attribute]

    # ----------------------------------------------------------------- references
    def _follow(self) -> None:
        """Make everything that was bound to an old object deal with its successor."""
        kept: dict[int, types.FunctionType] = {}
        succeeded: dict[type, type] = {}
        for name, old_dict in self._saved.items():
            new_dict = self.modules[name].__dict__
            for attribute, old in old_dict.items():
                new = new_dict.get(attribute)
                if new is None or new is old or getattr(old, "__module__", None) != name:
                    continue
                if isinstance(old, types.FunctionType) and callable(new):
                    if self._transplant(old, new):
                        kept[id(new)] = old
                elif isinstance(old, type) and isinstance(new, type):
                    succeeded[old] = new
        # Old function objects stay the canonical ones, so that comparisons by identity still hold.
        for module in self.modules.values():
            for attribute, value in list(module.__dict__.items()):
                if id(value) in kept and value is not kept[id(value)]:
                    module.__dict__[attribute] = kept[id(value)]
        self._redirect(succeeded)

    def _transplant(self, old: types.FunctionType, new: Callable[..., Any]) -> bool:
        """Give ``old`` the behavior of ``new``; True if the two are now interchangeable."""
        saved = {part: getattr(old, part) for part in _CODE_PARTS}
        saved["__dict__"] = dict(old.__dict__)
        self._functions.append((old, saved))
        same_module = isinstance(new, types.FunctionType) and new.__globals__ is old.__globals__
        if same_module and not old.__closure__ and not new.__closure__:
            for part in _CODE_PARTS:
                setattr(old, part, getattr(new, part))
            old.__dict__.clear()
            old.__dict__.update(new.__dict__)
            return True
        old.__code__ = _jump(old, new)
        old.__defaults__ = old.__kwdefaults__ = None
        old.__dict__["__wrapped__"] = new  # signatures and help follow it
        return False

    def _redirect(self, succeeded: dict[type, type]) -> None:
        """Point dictionaries, lists and class attributes that hold an old class to the new one."""
        if not succeeded:
            return
        by_id = {id(old): (old, new) for old, new in succeeded.items()}
        own = {id(saved) for saved in self._saved.values()} | {id(succeeded), id(by_id)}
        own |= {id(entry) for entry in by_id.values()} | {id(_successors)}
        for holder in gc.get_referrers(*succeeded):
            if id(holder) in own or isinstance(holder, types.FrameType):
                continue
            for key, value in [entry for entry in _entries(holder) if id(entry[1]) in by_id]:
                successor = by_id[id(value)][1]
                self._references.append((holder, successor if isinstance(holder, set) else key, value))
                _put(holder, key, successor)
        for old, new in succeeded.items():
            if type(old) is not type:
                continue
            _successors[old] = new
            try:
                old.__class__ = _Forwarding
            except TypeError:  # an immutable type: its references were redirected, it cannot itself forward
                del _successors[old]
                continue
            self._classes.append(old)

    # ----------------------------------------------------------------------- undo
    def undo(self) -> None:
        """Put every module, function and reference back as it was."""
        for owner, key, value in reversed(self._references):
            _put(owner, key, value)
        for old in self._classes:
            old.__class__ = type
            _successors.pop(old, None)
        for function, saved in reversed(self._functions):
            function.__dict__.clear()
            function.__dict__.update(saved["__dict__"])
            for part in _CODE_PARTS:
                setattr(function, part, saved[part])
        for name, module in self.modules.items():
            saved = self._saved[name]
            module.__dict__.update(saved)
            for attribute in module.__dict__.keys() - saved.keys():
                del module.__dict__[attribute]
            sys.modules[name] = module


def _entries(holder: object) -> Iterable[tuple[Any, Any]]:
    """``(key, value)`` of all that a dictionary, a list, a set or a class holds; nothing of anything else."""
    if isinstance(holder, dict):
        return holder.items()
    if isinstance(holder, list):
        return enumerate(holder)
    if isinstance(holder, set):
        return ((value, value) for value in holder)
    return vars(holder).items() if isinstance(holder, type) else ()


def _put(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, type):
        setattr(owner, key, value)
    elif isinstance(owner, set):
        owner.discard(key)
        owner.add(value)
    else:
        owner[key] = value
