"""Child processes of a program run with ``python -m torchdevice_cuda`` come under torchdevice_cuda too.

This folder goes on the children's ``PYTHONPATH``: python finds its ``sitecustomize`` there, which does what the
installed shim does. The two modules beside this one are the shim's, byte for byte.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, MutableMapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeVar

from .. import settings

_Environ = TypeVar("_Environ", bound=MutableMapping[str, str])
FOLDER = Path(__file__).parent
PACKAGE = FOLDER.parent


def export(
    chosen: settings.Settings, overridden: Iterable[str], environ: MutableMapping[str, str] | None = None
) -> None:
    """Write into the environment what makes children read the same settings and activate themselves.

    ``overridden`` are the fields that the command line gave: only they differ from what the environment says. To be
    called while ``sys.path`` holds only what children get as well, without an entry for this process's program.
    """
    environ = os.environ if environ is None else environ
    written = settings.as_environment(chosen)
    for field in overridden:
        variable, *old = settings.BY_FIELD[field].variables
        for name in (variable, *old):  # an old name, and one of which the command line gave the default
            environ.pop(name, None)
        if variable in written:
            environ[variable] = written[variable]
    environ["TORCHDEVICE_AUTO"] = "1"
    # Someone watches these: what may be built for the program may be built for its children.
    build = settings.BY_FIELD["build"]
    environ[build.variable] = build.write(chosen.build)
    known = environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(FOLDER) not in known and not _shim_reaches_children():
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER), environ.get("PYTHONPATH")]))
    reaching_us(environ)


def reaching_us(environ: _Environ) -> _Environ:
    """Return the environment, in which children find torchdevice_cuda."""
    if not _package_reaches_children():
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [environ.get("PYTHONPATH"), str(PACKAGE.parent)]))
    return environ


def _shim_reaches_children() -> bool:
    """Return whether the shim is installed, or on ``PYTHONPATH`` as a whole: in both its ``.pth`` lies beside it."""
    spec = PathFinder.find_spec("torchdevice_cuda_shim")
    return spec is not None and spec.origin is not None and Path(spec.origin).with_suffix(".pth").exists()


def _package_reaches_children() -> bool:
    """Return whether children find torchdevice_cuda by themselves; false if it was found in the current directory."""
    if PathFinder.find_spec(PACKAGE.name) is not None:
        return True
    # An editable install may have a finder of its own.
    others = [finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_spec")]
    return any(finder.find_spec(PACKAGE.name, None) is not None for finder in others)
