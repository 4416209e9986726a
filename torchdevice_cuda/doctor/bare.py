"""The Apple GPU without patches: the behavior that the patches have to handle."""

from __future__ import annotations

import functools

from .. import settings

DEVICE = "mps"


@functools.cache
def bring_up() -> str:
    """Return torch's name of the device, after installing an emulated one if requested."""
    chosen = settings.load()
    if chosen.emulate_mps:
        from ..drivers.mps import driver

        driver.emulate(chosen.memory or 1 << 33, chosen.build)
    return DEVICE
