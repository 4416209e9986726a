"""Put a python process under torchdevice_cuda as soon as it imports torch, if ``TORCHDEVICE_AUTO`` says so.

Runs at the start of every python process, so it imports nothing that python has not imported already, leaves
torchdevice_cuda alone until torch is asked for, and disturbs no process that never asks. One that does, and cannot
have CUDA, ends with one line and exit status 2: tests that skip where there is no GPU would look well.
``TORCHDEVICE_AUTO=try`` lets it go on with the torch it has. Other interpreters may find this on ``PYTHONPATH``: the
syntax is that of Python 3.6.
"""

import os
import sys

TYPE_CHECKING = False  # type checkers take it for true; python may not have imported typing
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

VARIABLE = "TORCHDEVICE_AUTO"
#: No other variable of ours begins so: what does is that one, misspelt.
_LIKE_IT = "TORCHDEVICE_A"
_PACKAGE = "torchdevice_cuda"
_NAME = "torchdevice-cuda-shim"
_ON = ("1", "true", "yes", "on")
_TRY = ("try",)
_OFF = ("0", "false", "no", "off")
STATUS = 2
#: As shells report a program that the user interrupted.
INTERRUPTED = 130
#: torch, and what monitors of GPUs ask without it.
_WATCHED = ("torch", "pynvml", "ray._private.thirdparty.pynvml")


class TorchWatch:
    """A ``sys.meta_path`` entry that finds nothing: it activates torchdevice_cuda when torch is looked for.

    It stays on ``sys.meta_path`` when it is done: the import system is walking that list when it calls, and where
    activation failed torch may be looked for again.
    """

    def __init__(self) -> None:
        self.pending = True
        self.failed = None  # type: Exception | None

    def find_spec(
        self, fullname: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Part of the import protocol."""
        if fullname not in _WATCHED:
            return None
        if self.failed is not None:
            _fail(self.failed)
        if not self.pending:
            return None
        self.pending = False
        try:
            if not _activate():
                return None
        except Exception as error:
            self.failed = error
            _fail(error)
            self.failed = None
            return None
        # The finder that activation has put first was not there when the import system set out: start over.
        import importlib.util

        return importlib.util.find_spec(fullname)


_watch = None  # type: TorchWatch | None
_asked = False
_chained = set()  # type: set[str]


def install() -> None:
    """Watch for torch if the environment says so. Calling it again does nothing."""
    global _asked, _watch
    if _asked:
        return
    _asked = True
    # What cannot be read, or is misspelt, is reported to those who want torch.
    if (_word() and _word() not in _OFF) or _misspelt():
        _watch = TorchWatch()
        if "torch" in sys.modules:
            _watch.find_spec("torch")
        else:
            sys.meta_path.insert(0, _watch)


def _word() -> str:
    return os.environ.get(VARIABLE, "").strip().lower()


def _misspelt() -> str:
    """Return the name of a variable that is like ours, where ours is not set; else nothing."""
    if _word():
        return ""
    found = [name for name in os.environ if name.startswith(_LIKE_IT) and name != VARIABLE and os.environ[name]]
    return found[0] if found else ""


def is_pending() -> bool:
    """Return whether the import of torch will activate torchdevice_cuda."""
    return _watch is not None and _watch.pending


def cancel() -> None:
    """Do not activate when torch is imported."""
    if _watch is not None:
        _watch.pending = False


def run_hidden_sitecustomize(file: str) -> None:
    """Execute the ``sitecustomize`` that python would have run had it not found ``file``, in that one's place."""
    folder = os.path.dirname(os.path.abspath(file))
    if folder in _chained:  # the hidden one came back to us, looking for what it hides itself
        return
    _chained.add(folder)
    from importlib.machinery import PathFinder

    entries = [os.path.abspath(entry) for entry in sys.path]
    rest = sys.path[entries.index(folder) + 1 :] if folder in entries else list(sys.path)
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in rest if os.path.abspath(entry) != folder])
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _activate() -> bool:
    """Activate; whether this call did it."""
    if _misspelt():
        raise ValueError(f"there is no variable {_misspelt()}; did you mean {VARIABLE}?")
    if _word() not in _ON + _TRY:
        allowed = ", ".join(_ON + _TRY + _OFF)
        raise ValueError(f"{VARIABLE}={os.environ[VARIABLE]!r} cannot be read; allowed: {allowed}")
    _reach_package()
    import torchdevice_cuda

    if getattr(torchdevice_cuda, "__file__", None) is None or not hasattr(torchdevice_cuda, "__path__"):
        there = getattr(torchdevice_cuda, "__file__", None) or ", ".join(torchdevice_cuda.__path__)
        raise ImportError(f"{there} hides the package {_PACKAGE}: rename it")
    from torchdevice_cuda import activation

    if activation.is_active():
        return False
    # A process nobody watches starts no compiler, unless it is told to.
    activation.start({} if os.environ.get("TORCHDEVICE_BUILD") else {"build": False}, _fail)
    return True


def _reach_package() -> None:
    """Add the folder of the package to ``sys.path`` where pip has taken it off, to build in isolation.

    It comes last: what the isolated environment has takes precedence.
    """
    from importlib.util import find_spec

    if find_spec(_PACKAGE) is not None:
        return
    folder = os.path.dirname(os.path.abspath(__file__))
    # This file lies beside the package, or in a folder of the package.
    for root in (folder, os.path.dirname(os.path.dirname(folder))):
        if os.path.isfile(os.path.join(root, _PACKAGE, "__init__.py")):
            sys.path.append(root)
            return


def _fail(error: BaseException) -> None:
    """End the process, or say that it goes on without CUDA; not where the user interrupted a build."""
    # torchdevice_cuda's own errors name the thing; others need their type.
    ours = type(error).__module__.partition(".")[0] == _PACKAGE
    text = str(error) if ours else f"{type(error).__name__}: {error}"
    if _word() in _TRY and isinstance(error, Exception):
        say(_NAME, f"torch stays as it is: {text}")
    else:
        end(_NAME, text, error)


def say(name: str, text: str) -> None:
    """Print one line on standard error."""
    if sys.stderr is not None:
        print(name + ": " + " ".join(text.split()), file=sys.stderr)


def end(name: str, text: str, error: BaseException) -> None:
    """End the program with one line: going on without CUDA it would skip what it was to do there, and look well."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        raise error  # which threading shows; SystemExit would end this thread without a word
    status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else STATUS
    ending = _ending_of_pytest() if "PYTEST_VERSION" in os.environ else None
    if ending is not None:
        raise ending(name + ": " + " ".join(text.split()))
    say(name, text)
    raise SystemExit(status)


class Ended(KeyboardInterrupt):
    """End a session of pytest with one line: pytest takes SystemExit for a fault of its own.

    Any Exception it shows with a traceback while it collects tests, its own Exit too.
    """


def _ending_of_pytest() -> "type[BaseException] | None":
    """Return what the session of pytest that led here shows in one line; None before there is one."""
    callers = set()  # type: set[str]
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        callers.update((frame.f_globals.get("__name__", ""), frame.f_code.co_name))
        frame = frame.f_back
    if "wrap_session" not in callers:
        return None
    ending: type[BaseException] = Ended
    if "__channelexec__" in callers:  # a worker of pytest-xdist, which is replaced if it ends: a file or test fails
        ending = sys.modules["_pytest.nodes"].Collector.CollectError
    elif "_do_configure" in callers:
        ending = sys.modules["_pytest.outcomes"].Exit
    return ending
