"""The mps driver with a cache that holds nothing but what has been built."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness import MPS_FAITHFUL, ChildConfig
from harness.places import must_be_ready

from torchdevice_cuda import settings


def cached_in(folder: Path, place: ChildConfig = MPS_FAITHFUL) -> ChildConfig:
    """Return the place with its cache in an empty folder."""
    must_be_ready(place)
    for kind in ("mps", "calls"):
        for entry in settings.cache_dir().glob(f"{kind}-*"):
            shutil.copytree(entry, folder / entry.name)  # a link is not followed
    return place.within(TORCHDEVICE_CACHE_DIR=str(folder))
