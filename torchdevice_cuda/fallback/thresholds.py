"""From how many elements on MLX is faster than the CPU, copies included: as measured, per operator.

``tools/bench/mlx.py`` measures and writes the figures for this machine into the cache; without figures MLX is not used.
"""

from __future__ import annotations

import functools
import json
import platform

import torch

from ..native.build import cache_dir
from .mlx_arrays import mlx


def machine() -> str:
    """What the figures depend on: MLX and its device, torch, the processor."""
    mx = mlx()
    version = getattr(mx, "__version__", "none") if mx is not None else "none"
    device = str(mx.default_device()) if mx is not None else "none"
    return f"mlx {version} on {device}, torch {torch.__version__}, {platform.machine()} {platform.release()}"


def path() -> str:
    """The file that holds this machine's figures."""
    return str(cache_dir() / "mlx-thresholds.json")


@functools.cache
def _measured() -> dict[str, int]:
    try:
        with open(path(), encoding="utf-8") as file:
            stored = json.load(file)
    except (OSError, ValueError):
        return {}
    return stored["least"] if stored.get("machine") == machine() else {}


def least(name: str) -> int | None:
    """From how many elements on MLX wins; ``None`` if it never did, or nobody has measured."""
    return _measured().get(name)


def store(figures: dict[str, int]) -> None:
    """Keep measured figures for later processes."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(path(), "w", encoding="utf-8") as file:
        json.dump({"machine": machine(), "least": figures}, file, indent=1, sort_keys=True)
    _measured.cache_clear()
