"""The child: a program that activates as it is told, imports a file of tests and calls functions of it.

    python child.py FOLDER
    python child.py --serve [MODULE ...]

``FOLDER/request`` says what to do and ``FOLDER/results`` gets a line when a function begins and one when it has ended,
so that the parent knows which one killed the process. It is a program as users write them: it activates at its top, and
so do processes that it spawns. It imports nothing that a test may want to import later.

With ``--serve`` it imports what takes most of the time that a child takes, and waits: for each folder that it reads a
line of, a fork of it (``serving.py``) goes on as that folder's child, in the environment of ``FOLDER/environment``.
"""

from __future__ import annotations

import ast
import faulthandler
import importlib
import json
import operator
import os
import reprlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

#: What stands for the place of this process where a function asks for it.
HERE = ("the place",)
TESTS = str(Path(__file__).resolve().parents[1])


def read(file: Path) -> dict[str, Any]:
    """Return what a file of Python literals holds: they keep tuples apart from lists."""
    literals: dict[str, Any] = ast.literal_eval(file.read_text(encoding="utf-8"))
    return literals


def prepare(request: dict[str, Any]) -> None:
    """Import and activate as a request says."""
    sys.path[:] = [TESTS, *(entry for entry in sys.path if entry not in (TESTS, str(Path(__file__).parent.resolve())))]
    for name in request["imports"]:
        importlib.import_module(name)
    if os.environ.get("TESTS_AS_ON_A_MAC"):  # the variable of harness.mac, which is not imported in every child
        importlib.import_module("harness.mac").hide_library()
    if request["settings"]:
        importlib.import_module("torchdevice_cuda").activate(**request["settings"])
    for name in request.get("imports_later", ()):
        importlib.import_module(name)


IS_ACTIVE = False
if sys.argv[1] == "--serve":
    serving = importlib.import_module("serving")
    folder = serving.become_child(*sys.argv[2:])
    if serving.Prepared.files is not None:
        shared = read(folder / "prepared")
        prepare(shared)
        IS_ACTIVE = bool(shared["settings"])
        folder = serving.fork_for_each_folder()
    # A process that multiprocessing spawns runs this program again, and does what its folder says.
    sys.argv[1:] = [str(folder)]
FOLDER = Path(sys.argv[1])
REQUEST = read(FOLDER / "request")
prepare({**REQUEST, "settings": {}} if IS_ACTIVE else REQUEST)


def find(reference: str) -> Callable[..., Any]:
    """Return the function that a reference ``module:name`` names."""
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = operator.attrgetter(name)(importlib.import_module(module))
    return function


def call(function: Callable[..., Any], arguments: tuple[list[Any], dict[str, Any]]) -> dict[str, Any]:
    """Call a function; return its value, its error, or the reason to skip it."""
    try:
        value = function(*arguments[0], **arguments[1])
        return {"value": json.loads(json.dumps(value))}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # By name: pytest is imported only if the tests have imported it.
        if type(error).__name__ == "Skipped":
            return {"skipped": str(error)}
        return {"error": f"{traceback.format_exc()}\n{variables(error)}"}


def variables(error: BaseException) -> str:
    """Describe the variables at a failed assertion, which seldom names them itself."""
    if not isinstance(error, AssertionError) or error.__traceback__ is None:
        return ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return "".join(f"    {name} = {reprlib.repr(value)}\n" for name, value in frame.f_locals.items())


def printed() -> list[int]:
    """Return the number of bytes printed so far to the two output files."""
    sys.stdout.flush()
    sys.stderr.flush()
    return [os.fstat(1).st_size, os.fstat(2).st_size]


def main(results: TextIO) -> None:
    """Do what is asked, in its order."""
    faulthandler.enable()
    process = os.getpid()
    if REQUEST["setup"]:
        reference, arguments = REQUEST["setup"]
        find(reference)(**arguments)
    functions = [find(reference) for reference, _, _ in REQUEST["cases"]]
    for number, (function, (_, arguments, seconds)) in enumerate(zip(functions, REQUEST["cases"], strict=True)):
        if arguments[1].get("place") == HERE:
            arguments[1]["place"] = importlib.import_module("harness").ChildConfig(**REQUEST["place"])
        print(json.dumps({"case": number, "printed": printed()}), file=results, flush=True)
        # One that hangs ends the process and says where it hung.
        faulthandler.dump_traceback_later(seconds, exit=True, file=2)
        came = call(function, arguments)
        if os.getpid() != process:
            # A fork that its function did not end: it is no business of the results.
            print(came, file=sys.stderr, flush=True)
            os._exit(1)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"case": number, "printed": printed(), **came}), file=results, flush=True)


if __name__ == "__main__":
    with open(FOLDER / "results", "w", encoding="utf-8") as _results:
        main(_results)
    if "serving" in sys.modules and not REQUEST["native"]:
        sys.modules["serving"].end_at_once()
