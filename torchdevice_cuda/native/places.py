"""Paths of libraries, by the inputs of their build."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..settings import cache_dir
from . import compilation, parts, toolchain
from .parts import CALLS, CORE
from .toolchain import BuildError, Torch

#: The device as CUDA's and as Apple's, and the functions that the driver of a real Apple GPU uses.
KINDS = ("cuda", "mps", CALLS)


class Place(NamedTuple):
    """The installed torch, and the path of its library, which may not exist yet."""

    torch: Torch
    key: str
    path: Path

    def of_part(self, kind: str, part: str) -> Path:
        """Return the path of a part's library, which may not exist yet: beside its core."""
        return self.path if part == CORE else self.path.with_name(_name_file(f"{part}-{self.key_of(kind, part)}"))

    def key_of(self, kind: str, part: str) -> str:
        """Return the key of a part's library."""
        return self.key if part == CORE else find_part_key(kind, part, self.key)


def find_key(kind: str, torch: Torch) -> str:
    """Return a digest of everything that the core's library depends on, except for the compiler."""
    others = tuple(f"native/csrc/{part}/" for part in parts.parts_of("cuda") if part != CORE)
    facts = [torch.version, str(torch.cxx11_abi), repr(parts.parts_of(kind)[CORE].units)]
    facts += toolchain.compile_flags(kind, torch)
    facts += toolchain.link_flags(parts.name_library(kind, CORE), with_torch=kind != CALLS)
    facts += [sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag or "", platform.machine()]
    return _digest(facts, [(name, path) for name, path in compilation.sources() if not name.startswith(others)])


def find_part_key(kind: str, part: str, core: str) -> str:
    """Return a digest of everything that another part depends on, for a core with this key."""
    units = parts.parts_of(kind)[part].units
    # A file of another part is used with its header.
    roots = {f"native/csrc/{folder.removesuffix('.cpp')}" for unit in units.values() for folder in unit.folders}
    own = [(name, path) for name, path in compilation.sources() if name.startswith(tuple(roots))]
    return _digest([core, repr(units)], own)


def find_cache_key(kind: str) -> str:
    """Return a name for all parts of a device together: it changes if any of their dependencies does."""
    place = whereabouts(kind)
    return f"{kind}-{_digest((place.key_of(kind, part) for part in parts.parts_of(kind)), ())}"


def _digest(facts: Iterable[str], sources: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(os.fsencode(fact) + b"\0")
    for name, path in sources:
        with open(path, "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:20]


def _name_file(stem: str) -> str:
    return stem + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def torch_version() -> str:
    """Return the version of the torch that libraries are built for."""
    return toolchain.installed_torch().version


def whereabouts(kind: str) -> Place:
    """Return the path of the library for the installed torch."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if os.name != "posix":
        raise BuildError(f"the native device is not made for {platform.system()}; use --driver cpu")
    torch = toolchain.installed_torch()
    key = find_key(kind, torch)
    return Place(torch, key, cache_dir() / f"{kind}-{key}" / _name_file(parts.name_library(kind, CORE)))
