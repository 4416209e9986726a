"""Programs on the mps driver, over a device in host memory that answers as the Apple GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="session")
def emulated() -> dict[str, str]:
    """The environment in which the Apple GPU is emulated; skips where the device cannot be built."""
    from torchdevice_cuda.native import build

    try:
        build.library("mps")
    except build.BuildError as error:
        pytest.skip(str(error))
    kept = {key: os.environ[key] for key in ("TORCHDEVICE_CACHE_DIR",) if key in os.environ}
    return {"TORCHDEVICE_EMULATE_MPS": "1", "OMP_NUM_THREADS": "1", **kept}


@pytest.fixture
def on_mps(answer: Callable[..., Any], emulated: dict[str, str]) -> Callable[..., Any]:
    """Run code on the mps driver that sets ``result``, and return it."""

    def ask(body: str, *, env: dict[str, str] | None = None, **options: Any) -> Any:
        options.setdefault("policy", "faithful")
        return answer(body, driver="mps", env={**emulated, **(env or {})}, **options)

    return ask


@pytest.fixture
def own_cache(emulated: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of programs with a cache of their own, which holds nothing but the device that has been built."""
    from torchdevice_cuda.native import build

    for entry in build.cache_dir().glob("mps-*"):
        (tmp_path / entry.name).symlink_to(entry)
    return {"TORCHDEVICE_CACHE_DIR": str(tmp_path)}
