"""Measurements of this machine, stored for later processes: small JSON files in the cache, one entry per machine.

A file contains ``{key: value}``. The key names everything that the value depends on; entries under other keys belong to
other machines and are never read. A cache that cannot be read or written counts as empty.
"""

from __future__ import annotations

import json
import logging
import platform
from typing import Any

import torch

from .. import trust
from ..drivers.host.facts import processor_name
from ..settings import cache_dir

_log = logging.getLogger("torchdevice_cuda")


def host() -> str:
    """Return the versions that all figures of this machine depend on: torch, the system and the chip."""
    system = f"macOS {platform.mac_ver()[0]}" if platform.mac_ver()[0] else f"{platform.system()} {platform.release()}"
    return f"torch {torch.__version__}, {system}, {processor_name()}"


def _all(name: str) -> dict[str, Any]:
    try:
        found = json.loads(trust.read(cache_dir() / name, cache_dir()))
        if not isinstance(found, dict):
            raise ValueError(f"an object was expected, not {type(found).__name__}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read and is ignored: %s", name, error)
        return {}
    return found


def load(name: str, key: str) -> Any:
    """Return a file's value for a key; ``None`` if there is none."""
    return _all(name).get(key)


def save(name: str, key: str, value: Any) -> None:
    """Store a value in a file for a key, beside those of other keys; the file is replaced whole or not at all."""
    try:
        entries = json.dumps(_all(name) | {key: value}, indent=1, sort_keys=True)
        trust.write(cache_dir() / name, entries.encode(), cache_dir(), 0o600)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be kept: %s", name, error)
