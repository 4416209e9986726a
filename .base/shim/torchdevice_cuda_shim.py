"""Put a python process under torchdevice_cuda as soon as it imports torch, if ``TORCHDEVICE_AUTO`` says so.

Runs at the start of every python process, so it imports nothing that python has not imported already, leaves
torchdevice_cuda alone until torch is asked for, and survives whatever goes wrong. Other interpreters may find it on
``PYTHONPATH``: the syntax is that of Python 3.6.
"""

import os
import sys

__version__ = "0.1.0"

VARIABLE = "TORCHDEVICE_AUTO"
_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")


class TorchWatch:
    """A ``sys.meta_path`` entry that finds nothing: it activates torchdevice_cuda when torch is looked for.

    It stays on ``sys.meta_path`` when it is done: the import system is walking that list when it calls.
    """

    def __init__(self) -> None:
        self.pending = True

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> "object | None":
        """Part of the import protocol."""
        if fullname != "torch" or not self.pending:
            return None
        self.pending = False
        if not _activate():
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
    value = os.environ.get(VARIABLE, "")
    word = value.strip().lower()
    if word in _ON:
        if "torch" in sys.modules:
            _activate()
        else:
            _watch = TorchWatch()
            sys.meta_path.insert(0, _watch)
    elif word and word not in _OFF:
        _warn(f"{VARIABLE}={value!r} cannot be read; allowed: {', '.join(_ON + _OFF)}")


def is_pending() -> bool:
    """Whether the import of torch will activate torchdevice_cuda."""
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
    """Activate; whether this call did it. What goes wrong is one line, and the process keeps the torch it has."""
    try:
        from torchdevice_cuda import activation

        if activation.is_active():
            return False
        activation.activate(build=False)  # a process nobody watches starts no compiler
    except Exception as error:
        _warn(f"torch stays as it is: {type(error).__name__}: {error}")
        return False
    return True


def _warn(text: str) -> None:
    if sys.stderr is not None:
        print("torchdevice-cuda-shim: " + " ".join(text.split()), file=sys.stderr)
