"""The order of events: settings -> driver -> finder -> patches; before torch is imported or after it; and back.

Before torch is imported, the finder serves the shadow tree as torch imports torch.cuda, and the patches follow when
torch is complete. After it, the loaded modules are rewritten in place. Either all of it happens or none.
"""

from __future__ import annotations

import importlib.machinery
import logging
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import _compat, drivers, report, settings, shadow, translate
from .drivers.selection import DriverUnavailable as DriverUnavailable  # callers of activate() catch it
from .drivers.selection import select
from .importing import finder
from .importing.inplace import Rewrite

if TYPE_CHECKING:
    from .translate.core.registry import Applied, Row

ROOT = "torch.cuda"
#: The shim waits for torch to be imported before it calls activate().
_SHIM = "torchdevice_cuda_shim"
_log = logging.getLogger("torchdevice_cuda")


class ActivationError(RuntimeError):
    """Activation was not possible; torch is as it was."""


class _State:
    """What activation has done so far, in the order it did it; undone backwards."""

    def __init__(self, chosen: settings.Settings) -> None:
        self.settings = chosen
        self.finder: finder.ShadowFinder | None = None
        self.rewrite: Rewrite | None = None
        self.bindings: shadow.Bindings | None = None
        self.patches: Applied | None = None
        self.failed: BaseException | None = None


_lock = threading.RLock()
_state: _State | None = None


def is_active() -> bool:
    """Whether this process is under torchdevice_cuda (torch itself may not be imported yet)."""
    shim = sys.modules.get(_SHIM)
    return _state is not None or (shim is not None and shim.is_pending())


def current_settings() -> settings.Settings:
    """The settings in force."""
    if _state is None:
        raise RuntimeError("torchdevice_cuda is not active in this process: call torchdevice_cuda.activate()")
    return _state.settings


def activate(**overrides: Any) -> None:
    """Make ``torch.cuda`` answer in this process; see :mod:`torchdevice_cuda.settings` for the arguments.

    Works before ``import torch`` and after it. Calling it again does nothing, unless other settings are asked for:
    that is an error, since programs already hold what the first call gave them.
    """
    global _state
    chosen = settings.load(overrides)
    with _lock:
        if _state is not None:
            if overrides and chosen != _state.settings:
                raise ActivationError(
                    f"torchdevice_cuda is already active with {_state.settings}; deactivate() first to use {chosen}"
                )
            return
        report.check(chosen)
        _log.setLevel(chosen.log_level)
        _state = _State(chosen)
        try:
            if "torch" in sys.modules:
                _wait_for_torch()
                _activate_late(_state)
            else:
                _activate_early(_state)
        except BaseException:
            _undo(_state)
            _state = None
            raise


def deactivate() -> None:
    """Put every attribute of torch back; does nothing where torchdevice_cuda is not active."""
    global _state
    with _lock:
        shim = sys.modules.get(_SHIM)
        if shim is not None:
            shim.cancel()
        if _state is not None:
            state, _state = _state, None
            _undo(state)


def driver() -> drivers.Driver:
    """The driver in use; imports torch, which it takes to choose one."""
    if _state is None:
        raise RuntimeError("torchdevice_cuda is not active in this process: call torchdevice_cuda.activate()")
    import torch  # noqa: F401  (its import makes the choice)

    return drivers.active()


def changes() -> list[Row]:
    """What is changed in torch now: each target, the file that changes it, and why; imports torch."""
    driver()
    return [] if _state is None or _state.patches is None else _state.patches.rows()


# ------------------------------------------------------------------------ both ways
def _choose(state: _State) -> finder.Files:
    """Choose the driver and put it and its ``torch._C`` names in place; the files to serve for it."""
    torch_c = sys.modules["torch._C"]
    chosen = select(state.settings, torch_c)
    drivers.install(chosen)
    _log.info("driver %s: %s", chosen.name, chosen.reason)
    if drivers.Trait.SUBSTITUTE not in chosen.traits:
        return {}
    state.bindings = shadow.Bindings(torch_c)
    state.bindings.apply()
    return shadow.files()


def _stock_path() -> list[str]:
    """Where torch.cuda lies in the installed torch."""
    spec = importlib.machinery.PathFinder.find_spec("torch")
    locations = spec.submodule_search_locations if spec is not None else None
    return [str(Path(entry, "cuda")) for entry in locations or ()]


def _warn_of_version(version: str) -> None:
    release = _compat.torch_release(version)
    if not _compat.MINIMUM <= release <= _compat.NEWEST_KNOWN:
        span = " to ".join(".".join(map(str, end)) for end in (_compat.MINIMUM, _compat.NEWEST_KNOWN))
        warnings.warn(
            f"torch {version} is outside the versions torchdevice_cuda knows ({span}); going on", stacklevel=4
        )


def _finish(state: _State, torch: ModuleType) -> None:
    """What needs a complete torch: the patches outside torch.cuda."""
    _warn_of_version(torch.__version__)
    drivers.active().prepare()
    state.patches = translate.apply(drivers.active(), state.settings, finder.when_imported)


# --------------------------------------------------------------------- before torch
def _activate_early(state: _State) -> None:
    tree = finder.Shadow(ROOT, lambda: _decide_early(state), _stock_path, lambda error: _give_up(state, error))
    state.finder = finder.ShadowFinder([tree], {"torch": lambda torch: _finish_early(state, torch)})
    state.finder.install()


def _decide_early(state: _State) -> finder.Files:
    """Called while torch imports torch.cuda. What goes wrong must not break the program's import of torch."""
    try:
        return _choose(state)
    except Exception as error:
        state.failed = error
        return {}


def _give_up(state: _State, error: Exception) -> None:
    """A file of the shadow tree failed: torch goes on importing its own."""
    state.failed = error
    if state.bindings is not None:
        state.bindings.undo()


def _finish_early(state: _State, torch: ModuleType) -> None:
    global _state
    error = state.failed
    if error is None:
        try:
            _finish(state, torch)
        except Exception as raised:
            error = raised
    if error is not None:
        with _lock:
            _undo(state)
            _state = None
        if isinstance(error, DriverUnavailable):
            raise error
        # Not a Python warning: the line it would point at is ours, and warnings can be turned into errors.
        print(f"torchdevice_cuda could not start, torch is stock: {error!r}", file=sys.stderr)


# ---------------------------------------------------------------------- after torch
def _wait_for_torch() -> None:
    """Let another thread's unfinished ``import torch`` end first."""
    import torch  # noqa: F401


def _activate_late(state: _State) -> None:
    torch = sys.modules["torch"]
    files = _choose(state)
    if files:
        tree = finder.Shadow(ROOT, lambda: files, _stock_path)
        state.finder = finder.ShadowFinder([tree])
        state.finder.install()
        state.rewrite = Rewrite(_loaded())
        state.rewrite.apply(ROOT, tree.spec, _set_by_cpp)
    _finish(state, torch)


def _loaded() -> list[str]:
    return [name for name in sys.modules if name == ROOT or name.startswith(f"{ROOT}.")]


def _set_by_cpp(name: str, value: Any) -> bool:
    """Whether torch's C++ put this on the module, once, while torch was imported: the ``*Tensor`` classes."""
    return name.endswith("Tensor") and type(value).__name__ == "tensortype"


# --------------------------------------------------------------------------- undo
def _undo(state: _State) -> None:
    if state.patches is not None:
        state.patches.undo()
    if state.finder is not None:
        state.finder.remove()
    if state.bindings is not None:
        state.bindings.undo()
    if state.rewrite is not None:
        state.rewrite.undo()
    served = shadow.files()
    ours = [name for name in _loaded() if getattr(sys.modules[name], "__file__", None) == str(served.get(name))]
    if ours:
        # Loaded by the finder, so there is no stock code in memory to put back: execute it in the same modules.
        Rewrite(ours).apply(ROOT, finder.Shadow(ROOT, dict, _stock_path).stock_spec, _set_by_cpp)
    drivers.install(None)
