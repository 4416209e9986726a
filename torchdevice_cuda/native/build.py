"""Builds the host-memory device for the torch that is installed, once, and finds it again.

    python -m torchdevice_cuda.native.build [--as mps] [--force]

``library(kind)`` gives the path of the compiled module, building it if need be. What is built is kept in the user's
cache under a key of what is in it (the sources, torch and its C++ ABI, what the compiler is told, Python's ABI) and of
nothing that says where anything lies: every clone and every environment with the same torch shares one library. Ten
processes that need it at once build it once: they meet at a file lock.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..settings import cache_dir
from . import compilation, toolchain
from .toolchain import BuildError, Torch, compiler, has_compiler

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["KINDS", "BuildError", "flaw", "has_compiler", "library", "load", "main"]

KINDS = ("cuda", "mps")


def _key(kind: str, torch: Torch) -> str:
    """Everything a library depends on but the compiler."""
    digest = hashlib.sha256()
    facts = [torch.version, str(torch.cxx11_abi), repr(compilation.layout(kind))]
    facts += [*toolchain.compile_flags(kind, torch), *toolchain.link_flags()]
    facts += [sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag or "", platform.machine()]
    for fact in facts:
        digest.update(fact.encode() + b"\0")
    for name, path in compilation.sources():
        with open(path, "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:20]


def _filename(kind: str) -> str:
    return f"_hostdevice_{kind}" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def flaw(path: Path) -> str:
    """Why a cached library may not be loaded; empty if it may."""
    try:
        status = path.lstat()
    except OSError:
        return "missing"
    if not path.is_file() or path.is_symlink():
        return "not a plain file"
    if hasattr(os, "getuid"):
        for p, s in ((path, status), (path.parent, path.parent.stat())):
            if s.st_uid not in (os.getuid(), 0):
                return f"{p} belongs to another user"
            if s.st_mode & 0o022:
                return f"{p} can be written by others"
    return "" if compilation.is_sealed(path) else "truncated"


def _acquire(path: Path, say: Callable[[str], None]) -> BaseFileLock:
    """Locks `path`, if need be after whoever has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another process is building the native device; waiting for it")
        try:
            lock.acquire(timeout=toolchain.PATIENCE_S)
        except Timeout as error:
            raise BuildError(
                f"another process has been building the native device for {toolchain.PATIENCE_S / 60:.0f} minutes and "
                f"holds {path}. End it, or set TORCHDEVICE_CACHE_DIR to build elsewhere."
            ) from error
    return lock


def _say(line: str) -> None:
    print(f"torchdevice_cuda: {line}", file=sys.stderr, flush=True)


def library(kind: str, *, build: bool = True, force: bool = False, say: Callable[[str], None] | None = None) -> Path:
    """The compiled module for `kind` ("cuda" or "mps").

    With ``build=False`` nothing is compiled: BuildError says that it is not there. ``say`` gets progress lines
    (standard error by default).
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    torch = toolchain.installed_torch()
    home = cache_dir()
    stem = f"{kind}-{_key(kind, torch)}"
    if not build or not has_compiler():
        # An image may have been built where there was a compiler, and run where there is none: any compiler's will do.
        there = {path: flaw(path) for path in sorted(home.glob(f"{stem}-*/{_filename(kind)}"))}
        usable = [path for path, why in there.items() if not why]
        if usable and not force:
            return usable[0]
        if not build:
            why = next(iter(there.values()), "missing")
            raise BuildError(f"the native device is not built ({why}); python -m torchdevice_cuda --build builds it")
    cxx = compiler()
    made_by = hashlib.sha256(toolchain.compiler_identity(cxx).encode()).hexdigest()[:8]
    target = home / f"{stem}-{made_by}" / _filename(kind)
    if flaw(target) or force:
        _build(kind, torch, cxx, target, force, say or _say)
    return target


def _build(kind: str, torch: Torch, cxx: str, target: Path, force: bool, say: Callable[[str], None]) -> None:
    """Makes `target`, or waits for the process that is making it. The lock is its own: others are built meanwhile."""
    directory = target.parent
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid") and directory.stat().st_uid == os.getuid():
            directory.chmod(0o700)
        lock = _acquire(directory / "lock", say)
    except OSError as error:
        raise BuildError(
            f"cannot write to the cache {directory.parent}: {error}. Set TORCHDEVICE_CACHE_DIR."
        ) from error
    try:
        why = flaw(target)
        if not why and not force:
            return
        if why not in ("", "missing"):
            say(f"not using {target}: {why}; building it again")
        compilation.compile_library(kind, torch, cxx, target, say)
        why = flaw(target)
        if why:
            raise BuildError(f"the library just built cannot be used: {why}")
    finally:
        lock.release()


def load(kind: str, *, build: bool = True) -> ModuleType:
    """Imports the compiled module (after torch, whose libraries it needs). Does not install the device."""
    name = f"_hostdevice_{kind}"
    if name in sys.modules:
        return sys.modules[name]
    path = library(kind, build=build)
    import torch  # noqa: F401  (its shared libraries must be loaded first)

    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BuildError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torchdevice_cuda.native.build", description=__doc__)
    parser.add_argument("--as", dest="kind", choices=KINDS, default="cuda", help="the device type (default: cuda)")
    parser.add_argument("--force", action="store_true", help="build even if it is there")
    options = parser.parse_args(arguments)
    try:
        print(library(options.kind, force=options.force))
    except BuildError as error:
        print(f"torchdevice_cuda: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
