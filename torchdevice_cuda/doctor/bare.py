"""The Apple GPU without our patches: what it says there is what the patches have to deal with."""

from __future__ import annotations

import functools

from .. import settings

DEVICE = "mps"


@functools.cache
def bring_up() -> str:
    """Return the device as torch names it; an emulated one is put in its place first, where that is asked for."""
    chosen = settings.load()
    if chosen.emulate_mps:
        from ..drivers.mps import driver

        driver.emulate(chosen.memory or 1 << 33, chosen.build)
    return DEVICE
