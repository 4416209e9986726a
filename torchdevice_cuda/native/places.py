"""Where libraries are kept, by what they depend on."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

from ..settings import cache_dir
from . import compilation, parts, toolchain
from .parts import CALLS, CORE
from .toolchain import BuildError, Torch

#: The device as CUDA's and as Apple's, and what the driver of a real Apple GPU can use of it.
KINDS = ("cuda", "mps", CALLS)


class Place(NamedTuple):
    """The torch that is installed, and where the library for it is, or is to be."""

    torch: Torch
    key: str
    path: Path

    def of_part(self, kind: str, part: str) -> Path:
        """Where the library of a part is, or is to be."""
        return self.path.with_name(_filename(kind, part))


def find_key(kind: str, torch: Torch) -> str:
    """Return a digest of everything that libraries depend on but the compiler."""
    digest = hashlib.sha256()
    built = [repr((name, part.units)) for name, part in parts.parts_of(kind).items()]
    facts = [torch.version, str(torch.cxx11_abi), *built, *toolchain.compile_flags(kind, torch)]
    facts += toolchain.link_flags(parts.name_library(kind, CORE), with_torch=kind != CALLS)
    facts += [sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag or "", platform.machine()]
    for fact in facts:
        digest.update(os.fsencode(fact) + b"\0")
    for name, path in compilation.sources():
        with open(path, "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:20]


def _filename(kind: str, part: str) -> str:
    return parts.name_library(kind, part) + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


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
    key = find_key(kind, torch)
    return Place(torch, key, cache_dir() / f"{kind}-{key}" / _filename(kind, CORE))
