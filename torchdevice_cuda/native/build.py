"""Builds the device in host memory for the installed torch, once, and finds it again.

    python -m torchdevice_cuda.native.build [--as mps] [--force]

``library(kind)`` returns the path of the core's compiled module, building it if needed, ``libraries(kind)`` those of
all parts. A precompiled one, of the distribution ``torchdevice-cuda-native``, is preferred (`prebuilt`). Built
libraries are stored in the user's cache under a key of their contents (the sources, torch and its C++ ABI, compiler
flags, Python's ABI), which depends neither on paths nor on the compiler. So every clone and every environment with the
same torch shares one library, one that was compiled elsewhere is as good, and no compiler runs at a start. Processes
that need it at once build it once: a file lock serializes them. Every failure is a BuildError.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ..settings import SettingsError, variables
from ..trust import MISSING, Untrusted, open_folder
from . import compilation, loading, parts, prebuilt, sealing, toolchain
from .parts import CALLS, CORE
from .places import KINDS, Place, torch_version, whereabouts
from .processes import BuildInterrupted, reporting_interruption
from .sealing import flaw
from .toolchain import BuildError, compiler, has_compiler

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "KINDS",
    "BuildError",
    "BuildInterrupted",
    "Origin",
    "Place",
    "flaw",
    "has_compiler",
    "libraries",
    "library",
    "load",
    "main",
    "origin",
    "torch_version",
    "whereabouts",
]

_log = logging.getLogger("torchdevice_cuda")

_LOCK = "lock"
# While another process builds, print a line now and then.
_WAITING_S = 15.0
#: The pattern of library folders.
FOLDER = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{20}}")
# Stored beside a newly built library that did not load: its digest. The same build would give the same library.
_HOPELESS = "does-not-load"
# The reason for building a library that exists.
_ASKED = "asked for"
_HOW = {
    "cuda": "python -m torchdevice_cuda --build",
    "mps": "python -m torchdevice_cuda --driver mps --build",
    CALLS: "python -m torchdevice_cuda --driver mps --build",
}


def _acquire(path: Path, say: Callable[[str], None]) -> BaseFileLock:
    """Lock `path`, after waiting for its holder if necessary."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another process is building the native device; waiting for it")
        started = time.monotonic()
        while (left := started + toolchain.PATIENCE_S - time.monotonic()) > 0:
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=min(_WAITING_S, left))
                return lock
            if left > _WAITING_S:
                say(f"still waiting for the process that holds {path} ({time.monotonic() - started:.0f} s)")
        raise BuildError(
            f"another process has been building the native device for {toolchain.PATIENCE_S / 60:.0f} minutes and "
            f"holds {path}. End it, or set TORCHDEVICE_CACHE_DIR to build elsewhere."
        ) from None
    return lock


#: Entered while a line is printed: lifts what would hide it from the user (pytest's capture).
unhidden: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


def _say(line: str) -> None:
    with unhidden():
        print(f"torchdevice_cuda: {line}", file=sys.stderr, flush=True)


#: Whether standard error shows a line that is overwritten though it is no terminal: the output of a notebook's cell.
overwrites_lines = False


def _terminal(say: Callable[[str], None]) -> TextIO | None:
    """Return the terminal for the progress bar, unless lines go elsewhere."""
    shows = sys.stderr is not None and (sys.stderr.isatty() or overwrites_lines)
    return sys.stderr if say is _say and shows else None


@contextlib.contextmanager
def _failing_as_build_errors() -> Iterator[None]:
    """Raise BuildError for all errors of the disk, the home folder and the packages that a build needs."""
    try:
        yield
    except BuildError:
        raise
    except SettingsError as error:
        raise BuildError(str(error)) from error
    except OSError as error:
        raise BuildError(
            f"the native device cannot be had: {error}. Where that is its cache, TORCHDEVICE_CACHE_DIR names another."
        ) from error
    except RuntimeError as error:  # the process may not start another thread
        raise BuildError(
            f"the native device cannot be built: {error}; run python -m torchdevice_cuda --doctor"
        ) from error
    except ImportError as error:
        raise BuildError(
            f"building the native device needs a package that is not installed: {error}; pip install it"
        ) from error


class _Refused(NamedTuple):
    """A library that does not load: its digest, and the reason."""

    digest: str
    why: str


class Origin(NamedTuple):
    """The origin of a loaded library, and the folder for measurements with it."""

    path: Path
    #: The distribution that contains it; empty if it was compiled here.
    distribution: str
    #: Why it is not from that distribution, if that is installed.
    otherwise: str
    notes: Path


_origins: dict[str, Origin] = {}


def origin(kind: str) -> Origin:
    """Return the origin of the library that this process has loaded."""
    return _origins[parts.name_library(kind, CORE)]


def _shipped(kind: str, part: str, place: Place) -> tuple[prebuilt.Shipped | None, str]:
    """Return the precompiled library, or why there is none; an empty reason without the distribution."""
    try:
        return prebuilt.find(prebuilt.name_entry(kind, part), place.key_of(kind, part), place.torch), ""
    except prebuilt.NotShipped as error:
        if str(error):
            _log.info("%s, so it is not used", error)
        return None, str(error)


def library(
    kind: str,
    part: str = CORE,
    *,
    build: bool = True,
    force: bool = False,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Return the compiled module of a part of `kind`, one of :data:`KINDS`.

    With ``build=False`` nothing is compiled: a missing library raises BuildError. ``say`` gets progress lines (standard
    error by default).
    """
    return libraries(kind, (part,), build=build, force=force, say=say)[part]


def libraries(
    kind: str,
    wanted: Sequence[str] | None = None,
    *,
    build: bool = True,
    force: bool = False,
    say: Callable[[str], None] | None = None,
) -> dict[str, Path]:
    """Return the compiled modules of several parts, by default of all; missing ones are built together."""
    with _failing_as_build_errors():
        place = whereabouts(kind)
        named = list(parts.parts_of(kind)) if wanted is None else list(wanted)
        for part in named:
            if part not in parts.parts_of(kind):
                known = parts.parts_of(kind)
                hint = variables.suggest(part, known) or ";"
                raise BuildError(f"the native device ({kind}) has no part {part!r}{hint} its parts: {', '.join(known)}")
        found: dict[str, Path] = {}
        why_not = ""
        for part in named:
            shipped, otherwise = (None, "") if force else _shipped(kind, part, place)
            why_not = why_not or otherwise
            if shipped is not None:
                os.close(shipped.opened)
                found[part] = shipped.path
        missing = [part for part in named if part not in found]
        if missing:
            _close(_provide(kind, missing, place, why_not, build=build, force=force, say=say or _say))
        return {part: found.get(part, place.of_part(kind, part)) for part in named}


def _provide(
    kind: str,
    wanted: Sequence[str],
    place: Place,
    otherwise: str,
    *,
    build: bool,
    force: bool = False,
    refused: _Refused | None = None,
    say: Callable[[str], None] = _say,
) -> dict[str, tuple[int, bool]]:
    """Return the cached libraries' descriptors, and whether each was just built. One that was `refused` is not used.

    `otherwise` is the reason why none was precompiled.
    """
    found, whys = _look(kind, wanted, place, refused, force)
    if not whys:
        return found
    _close(found)
    why = next(iter(whys.values()))
    if not build:
        part, said = next(iter(whys)), "; ".join(filter(None, (why, otherwise)))
        which, asked = ("", "") if part == CORE else (f"'s part {part}", f" {part}")
        raise BuildError(f"the native device{which} is not built ({said}); {_HOW[kind]}{asked} builds it")
    try:
        cxx = compiler()
        with reporting_interruption(), _failing_as_build_errors(), _sole_builder(place.path.parent, say):
            # Another process may have built it meanwhile.
            found, whys = _look(kind, wanted, place, refused, force)
            if not whys:
                return found
            why = next(iter(whys.values()))
            if why not in (MISSING, _ASKED):
                say(f"building the native device again: {why}")
            if otherwise:
                say(otherwise)
            try:
                _build(kind, list(whys), place, cxx, say)
                for part in whys:
                    found[part] = sealing.open_library(place.of_part(kind, part)), True
            except BaseException:
                _close(found)
                raise
            return found
    except BuildError as error:
        if force or why == MISSING or why in str(error):
            raise
        raise BuildError(f"{why}, and it cannot be built again: {error}") from error


def _look(
    kind: str, wanted: Sequence[str], place: Place, refused: _Refused | None, force: bool
) -> tuple[dict[str, tuple[int, bool]], dict[str, str]]:
    """Open cached libraries; return them, and why others cannot be used."""
    found: dict[str, tuple[int, bool]] = {}
    whys: dict[str, str] = {}
    for part in wanted:
        opened, why = (None, _ASKED) if force else _usable(place.of_part(kind, part), refused)
        if opened is None:
            whys[part] = why
        else:
            found[part] = opened, False
    return found, whys


def _close(found: Mapping[str, tuple[int, bool]]) -> None:
    for opened, _ in found.values():
        os.close(opened)


def _build(kind: str, missing: list[str], place: Place, cxx: str, say: Callable[[str], None]) -> None:
    """Compile parts. They are linked with the core, which is compiled too if it is missing."""
    paths = {part: place.of_part(kind, part) for part in parts.parts_of(kind)}
    if CORE not in missing:
        shipped, _ = _shipped(kind, CORE, place)
        if shipped is not None:
            os.close(shipped.opened)
            paths[CORE] = shipped.path
        elif flaw(paths[CORE]):
            missing = [CORE, *missing]
    compilation.compile_parts(kind, missing, place.torch, cxx, paths, say, _terminal(say))


def _usable(path: Path, refused: _Refused | None) -> tuple[int | None, str]:
    """Return the library's descriptor, or the reason why there is none."""
    try:
        opened = sealing.open_library(path)
    except Untrusted as error:
        return None, str(error)
    if refused is not None and sealing.digest(opened) == refused.digest:
        os.close(opened)
        return None, refused.why
    return opened, ""


@contextlib.contextmanager
def _sole_builder(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the folder and its own lock: other folders can be built meanwhile."""
    from ..report.builds import build_time  # what reports import is loaded when something is built only

    sealing.make_folder(folder)
    with build_time.measure():
        lock = _acquire(folder / _LOCK, say)
        try:
            _sweep(folder)
            yield
        finally:
            lock.release()


def _sweep(folder: Path) -> None:
    """Remove the files of killed builds, here and under other keys, which may never be built again."""
    from filelock import FileLock, Timeout

    for left in folder.parent.glob(f"*/{compilation.SCRATCH}*"):
        if left.parent == folder:
            shutil.rmtree(left, ignore_errors=True)
            continue
        if not FOLDER.fullmatch(left.parent.name):
            continue  # the cache may share a folder with other files
        # A running build holds the lock.
        lock = FileLock(left.parent / _LOCK, timeout=0)
        with contextlib.suppress(Timeout, OSError), open_folder(left.parent, left.parent.parent), lock:
            shutil.rmtree(left, ignore_errors=True)


#: Whether missing parts may be built: as in the last request for the device.
_may_build: dict[str, bool] = {}


def load(kind: str, *, build: bool = True, say: Callable[[str], None] = _say) -> ModuleType:
    """Import the core's compiled module (after torch, whose libraries it needs). This does not install the device.

    With ``build=False`` nothing is compiled, other parts included.
    """
    _may_build[kind] = build
    known = sys.modules.get(parts.name_library(kind, CORE))
    if known is not None:
        return known
    with _failing_as_build_errors():
        place = whereabouts(kind)
    core = _load(kind, CORE, place, build, say)
    if len(parts.parts_of(kind)) > 1:
        # Parts of this core, even if the sources change meanwhile.
        loading.attach(core, kind, lambda part: _load(kind, part, place, _may_build[kind], _say))
    return core


def _load(kind: str, part: str, place: Place, build: bool, say: Callable[[str], None]) -> ModuleType:
    """Import the compiled module of a part.

    One that does not load, for instance because it was linked with a newer C++ library than the installed one, is built
    again, once; so is a precompiled one.
    """
    name = parts.name_library(kind, part)
    import torch  # noqa: F401  (its shared libraries must be loaded first)

    with _failing_as_build_errors():
        path = place.of_part(kind, part)
        shipped, otherwise = _shipped(kind, part, place)
        if shipped is not None:
            try:
                module = loading.load(name, shipped.path, shipped.opened)
            except loading.LoadError as error:
                otherwise = f"{error}, of {shipped.name}"
                _log.info("%s, so it is not used", otherwise)
            else:
                _origins[name] = Origin(shipped.path, shipped.name, "", path.parent)
                return module
        _origins[name] = Origin(path, "", otherwise, path.parent)
        opened, built = _provide(kind, (part,), place, otherwise, build=build, say=say)[part]
        try:
            return loading.load(name, path, opened)
        except loading.LoadError as error:
            refused = _Refused(sealing.digest(opened), str(error))
        noted = path.with_name(_HOPELESS if part == CORE else f"{_HOPELESS}-{part}")
        if not build or sealing.read_note(noted) == refused.digest:
            again = f"python -m torchdevice_cuda.native.build --as {kind} --force"
            raise BuildError(f"{refused.why}; {again} builds it again")
        if not built:
            opened, _ = _provide(kind, (part,), place, otherwise, build=True, refused=refused, say=say)[part]
            try:
                return loading.load(name, path, opened)
            except loading.LoadError as error:
                refused = _Refused(sealing.digest(opened), str(error))
        sealing.write_note(noted, refused.digest)
        raise BuildError(f"the native device was built, but {refused.why}; use --driver cpu, and report this")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m torchdevice_cuda.native.build", description=__doc__)
    parser.add_argument("--as", dest="kind", choices=KINDS, default="cuda", help="what is built (default: cuda)")
    parser.add_argument("--part", default=CORE, help="which part of it (default: core)")
    parser.add_argument("--force", action="store_true", help="build even if it is there")
    options = parser.parse_args(arguments)
    try:
        print(library(options.kind, options.part, force=options.force))
    except BuildError as error:
        print(f"torchdevice_cuda: {error}", file=sys.stderr)
        return 1
    except BuildInterrupted as error:
        print(f"torchdevice_cuda: {error}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
