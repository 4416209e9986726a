"""Which driver a process gets, and why."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ..meanings import Nothing, Refused
from ..settings import DRIVERS, unmet

if TYPE_CHECKING:
    from ..settings import Settings
    from .base import Driver, Offer


_log = logging.getLogger("torchdevice_cuda")


class DriverUnavailable(RuntimeError):
    """The driver that was asked for cannot work on this machine."""


#: The driver that always works: where it is all there is, a hint tells how to get more.
_LAST = "cpu"
_HINTED = "_TORCHDEVICE_HINTED"


def _hint() -> None:
    """Tell, once for a process and its children, how to get more than the CPU."""
    if os.environ.setdefault(_HINTED, str(os.getpid())) == str(os.getpid()):
        print(
            "torchdevice_cuda: using the cpu driver; python -m torchdevice_cuda --build, once, gives a virtual GPU",
            file=sys.stderr,
        )


def offer(name: str, settings: Settings, torch_c: ModuleType) -> Offer:
    """What a driver says about itself on this machine; ``torch_c`` exists before torch.cuda does."""
    made: Offer = importlib.import_module(DRIVERS[name]).offer(settings, torch_c)
    return made


def select(settings: Settings, torch_c: ModuleType) -> Driver:
    """The driver for these settings on this machine; :class:`DriverUnavailable` where the one asked for cannot work.

    Settings that mean nothing on it are named in the log; one that would mislead is an error.
    """
    driver = _chosen(settings, torch_c)
    for line in unmet(settings, driver.name, Refused):
        raise DriverUnavailable(line)
    for line in unmet(settings, driver.name, Nothing):
        _log.info("%s", line)
    return driver


def _chosen(settings: Settings, torch_c: ModuleType) -> Driver:
    if settings.driver != "auto":
        if settings.driver not in DRIVERS:
            raise DriverUnavailable(
                f"driver {settings.driver!r} is not part of this version; there are: {', '.join(DRIVERS)}"
            )
        offered = offer(settings.driver, settings, torch_c)
        if offered.make is None:
            raise DriverUnavailable(f"driver {settings.driver!r} was asked for, but {offered.reason}")
        return offered.make(settings, f"asked for ({offered.reason})")
    passed_over: list[str] = []
    for name in DRIVERS:
        offered = offer(name, settings, torch_c)
        if offered.make is not None:
            if name == _LAST and not settings.build:
                _hint()
            driver = offered.make(settings, offered.reason)
            driver.passed_over = tuple(passed_over)
            return driver
        passed_over.append(f"not {name}: {offered.reason}")
    raise AssertionError(f"the {_LAST} driver is always available")
