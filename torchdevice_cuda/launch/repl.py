"""The interactive session of ``python -m torchdevice_cuda`` without a program."""

from __future__ import annotations

import code
import contextlib
import os
import sys
from types import ModuleType

from .._version import __version__


def banner() -> str:
    """Return Python's own two lines, and a third."""
    return (
        f"Python {sys.version} on {sys.platform}\n"
        'Type "help", "copyright", "credits" or "license" for more information.\n'
        f"torchdevice-cuda {__version__}: torch.cuda answers in this session."
    )


def interact(main: ModuleType) -> None:
    """Read, evaluate and print in ``main`` until the end of the input, as python does."""
    # Importing readline gives input() its line editing; some builds of python lack it.
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401
    hook = getattr(sys, "__interactivehook__", None)  # completion and the history file, set up by site
    if hook is not None:
        hook()
    console = code.InteractiveConsole(main.__dict__, filename="<stdin>")
    if not sys.flags.quiet:
        console.write(f"{banner()}\n")
    _run_startup_file(console)
    console.interact(banner="", exitmsg="")


def _run_startup_file(console: code.InteractiveConsole) -> None:
    """Execute ``PYTHONSTARTUP``, whose failure is reported and then ignored, as in python."""
    path = None if sys.flags.ignore_environment else os.environ.get("PYTHONSTARTUP")
    if not path:
        return
    try:
        with open(path, "rb") as file:
            program = compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        console.write(f"Could not open PYTHONSTARTUP\n{type(error).__name__}: {error}\n")
    except (SyntaxError, ValueError):
        console.showsyntaxerror(path)
    else:
        console.runcode(program)
