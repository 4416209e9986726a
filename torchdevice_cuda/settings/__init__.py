"""Every setting of torchdevice_cuda: one frozen dataclass, read once from the command line and the environment.

An invalid value is an error that names the variable (or the option), the value and the allowed values; nothing is
guessed. So is an unknown variable with a prefix of torchdevice_cuda: :mod:`.variables` has those that are read
elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from . import variables
from .folders import SettingsError as SettingsError
from .folders import cache_dir as cache_dir
from .options import BY_FIELD as BY_FIELD
from .options import DRIVERS as DRIVERS
from .options import OPTIONS as OPTIONS
from .options import Option as Option
from .options import Settings as Settings
from .options import find_exception as find_exception
from .setting_support import Ignored, Refused

#: GPUs of a process.
_MOST_DEVICES = 64


def known_variables() -> list[str]:
    """Return the name of every environment variable of torchdevice_cuda."""
    of_options = [name for option in OPTIONS for name in option.variables]
    return [*of_options, *(variable.name for variable in variables.VARIABLES)]


def _read(option: Option, spelled: str, text: str) -> Any:
    return variables.read_value(option.read, option.allowed, spelled, text)


def _write(option: Option, value: Any) -> str:
    """Write a value of activate() as text; the reader rejects values of other types."""
    try:
        return value if isinstance(value, str) else option.write(value)
    except TypeError:
        return repr(value)


def load(overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings: ``overrides`` (command line or ``activate()`` arguments) take precedence over the environment.

    Override values may be text, as on the command line, or already of the field's type.
    """
    environ = os.environ if environ is None else environ
    variables.check(environ, known_variables())
    values: dict[str, Any] = {}
    for option in OPTIONS:
        for variable in option.variables:
            text = environ.get(variable)
            if text is not None and (text or option.field == "visible_devices"):
                values[option.field] = _read(option, variable, text)
                break
    for field, value in (overrides or {}).items():
        if field not in BY_FIELD:
            hint = variables.suggest(field, BY_FIELD)
            raise SettingsError(
                f"there is no setting {field!r}{hint}; known: {', '.join(sorted(each.field for each in OPTIONS))}"
            )
        if value is None:
            continue
        option = BY_FIELD[field]
        # The same reader checks values of any type: activate(devices=0) must fail as --devices 0 does.
        values[option.field] = _read(option, option.flag or field, _write(option, value))
    chosen = Settings(**values)
    for line in describe_unsupported(chosen, chosen.driver, Refused):
        raise SettingsError(line)
    if chosen.world is not None and "devices" not in values:
        # The GPUs of a node, as the program sees them.
        chosen = dataclasses.replace(chosen, devices=min(chosen.world.node, chosen.world.size, _MOST_DEVICES))
    return chosen


def describe_unsupported(chosen: Settings, driver: str, kind: type[Ignored | Refused]) -> list[str]:
    """Return a line for each setting other than its default that a driver ignores, or refuses."""
    default = Settings()
    lines = []
    for option in OPTIONS:
        value, found = getattr(chosen, option.field), find_exception(option.field, driver)
        if isinstance(found, kind) and value != getattr(default, option.field):
            spelled = f"{option.flag or option.variable}={option.write(value)}"
            verb = "is refused" if kind is Refused else "has no effect"
            lines.append(f"{spelled} {verb} on the {driver} driver: {found.why}")
    return lines


def visible_devices_now() -> str | None:
    """Return the value of ``CUDA_VISIBLE_DEVICES``, which a program may set until the first use of CUDA."""
    return os.environ.get(BY_FIELD["visible_devices"].variable)


def as_environment(settings: Settings) -> dict[str, str]:
    """Return the variables from which a child process reads these settings."""
    default = Settings()
    return {
        option.variable: option.write(getattr(settings, option.field))
        for option in OPTIONS
        if getattr(settings, option.field) != getattr(default, option.field)
    }
