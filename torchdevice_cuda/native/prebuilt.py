"""Precompiled libraries of the distribution ``torchdevice-cuda-native``, which are preferred to compiling.

Its wheels contain a package of that name: a manifest, and libraries that ``wheel`` put there. A library is used if its
key (sources, torch, flags, Python) is that of a library compiled here, and if the file has the manifest's digest. A
user who can write it can also write the Python files beside it: it is trusted as those are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import stat
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from . import compilation, parts, toolchain

DISTRIBUTION = "torchdevice-cuda-native"
PACKAGE = "torchdevice_cuda_native"
MANIFEST = "manifest.json"


class Shipped(NamedTuple):
    """A library of the distribution, open and checked, and the distribution's name for messages."""

    path: Path
    opened: int
    name: str


class NotShipped(Exception):
    """The reason why the distribution has no library; empty if it is not installed."""


def sources_digest() -> str:
    """Return the digest of all sources."""
    digest = hashlib.sha256()
    for name, path in compilation.sources():
        with open(path, "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()


def python_abi() -> str:
    """Return the Python ABI of a library: it is linked with that Python's interface, which differs by minor version."""
    return str(sysconfig.get_config_var("SOABI") or "")


def name_entry(kind: str, part: str) -> str:
    """Return the manifest's name of a part's library."""
    return kind if part == parts.CORE else f"{kind}/{part}"


def find(entry: str, key: str, torch: toolchain.Torch) -> Shipped:
    """Return the library of a manifest entry, if it is what would be compiled here; else raise NotShipped."""
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise NotShipped("")
    folder = Path(next(iter(spec.submodule_search_locations)))
    manifest = _manifest(folder)
    name = f"{DISTRIBUTION} {manifest['version']}"
    library = manifest["libraries"].get(entry)
    if library is None:
        raise NotShipped(f"{name} has no library {entry}, only {', '.join(sorted(manifest['libraries']))}")
    if library["key"] != key:
        raise NotShipped(f"{name} {_difference(manifest, torch)}")
    path = folder / library["file"]
    return Shipped(path, _open(path, library["sha256"], name), name)


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name in ("version", "torch", "python", "sources"):
            if not isinstance(found[name], str):
                raise ValueError(f"{name} is no text")
        for library in found["libraries"].values():
            if not all(isinstance(library[name], str) for name in ("key", "file", "sha256")):
                raise ValueError("a library is not described in texts")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise NotShipped(f"{folder / MANIFEST}, of {DISTRIBUTION}, cannot be read: {said}") from error


def _difference(manifest: dict[str, Any], torch: toolchain.Torch) -> str:
    """Describe the target of a library with another key."""
    if manifest["torch"] != torch.version:
        return f"is for torch {manifest['torch']}, and {torch.version} is installed"
    if manifest["python"] != python_abi():
        return f"is for the Python {manifest['python']}, and this is {python_abi()}"
    if manifest["sources"] != sources_digest():
        return "is made from other sources than these"
    return "was compiled with other flags than would be given here"


def _open(path: Path, wanted: str, name: str) -> int:
    """Return a descriptor of the file, if it is the one in the manifest. Installers may make it a link."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotShipped(f"{path}, of {name}, cannot be opened: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise NotShipped(f"{path}, of {name}, is not a plain file")
        with open(opened, "rb", closefd=False) as file:
            if hashlib.sha256(file.read()).hexdigest() != wanted:
                raise NotShipped(f"{path}, of {name}, is damaged: its digest is not the manifest's")
    except BaseException:
        os.close(opened)
        raise
    return opened
