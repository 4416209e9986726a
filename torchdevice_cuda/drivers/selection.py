"""Select the driver of a process, with the reason."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ..settings import DRIVERS, describe_unsupported
from ..settings.setting_support import Ignored, Refused
from .base import Offer
from .unavailable import DevicesAlreadyInstalled, DriverUnavailable

if TYPE_CHECKING:
    from ..settings import Settings
    from .base import Driver


_SAID = "_TORCHDEVICE_HINTED"
_log = logging.getLogger("torchdevice_cuda")


def _say(driver: str, faults: list[str]) -> None:
    """Report, once for a process and its children, why ``auto`` did not choose a driver that it prefers."""
    if os.environ.setdefault(_SAID, str(os.getpid())) == str(os.getpid()) and sys.stderr is not None:
        print(f"torchdevice_cuda: using the {driver} driver, {'; '.join(faults)}", file=sys.stderr)


def _line(error: Exception) -> str:
    """Return an error in one line, with its type if the message alone is unclear."""
    words = " ".join(str(error).split())
    return words if isinstance(error, RuntimeError) and words else f"{type(error).__name__}: {words}"


def offer(name: str, settings: Settings, torch_c: ModuleType) -> Offer:
    """Return a driver's offer on this machine; ``torch_c`` exists before torch.cuda does."""
    made: Offer = importlib.import_module(DRIVERS[name]).offer(settings, torch_c)
    return made


def _unavailable(name: str, why: str) -> DriverUnavailable:
    return DriverUnavailable(f"driver {name!r} was asked for, but {why}")


def select(settings: Settings, torch_c: ModuleType) -> Driver:
    """Return the driver for these settings on this machine, or raise :class:`DriverUnavailable` for the named one.

    Settings without effect on it are logged; a setting that would mislead is an error.
    """
    if settings.driver == "auto":
        return _checked(_first(list(DRIVERS), settings, torch_c, [], []), settings)
    if settings.driver not in DRIVERS:
        raise DriverUnavailable(
            f"driver {settings.driver!r} is not part of this version; allowed: {', '.join(DRIVERS)}"
        )
    made, why = _made(settings.driver, settings, torch_c)
    if made is None:
        raise _unavailable(settings.driver, why.reason)
    made.reason = f"asked for ({made.reason})"
    return _checked(made, settings)


def _checked(driver: Driver, settings: Settings) -> Driver:
    for line in describe_unsupported(settings, driver.name, Refused):
        raise DriverUnavailable(line)
    for line in describe_unsupported(settings, driver.name, Ignored):
        _log.info("%s", line)
    return driver


def select_after(driver: Driver, error: Exception, settings: Settings, torch_c: ModuleType) -> Driver:
    """Return the driver to use if the chosen one failed: the next one of ``auto``, if ``auto`` chose."""
    if isinstance(error, DevicesAlreadyInstalled):
        raise error
    if settings.driver != "auto":
        raise _unavailable(driver.name, _line(error)) from error
    fault = f"not {driver.name}: {_line(error)}"
    names = list(DRIVERS)
    later = names[names.index(driver.name) + 1 :]
    return _checked(_first(later, settings, torch_c, [*driver.passed_over, fault], [fault]), settings)


def _first(
    names: list[str], settings: Settings, torch_c: ModuleType, passed_over: list[str], faults: list[str]
) -> Driver:
    """Return the first driver that can be created, with the reasons against those before it."""
    for name in names:
        driver, offered = _made(name, settings, torch_c)
        if driver is not None:
            driver.passed_over = tuple(passed_over)
            if faults:
                _say(name, faults)
            return driver
        passed_over.append(f"not {name}: {offered.reason}")
        if offered.is_fault:
            faults.append(passed_over[-1])
    raise DriverUnavailable(f"no driver works here; {'; '.join(passed_over)}; run python -m torchdevice_cuda --doctor")


def _made(name: str, settings: Settings, torch_c: ModuleType) -> tuple[Driver | None, Offer]:
    """Return a driver, or none and the reason."""
    try:
        offered = offer(name, settings, torch_c)
        if offered.make is None:
            return None, offered
        return offered.make(settings, offered.reason), offered
    except Exception as error:
        return None, Offer(None, _line(error), is_fault=True)
