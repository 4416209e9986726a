"""Measurements of a machine are stored where possible, and nothing fails where it is not."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from harness import STOCK, child

from torchdevice_cuda.fallback import stored


@child(STOCK.when("after"), alone=True)
def test_there_is_nowhere_to_keep_it() -> None:
    for place in ("~no-such-user/cache", "/proc/nowhere"):
        os.environ["TORCHDEVICE_CACHE_DIR"] = place
        stored.save("learned.json", "key", 1)
        assert stored.load("learned.json", "key") is None


@child(STOCK.when("after"), alone=True)
def test_others_cannot_write_where_it_is_kept() -> None:
    """The native library is in the same folder, and would not be loaded from it."""
    os.umask(0o002)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHDEVICE_CACHE_DIR"] = f"{folder}/cache"
        stored.save("learned.json", "key", 1)
        assert stored.load("learned.json", "key") == 1
        assert stat.S_IMODE(Path(folder, "cache").stat().st_mode) == 0o755
