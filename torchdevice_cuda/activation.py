"""The order of events: settings -> driver -> finder -> patches; before torch is imported or after it; and back.

Before torch is imported, the finder serves the shadow tree as torch imports torch.cuda, and the patches follow when
torch is complete. After it, the loaded modules are rewritten in place. Either all of it happens or none; and where none
of it can happen the program does not go on with a torch that has no CUDA, unless whoever activated says that it may.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from . import _compat, drivers, races, rehearsal, report, sanitizer, settings, shadow, threads, translate
from ._version import __version__
from .drivers.selection import select, select_after
from .drivers.unavailable import DriverUnavailable as DriverUnavailable  # callers of activate() catch it
from .importing import finder
from .importing.inplace import Rewrite
from .nvidia.nvml.hooking import Hook
from .nvidia.smi.placing import OnPath

if TYPE_CHECKING:
    from .stand_ins.finding import Finder
    from .translate.core.registry import Applied, Row

ROOT = "torch.cuda"
#: The shim waits for torch to be imported before it calls activate().
_SHIM = "torchdevice_cuda_shim"
#: What the package needs besides torch, on every machine. An image put together by hand may lack one, and would find
#: out in the middle of a program.
_NEEDED = ("psutil", "platformdirs", "filelock", "jinja2")
_log = logging.getLogger("torchdevice_cuda")
#: Shows what was asked for where the program sets up no logging: Python shows warnings only then.
_shown = logging.StreamHandler()
_shown.addFilter(lambda record: not logging.getLogger().handlers)


class ActivationError(RuntimeError):
    """Activation was not possible; torch is as it was."""


#: The handler of a failure during the import of torch: it raises, or returns to leave torch unchanged.
#: Also of a build that the user interrupted, which is no Exception; then it raises.
Failing = Callable[[BaseException], None]


def _raise(failure: BaseException) -> NoReturn:
    raise failure from failure.__cause__


class _State:
    """The steps of activation so far, in order; they are undone in reverse."""

    def __init__(self, chosen: settings.Settings, failing: Failing) -> None:
        self.settings = chosen
        self.failing = failing
        self.finder: finder.ShadowFinder | None = None
        self.rewrite: Rewrite | None = None
        self.bindings: shadow.Bindings | None = None
        self.patches: Applied | None = None
        self.monitors: Hook | None = None
        self.command: OnPath | None = None
        self.stand_ins: Finder | None = None
        #: whether somebody will ask for a report who names no place for it
        self.counted = False
        self.collector: report.Collector | None = None
        self.ending: report.AtExit | None = None
        #: the device that fills new memory
        self.filling: Any = None
        self.failed: Exception | None = None


_lock = threading.RLock()
_state: _State | None = None
#: Stands before torch once activation has failed while torch was imported: a second attempt must not give stock torch.
_barrier: finder.Barrier | None = None


def is_active() -> bool:
    """Return whether this process is under torchdevice_cuda (torch itself may not be imported yet)."""
    shim = sys.modules.get(_SHIM)
    return _state is not None or (shim is not None and shim.is_pending())


def current_settings() -> settings.Settings:
    """Return the settings in force."""
    if _state is None:
        raise RuntimeError("torchdevice_cuda is not active in this process: call torchdevice_cuda.activate()")
    return _state.settings


def activate(**overrides: Any) -> None:
    """Make ``torch.cuda`` answer in this process; see :mod:`torchdevice_cuda.settings` for the arguments.

    Works before ``import torch`` and after it. Calling it again does nothing, unless other settings are asked for:
    that is an error, since programs already hold what the first call gave them. Before ``import torch``, what goes
    wrong later is raised by that import, as :class:`ActivationError` or :class:`DriverUnavailable`.
    """
    start(overrides, _raise)


def start(overrides: Mapping[str, Any], failing: Failing, counted: bool = False) -> None:
    """Activate; what goes wrong once torch is being imported is given to ``failing``.

    ``counted``: count what a report says, for :func:`collector`, though the settings name no place for one.
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
        _check_needs()
        report.check(chosen)
        _lift_barrier()
        _log.setLevel(chosen.log_level)
        if _log.level < logging.WARNING:
            _log.addHandler(_shown)
        rehearsal.name_rank(chosen)
        _state = _State(chosen, failing)
        _state.counted = counted or chosen.report is not None
        try:
            if "torch" in sys.modules:
                _wait_for_torch()
                _activate_late(_state)
            else:
                _activate_early(_state)
            _state.monitors = Hook(chosen, finder.when_imported)
            _state.command = OnPath() if chosen.nvidia_smi and chosen.driver != "cuda" else None
            _state.stand_ins = _serve_stand_ins(chosen)
            if chosen.sanitize:
                sanitizer.start(chosen.sanitize)
        except BaseException as error:
            failed, _state = _state, None
            _undo(failed)
            if isinstance(error, Exception):
                raise _failure(error) from error
            raise


def deactivate() -> None:
    """Put every attribute of torch back; does nothing where torchdevice_cuda is not active.

    Refuses, with nothing changed, while other threads are running code that uses torch: they would find half of it
    changed. End them first. And while this one captures a graph.
    """
    global _state
    with _lock:
        if _state is not None:
            running = threads.using_torch()
            if running:
                raise ActivationError(
                    f"deactivate() cannot put torch back under threads that are using it; end them first: "
                    f"{', '.join(running)}"
                )
            if threads.captures():
                raise ActivationError(
                    "deactivate() cannot put torch back while a CUDA graph is captured; end that first"
                )
        shim = sys.modules.get(_SHIM)
        if shim is not None:
            shim.cancel()
        _lift_barrier()
        if _state is not None:
            state, _state = _state, None
            _undo(state)


def driver() -> drivers.Driver:
    """Return the driver in use; imports torch, which it takes to choose one."""
    if _state is None:
        raise RuntimeError("torchdevice_cuda is not active in this process: call torchdevice_cuda.activate()")
    import torch  # noqa: F401  (its import makes the choice)

    return drivers.active()


def collector() -> report.Collector:
    """Return the collector of reports; a new one counts from now on, without the program's requests."""
    chosen = driver()
    assert _state is not None
    if _state.collector is None:
        _state.collector = _collector(chosen, sys.modules["torch"], None)
    return _state.collector


def check_streams(mode: str) -> None:
    """Set the mode of checks of streams, which ``settings.check_streams`` begins with."""
    if mode == races.OFF:
        races.stop()
        return
    chosen = driver()
    exception = settings.find_exception("check_streams", chosen.name)
    if exception is not None:
        raise ActivationError(
            f"--check-streams is refused on the {chosen.name} driver: {exception.why}; use --driver virtual"
        )
    if chosen.native is not None:
        races.start(chosen.native, mode, _list_hidden(sys.modules["torch"], "numpy", "triton"))


def changes() -> list[Row]:
    """List the current changes of torch: target, file and reason; imports torch."""
    driver()
    return [] if _state is None or _state.patches is None else _state.patches.rows()


# ------------------------------------------------------------------------- failures
def _check_needs() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        raise ActivationError(f"torchdevice_cuda needs {names}, not installed here; pip install {names}")


def _torch_version() -> str | None:
    """Return the version of the torch that is imported, or was about to be."""
    version: str | None = getattr(sys.modules.get("torch.version"), "__version__", None)
    return version


def _failure(error: Exception) -> Exception:
    """Return the exception for an error, in one line that names its subject."""
    if isinstance(error, (ActivationError, DriverUnavailable)):
        return error
    version = _torch_version()
    if version is not None and _compat.is_too_old(version):
        return ActivationError(_too_old(version))
    what = " ".join(f"{type(error).__name__}: {error}".split())
    under = "" if version is None else f" with torch {version}"
    return ActivationError(f"torchdevice_cuda {__version__} could not start{under}: {what}")


def _too_old(version: str) -> str:
    from .drivers.mps import macos  # for errors only

    needed = ".".join(map(str, _compat.MINIMUM))
    words = f"torch {version} is too old for torchdevice_cuda {__version__}, which needs torch {needed} or newer"
    return f"{words}; {macos.describe_intel(None)}" if macos.is_intel_mac() else words


def _lift_barrier() -> None:
    """Let torch be imported again: the one that was complete when activation failed, since there can be no second."""
    global _barrier
    if _barrier is not None:
        _barrier.remove()
        sys.modules.setdefault("torch", _barrier.module)
        _barrier = None


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
    """Return the path of torch.cuda in the installed torch."""
    spec = importlib.machinery.PathFinder.find_spec("torch")
    locations = spec.submodule_search_locations if spec is not None else None
    return [str(Path(entry, "cuda")) for entry in locations or ()]


def _check_version(version: str) -> None:
    if _compat.is_too_old(version):
        raise ActivationError(_too_old(version))
    if _compat.torch_release(version) > _compat.NEWEST_KNOWN:
        span = " to ".join(".".join(map(str, end)) for end in (_compat.MINIMUM, _compat.NEWEST_KNOWN))
        warnings.warn(
            f"torch {version} is outside the versions torchdevice_cuda knows ({span}); going on", stacklevel=4
        )


def _bring_up(state: _State) -> drivers.Driver:
    """Bring the driver's devices up; where ``auto`` chose it and they do not come up, the next driver's."""
    chosen = drivers.active()
    while True:
        try:
            chosen.prepare()
            return chosen
        except Exception as error:
            chosen = select_after(chosen, error, state.settings, sys.modules["torch._C"])
            drivers.install(chosen)


def _finish(state: _State, torch: ModuleType) -> None:
    """Apply the patches outside torch.cuda, which need a complete torch."""
    _check_version(torch.__version__)
    chosen = _bring_up(state)
    if state.settings.check_streams != races.OFF and chosen.native is not None:
        races.start(chosen.native, state.settings.check_streams, _list_hidden(torch, "numpy", "triton"))
    if chosen.native is not None:
        if _fills_new_memory(state.settings):
            chosen.native.fill_new_memory(True)
            state.filling = chosen.native
        rehearsal.start(chosen.native, state.settings, _list_hidden(torch))
    counters = report.Counters() if state.counted else None
    state.patches = translate.apply(chosen, state.settings, finder.when_imported, counters)
    if counters is None:
        return
    state.collector = _collector(chosen, torch, counters)
    if state.settings.report is not None:
        state.ending = report.AtExit(state.collector, state.settings.report)


def _fills_new_memory(chosen: settings.Settings) -> bool:
    """Return whether kernels look for memory that nothing has written.

    With an adversarial order, earlier work on the same memory may be still to come when it is allocated.
    """
    return settings.sanitizer.INITCHECK in chosen.sanitize and chosen.streams is None


def _collector(chosen: drivers.Driver, torch: ModuleType, counters: report.Counters | None) -> report.Collector:
    """Begin to count for a report."""
    unseen = chosen.unseen_by_reports
    about = report.About(
        chosen.name,
        lambda: chosen.facts(0).name if chosen.device_count() else "",
        lambda index: chosen.facts(index).total_memory,
        torch.__version__,
        unseen,
        lambda: [*races.list_findings(), *sanitizer.list_findings()],
        rehearsal.describe_error(),
    )
    return report.Collector(about, counters, None if unseen else chosen.native, _list_hidden(torch))


def _list_hidden(torch: ModuleType, *others: str) -> list[str]:
    """List prefixes of files whose lines are not the program's: torch's, this package's and those of other packages."""
    if "IPython" in sys.modules:  # it displays tensors, by functions of decorator
        others += ("IPython", "decorator")
    specs = (importlib.util.find_spec(name) for name in others)
    files = [torch.__file__, str(Path(__file__).with_name("__init__.py")), *(spec.origin for spec in specs if spec)]
    prefixes = [str(file).removesuffix("__init__.py") for file in files]
    return [*prefixes, "<frozen ", "<eval_with_key>"]


def _serve_stand_ins(chosen: settings.Settings) -> Finder | None:
    """Serve the packages that the settings name; they may be imported before torch."""
    if not chosen.stand_ins:
        return None
    from .stand_ins.finding import Finder

    return Finder(chosen.stand_ins)


# --------------------------------------------------------------------- before torch
def _activate_early(state: _State) -> None:
    tree = finder.Shadow(ROOT, lambda: _decide_early(state), _stock_path, lambda error: _give_up(state, error))
    state.finder = finder.ShadowFinder([tree], {"torch": lambda torch: _finish_early(state, torch)})
    state.finder.install()


def _decide_early(state: _State) -> finder.Files:
    """Choose the driver while torch imports torch.cuda. An error must not break the program's import of torch."""
    try:
        return _choose(state)
    except Exception as error:
        state.failed = error
        return {}
    except KeyboardInterrupt as interruption:
        _end_interrupted(state, interruption)
        raise


def _end_interrupted(state: _State, interruption: KeyboardInterrupt) -> None:
    """End the program as whoever activated wants, where the user interrupted a build; else return."""
    from .native.processes import BuildInterrupted

    if isinstance(interruption, BuildInterrupted):
        state.failing(interruption)


def _give_up(state: _State, error: Exception) -> None:
    """A file of the shadow tree failed: torch goes on importing its own."""
    state.failed = error
    if state.bindings is not None:
        state.bindings.undo()


def _finish_early(state: _State, torch: ModuleType) -> None:
    global _barrier, _state
    error = state.failed
    if error is None:
        try:
            _finish(state, torch)
        except Exception as raised:
            error = raised
        except KeyboardInterrupt as interruption:
            _end_interrupted(state, interruption)
            raise
    if error is not None:
        # Without the lock: this thread has the import lock of torch, for which the lock's owner may be waiting.
        _undo(state)
        _state = None
        failure = _failure(error)
        if failure is not error:
            failure.__cause__ = error
        _barrier = finder.Barrier(torch, lambda: state.failing(failure))
        _barrier.install()
        state.failing(failure)
        _lift_barrier()


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
    """Return whether torch's C++ put this on the module, once, while torch was imported: the ``*Tensor`` classes."""
    return name.endswith("Tensor") and type(value).__name__ == "tensortype"


# --------------------------------------------------------------------------- undo
def _undo(state: _State) -> None:
    _log.removeHandler(_shown)
    if state.ending is not None:
        state.ending.write_now()
    elif state.collector is not None:
        state.collector.stop()
    races.stop()
    rehearsal.stop()
    sanitizer.stop()
    if state.filling is not None:
        state.filling.fill_new_memory(False)
    if state.patches is not None:
        state.patches.undo()
    if state.stand_ins is not None:
        state.stand_ins.remove()
    if state.command is not None:
        state.command.undo()
    if state.monitors is not None:
        state.monitors.undo()
    if state.finder is not None:
        state.finder.remove()
    if state.bindings is not None:
        state.bindings.undo()
    if state.rewrite is not None:
        state.rewrite.undo()
    loaded = _loaded()
    served = shadow.files() if loaded else {}
    ours = [name for name in loaded if getattr(sys.modules[name], "__file__", None) == str(served.get(name))]
    if ours:
        # Loaded by the finder, so there is no stock code in memory to put back: execute it in the same modules.
        Rewrite(ours).apply(ROOT, finder.Shadow(ROOT, dict, _stock_path).stock_spec, _set_by_cpp)
    drivers.install(None)
