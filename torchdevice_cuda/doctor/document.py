"""The file to attach to an issue: all findings, without personal data."""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import json
import math
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import settings
from .._version import __version__
from ..drivers.host import facts
from .results import Result

#: Packages that results may depend on.
_PACKAGES = (
    "torch torchvision triton mlx mlx-metal mlx-cpu numpy psutil pyobjc-core pyobjc-framework-Metal "
    "pyobjc-framework-Cocoa torchdevice-cuda torchdevice-cuda-shim"
).split()
_HOMES = re.compile(r"(?<![\w.-])/(?:Users|home)/(?!Shared\b)[^/\s\"':]+")


def versions() -> dict[str, str]:
    """Return all versions, without importing the packages: the checks do that."""
    found = {"torchdevice_cuda": __version__, "Python": sys.version}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Return the system and the chip."""
    try:
        import psutil
    except ImportError:  # the first check reports it
        memory = None
    else:
        memory = psutil.virtual_memory().total
    return {
        "platform": platform.platform(),
        "macOS": platform.mac_ver()[0],
        "architecture": platform.machine(),
        "processor": facts.processor_name(),
        "cores": facts.cores(),
        "memory": memory,
    }


def content(results: Sequence[Result], chosen: settings.Settings, overrides: Mapping[str, str], verdict: str) -> Any:
    """Return the whole document, anonymized."""
    values = ((option, getattr(chosen, option.field)) for option in settings.OPTIONS)
    written = {option.field: None if value is None else option.write(value) for option, value in values}
    names = ((option.field, name) for option in settings.OPTIONS for name in reversed(option.variables))
    origins = {field: name for field, name in names if name in os.environ}
    return anonymous(
        {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "verdict": verdict,
            "versions": versions(),
            "machine": machine(),
            "settings": written,
            "set by": {**origins, **dict.fromkeys(overrides, "the command line")},
            "checks": [dataclasses.asdict(result) for result in results],
        }
    )


# ------------------------------------------------------------------------------ no names
def _personal() -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield texts that identify a person or a machine, with replacements; longer ones, which contain others, first."""
    home = os.path.expanduser("~")
    for path in dict.fromkeys((os.path.realpath(home), home)):
        if len(path) > 1 and os.path.isabs(path):
            yield re.compile(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])"), "~"
    yield _HOMES, "~"
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name in the system
        user = ""
    node = platform.node()
    for name, shown in ((node, "<host>"), (node.partition(".")[0], "<host>"), (user, "<user>")):
        if name and name not in ("root", "localhost"):
            yield re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"), shown


def anonymous(value: Any) -> Any:
    """Return a copy without home folders, user names and the machine's name."""
    replaced = list(_personal())

    def clean(part: Any) -> Any:
        if isinstance(part, str):
            for pattern, shown in replaced:
                part = pattern.sub(shown, part)
            return part
        if isinstance(part, float) and not math.isfinite(part):
            return str(part)  # JSON has no such numbers
        if isinstance(part, dict):
            return {clean(key): clean(item) for key, item in part.items()}
        return [clean(item) for item in part] if isinstance(part, (list, tuple)) else part

    return clean(value)


# ------------------------------------------------------------------------------- the file
def write(value: Any, path: str) -> Path:
    """Write it; never overwrite a file."""
    with open(path, "x", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    return Path(path)
