"""The texts of ``--info`` (choices and reasons) and of ``--patches`` (changes of torch)."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .. import activation, settings
from .._version import __version__

if TYPE_CHECKING:
    from ..drivers import Driver

Row = tuple[str, str]


def _activated(overrides: Mapping[str, str]) -> Driver:
    """Activate and import torch; return the driver."""
    try:
        activation.activate(**overrides)
        return activation.driver()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise activation.ActivationError("torch is not installed in this python: pip install torch") from None
    except RuntimeError as error:
        raise activation.ActivationError(str(error)) from error


def patches(overrides: Mapping[str, str]) -> str:
    """List the changes of torch for the chosen driver in columns: target, file, reason."""
    driver = _activated(overrides)
    head = ("target", "file", "why")
    rows = [head, *activation.changes()]
    if len(rows) == 1:
        return f"nothing is changed in torch for the {driver.name} driver"
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{target:<{widths[0]}}  {file:<{widths[1]}}  {why}" for target, file, why in rows)


def text(overrides: Mapping[str, str]) -> str:
    """Activate and describe the result: the driver and the reason, versions, settings, devices."""
    driver = _activated(overrides)
    sections = [
        ("driver", [("name", driver.name), *_reasons(driver), *driver.describe()]),
        ("versions", _versions()),
        ("settings", list(_changed(activation.current_settings(), overrides)) or [("all", "default")]),
        *((f"device {index}", _device(driver, index)) for index in range(driver.device_count())),
    ]
    width = max(len(label) for _, rows in sections for label, _ in rows)
    lines: list[str] = []
    for title, rows in sections:
        lines.append(title)
        lines += [f"  {label:<{width}}  {value}" for label, value in rows]
    if not driver.device_count():
        lines.append("no device is visible to the program")
    return "\n".join(lines)


def _reasons(driver: Driver) -> list[Row]:
    """Return the reason for this driver, with one row for each that was passed over."""
    return [("because", driver.reason), *(("", reason) for reason in driver.passed_over)]


def _versions() -> list[Row]:
    import torch

    return [
        ("torchdevice-cuda", __version__),
        ("torch", f"{torch.__version__} ({os.path.dirname(torch.__file__)})"),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
    ]


def _changed(chosen: settings.Settings, overrides: Mapping[str, str]) -> Iterable[Row]:
    """Return the settings that are not at their default, and where each was set."""
    default = settings.Settings()
    for option in settings.OPTIONS:
        value = getattr(chosen, option.field)
        if value != getattr(default, option.field):
            origin = option.flag if option.field in overrides else option.variable
            yield option.field, f"{option.write(value)}  (from {origin})"


def _device(driver: Driver, index: int) -> list[Row]:
    facts = driver.facts(index)
    return [
        ("name", facts.name),
        ("compute capability", f"{facts.major}.{facts.minor}"),
        ("memory", f"{facts.total_memory / 2**30:.2f} GiB"),
        ("multiprocessors", str(facts.multi_processor_count)),
        ("uuid", f"GPU-{facts.uuid}"),
    ]
