"""Build the native part that a driver needs: on request, or before a program that needs it starts."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import settings
from .._version import __version__
from ..drivers.host.facts import has_nvidia_driver


def choose_kind(chosen: settings.Settings) -> str:
    """Return the kind that the driver needs: the virtual GPU, an emulated Apple GPU, or functions for a real one."""
    if chosen.emulate_mps and chosen.driver in ("mps", "auto"):
        return "mps"
    return "calls" if chosen.driver == "mps" else "cuda"


def build_parts(chosen: settings.Settings, wheels: str, wanted: Sequence[str] = ()) -> str:
    """Build what the driver needs and return its paths; with a folder for `wheels`, the path of a wheel.

    All parts are built, or those that are `wanted`. A wheel contains every part of every device, unless a driver was
    named.
    """
    from ..native import build, prebuilt, wheel

    kind = choose_kind(chosen)
    if not wheels:
        return "\n".join(map(str, build.libraries(kind, wanted or None).values()))
    kinds = build.KINDS if chosen.driver == "auto" else (kind,)
    made = {prebuilt.name_entry(kind, part): path for kind in kinds for part, path in build.libraries(kind).items()}
    return str(wheel.write(Path(wheels), __version__, build.torch_version(), made))


def cache_key(chosen: settings.Settings) -> str:
    """Return a name for the cached part: it changes with everything that the part depends on. Nothing is built."""
    from ..native import places

    return places.find_cache_key(choose_kind(chosen))


def build_ahead(chosen: settings.Settings) -> None:
    """Build what the import of torch would build, as far as that is known without torch.

    A driver that was named fails with a BuildError. ``auto`` takes another driver instead, and reports why when torch
    is imported; if it may choose a real GPU, nothing is built.
    """
    from ..native import build

    is_known = chosen.emulate_mps or (sys.platform.startswith("linux") and not has_nvidia_driver())
    if not chosen.build or not (chosen.driver == "virtual" or (chosen.driver == "auto" and is_known)):
        return
    with contextlib.suppress(*[build.BuildError] if chosen.driver == "auto" else []):
        build.library(choose_kind(chosen))
