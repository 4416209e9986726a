"""Builds the host-memory device for the torch that is installed, once, and finds it again.

    python -m torchdevice_cuda.native.build [--as mps] [--force]

``library(kind)`` gives the path of the compiled module, building it if need be. One that came compiled, in
``torchdevice-cuda-native``, is taken first (`prebuilt`). What is built is kept in the user's cache under a key of what
is in it (the sources, torch and its C++ ABI, what the compiler is told, Python's ABI) and of nothing that says where
anything lies or who compiled it: every clone and every environment with the same torch shares one library, and one that
was compiled elsewhere is as good, so no compiler is asked anything at a start. Ten processes that need it at once build
it once: they meet at a file lock. What fails is a BuildError, whatever it is.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import logging
import os
import platform
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ..settings import SettingsError, cache_dir
from ..trust import MISSING, Untrusted, open_folder
from . import compilation, loading, prebuilt, sealing, toolchain
from .processes import BuildInterrupted, reporting_interruption
from .sealing import flaw
from .toolchain import BuildError, Torch, compiler, has_compiler

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
    "library",
    "load",
    "main",
    "origin",
    "torch_version",
    "whereabouts",
]

_log = logging.getLogger("torchdevice_cuda")

#: The device as CUDA's and as Apple's, and what the driver of a real Apple GPU can use of it.
KINDS = ("cuda", "mps", compilation.CALLS)
_LOCK = "lock"
# While another process builds, a line says so now and then.
_WAITING_S = 15.0
#: How folders with libraries are named.
FOLDER = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{20}}")
# Beside a library that was just built and did not load: the digest of it. What built it once would build it again.
_HOPELESS = "does-not-load"
_HOW = {
    "cuda": "python -m torchdevice_cuda --build",
    "mps": "python -m torchdevice_cuda --driver mps --build",
    compilation.CALLS: "python -m torchdevice_cuda --driver mps --build",
}


def _key(kind: str, torch: Torch) -> str:
    """Everything a library depends on but the compiler."""
    digest = hashlib.sha256()
    facts = [torch.version, str(torch.cxx11_abi), repr(compilation.layout(kind))]
    facts += [*toolchain.compile_flags(kind, torch), *toolchain.link_flags(kind != compilation.CALLS)]
    facts += [sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag or "", platform.machine()]
    for fact in facts:
        digest.update(os.fsencode(fact) + b"\0")
    for name, path in compilation.sources():
        with open(path, "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:20]


def _filename(kind: str) -> str:
    return f"_hostdevice_{kind}" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def _acquire(path: Path, say: Callable[[str], None]) -> BaseFileLock:
    """Locks `path`, if need be after whoever has it."""
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


def _say(line: str) -> None:
    print(f"torchdevice_cuda: {line}", file=sys.stderr, flush=True)


def _terminal(say: Callable[[str], None]) -> TextIO | None:
    """Where a bar is drawn: on a terminal, unless lines go elsewhere."""
    return sys.stderr if say is _say and sys.stderr is not None and sys.stderr.isatty() else None


@contextlib.contextmanager
def _failing_as_build_errors() -> Iterator[None]:
    """The disk, the home folder and the packages that a build needs fail in their own ways; callers know one."""
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
    except RuntimeError as error:  # a process that may have no more threads
        raise BuildError(f"the native device cannot be built: {error}") from error
    except ImportError as error:
        raise BuildError(f"building the native device needs a package that is not installed: {error}") from error


class _Refused(NamedTuple):
    """A library that does not load: what it is known by, and why."""

    digest: str
    why: str


class Place(NamedTuple):
    """The torch that is installed, and where the library for it is, or is to be."""

    torch: Torch
    key: str
    path: Path


class Origin(NamedTuple):
    """Where a loaded library is from, and where to keep what is learned about it."""

    path: Path
    #: The distribution that it came with; empty where it was compiled here.
    distribution: str
    #: Why it is not from that distribution, where that is installed.
    otherwise: str
    notes: Path


_origins: dict[str, Origin] = {}


def origin(kind: str) -> Origin:
    """Of the library that this process has loaded."""
    return _origins[kind]


def torch_version() -> str:
    """That of the torch that libraries are built for."""
    return toolchain.installed_torch().version


def whereabouts(kind: str) -> Place:
    """Of the library for the torch that is installed."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if os.name != "posix":
        raise BuildError(f"the native device is not made for {platform.system()}")
    torch = toolchain.installed_torch()
    key = _key(kind, torch)
    return Place(torch, key, cache_dir() / f"{kind}-{key}" / _filename(kind))


def _shipped(kind: str, place: Place) -> tuple[prebuilt.Shipped | None, str]:
    """The library that came compiled, or why there is none; empty where none came."""
    try:
        return prebuilt.find(kind, place.key, place.torch), ""
    except prebuilt.NotShipped as error:
        if str(error):
            _log.info("%s, so it is not used", error)
        return None, str(error)


def library(kind: str, *, build: bool = True, force: bool = False, say: Callable[[str], None] | None = None) -> Path:
    """The compiled module for `kind`, one of :data:`KINDS`.

    With ``build=False`` nothing is compiled: BuildError says that it is not there. ``say`` gets progress lines
    (standard error by default).
    """
    with _failing_as_build_errors():
        place = whereabouts(kind)
        shipped, otherwise = (None, "") if force else _shipped(kind, place)
        if shipped is not None:
            os.close(shipped.opened)
            return shipped.path
        opened, _ = _provide(kind, place, otherwise, build=build, force=force, say=say or _say)
        os.close(opened)
        return place.path


def _provide(
    kind: str,
    place: Place,
    otherwise: str,
    *,
    build: bool,
    force: bool = False,
    refused: _Refused | None = None,
    say: Callable[[str], None] = _say,
) -> tuple[int, bool]:
    """The cached library's descriptor, and whether it was built for that. The one that was `refused` will not do.

    `otherwise` says why none came compiled.
    """
    path = place.path
    opened, why = (None, "asked for") if force else _usable(path, refused)
    if opened is not None:
        return opened, False
    if not build:
        raise BuildError(
            f"the native device is not built ({'; '.join(filter(None, (why, otherwise)))}); {_HOW[kind]} builds it"
        )
    try:
        cxx = compiler()
        with reporting_interruption(), _failing_as_build_errors(), _sole_builder(path.parent, say):
            # Another process may have built it meanwhile.
            opened, why = (None, why) if force else _usable(path, refused)
            if opened is not None:
                return opened, False
            if why != MISSING:
                say(f"building the native device again: {why}")
            if otherwise:
                say(otherwise)
            compilation.compile_library(kind, place.torch, cxx, path, say, _terminal(say))
            return sealing.open_library(path), True
    except BuildError as error:
        if force or why == MISSING or why in str(error):
            raise
        raise BuildError(f"{why}, and it cannot be built again: {error}") from error


def _usable(path: Path, refused: _Refused | None) -> tuple[int | None, str]:
    """The library's descriptor, or why there is none."""
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
    """Has the folder, and its lock, which is its own: others are built meanwhile."""
    sealing.make_folder(folder)
    lock = _acquire(folder / _LOCK, say)
    try:
        _sweep(folder)
        yield
    finally:
        lock.release()


def _sweep(folder: Path) -> None:
    """Removes what builds left that were killed, here and under other keys: those may never be built again."""
    from filelock import FileLock, Timeout

    for left in folder.parent.glob(f"*/{compilation.SCRATCH}*"):
        if left.parent == folder:
            shutil.rmtree(left, ignore_errors=True)
            continue
        if not FOLDER.fullmatch(left.parent.name):
            continue  # the cache may be in a folder with other things in it
        # Whoever builds there has the lock.
        lock = FileLock(left.parent / _LOCK, timeout=0)
        with contextlib.suppress(Timeout, OSError), open_folder(left.parent, left.parent.parent), lock:
            shutil.rmtree(left, ignore_errors=True)


def load(kind: str, *, build: bool = True, say: Callable[[str], None] = _say) -> ModuleType:
    """Imports the compiled module (after torch, whose libraries it needs). Does not install the device.

    One that does not load, for instance because it was linked with a newer C++ library than there is here, is built
    again, once; so is one that came compiled.
    """
    name = f"_hostdevice_{kind}"
    if name in sys.modules:
        return sys.modules[name]
    import torch  # noqa: F401  (its shared libraries must be loaded first)

    with _failing_as_build_errors():
        place = whereabouts(kind)
        path = place.path
        shipped, otherwise = _shipped(kind, place)
        if shipped is not None:
            try:
                module = loading.load(name, shipped.path, shipped.opened)
            except loading.LoadError as error:
                otherwise = f"{error}, of {shipped.name}"
                _log.info("%s, so it is not used", otherwise)
            else:
                _origins[kind] = Origin(shipped.path, shipped.name, "", path.parent)
                return module
        _origins[kind] = Origin(path, "", otherwise, path.parent)
        opened, built = _provide(kind, place, otherwise, build=build, say=say)
        try:
            return loading.load(name, path, opened)
        except loading.LoadError as error:
            refused = _Refused(sealing.digest(opened), str(error))
        if not build or sealing.read_note(path.with_name(_HOPELESS)) == refused.digest:
            again = f"python -m torchdevice_cuda.native.build --as {kind} --force"
            raise BuildError(f"{refused.why}; {again} builds it again")
        if not built:
            opened, _ = _provide(kind, place, otherwise, build=True, refused=refused, say=say)
            try:
                return loading.load(name, path, opened)
            except loading.LoadError as error:
                refused = _Refused(sealing.digest(opened), str(error))
        sealing.write_note(path.with_name(_HOPELESS), refused.digest)
        raise BuildError(f"the native device was built, but {refused.why}")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torchdevice_cuda.native.build", description=__doc__)
    parser.add_argument("--as", dest="kind", choices=KINDS, default="cuda", help="what is built (default: cuda)")
    parser.add_argument("--force", action="store_true", help="build even if it is there")
    options = parser.parse_args(arguments)
    try:
        print(library(options.kind, force=options.force))
    except BuildError as error:
        print(f"torchdevice_cuda: {error}", file=sys.stderr)
        return 1
    except BuildInterrupted as error:
        print(f"torchdevice_cuda: {error}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
