"""Programs on the mps driver, over a device in host memory that answers as the Apple GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import MPS_FAITHFUL, Place
from harness.places import skip_unless_ready

from torchdevice_cuda import settings


@pytest.fixture
def own_cache(tmp_path: Path) -> Place:
    """The mps driver with a cache of its own in ``tmp_path``, holding nothing but the device that has been built."""
    skip_unless_ready(MPS_FAITHFUL)
    for entry in settings.cache_dir().glob("mps-*"):
        (tmp_path / entry.name).symlink_to(entry)
    return MPS_FAITHFUL.within(TORCHDEVICE_CACHE_DIR=str(tmp_path))
