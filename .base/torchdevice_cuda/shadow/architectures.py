"""The CUDA architectures that the device claims to run code of."""

from __future__ import annotations

from ..drivers import Driver


def architectures(driver: Driver) -> list[str]:
    """``["sm_70"]`` for a device of capability 7.0: programs choose kernels from this list and the capability."""
    found = {(driver.facts(index).major, driver.facts(index).minor) for index in range(driver.device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(found)]
