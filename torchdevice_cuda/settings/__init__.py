"""Every setting of torchdevice_cuda: one frozen dataclass, read once from the command line and the environment.

A value that cannot be read is an error that names the variable (or the option), the value and what is allowed; nothing
is guessed. So is a variable that is called like ours and is none: :mod:`.variables` has those that are
read elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from . import gpus, hidden, variables
from .folders import SettingsError as SettingsError
from .folders import cache_dir as cache_dir
from .setting_support import Meaning, Refused, meaning
from .variables import SWITCH_VALUES, read_switch, write_switch

DEFAULT_CAPABILITY = (7, 0)
#: Every driver, in the order in which ``auto`` tries them, with the module that makes it. A new driver is a folder, and
#: its line here.
DRIVERS = {
    "cuda": "torchdevice_cuda.drivers.cuda.driver",
    "mps": "torchdevice_cuda.drivers.mps.driver",
    "virtual": "torchdevice_cuda.drivers.virtual.driver",
    "cpu": "torchdevice_cuda.drivers.cpu.driver",
}

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}ib"] = 1024**_power
    _UNITS[f"{_letter}b"] = 1000**_power


#: What torch's C++ can count, less what rounding up takes.
_MOST_BYTES = 8191 * 1024**5


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the user asked for. Fields that are ``None`` leave the choice to the driver."""

    driver: str = "auto"
    policy: str | None = None
    allow_redirects: bool = False
    identity: str = "cuda"
    float64: str = "downcast"
    devices: int = 1
    memory: int | None = None
    gpu: str | None = None
    capability: tuple[int, int] | None = None
    name: str | None = None
    log_level: str = "WARNING"
    report: str | None = None
    fallback: str = "allow"
    mlx: str = "auto"
    refusals: str = "memory"
    visible_devices: str | None = None
    build: bool = True
    emulate_mps: bool = False
    nvidia_smi: bool = False
    hide_from: tuple[str, ...] = hidden.DEFAULT

    @property
    def profile(self) -> gpus.Gpu | None:
        """The GPU that the device is to be taken for."""
        return None if self.gpu is None else gpus.GPUS[self.gpu]

    @property
    def claimed_capability(self) -> tuple[int, int]:
        """The compute capability that was chosen, else the profile's, else one for which programs choose portably."""
        of_profile = DEFAULT_CAPABILITY if self.profile is None else self.profile.capability
        return of_profile if self.capability is None else self.capability


@dataclasses.dataclass(frozen=True)
class Option:
    """How one field of :class:`Settings` is spelled outside: its variable, its flag, its reader and its words."""

    field: str
    variable: str
    flag: str | None
    allowed: str
    read: Callable[[str], Any]
    help: str
    write: Callable[[Any], str] = str


def _one_of(*choices: str, fold: Callable[[str], str] = str.lower) -> Callable[[str], str]:
    def read(text: str) -> str:
        value = fold(text.strip())
        if value not in choices:
            raise ValueError(text)
        return value

    return read


def _count(text: str) -> int:
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", text) is None or not 1 <= int(text) <= 64:
        raise ValueError(text)
    return int(text)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"\s*(\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,2})?)\s*([a-z]*)\s*", text.lower(), re.ASCII)
    if match is None or match[2] not in _UNITS:
        raise ValueError(text)
    import fractions  # with decimal behind it: not for every start

    value = int(fractions.Fraction(match[1]) * _UNITS[match[2]])
    if not 1 <= value <= _MOST_BYTES:
        raise ValueError(text)
    return value


def _capability(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([0-9]{1,2})\.([0-9])\s*", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2])


def _profile(text: str) -> str:
    key = gpus.spelled(text)
    if key not in gpus.GPUS:
        raise variables.ValueHint(f"the nearest are {', '.join(near)}" if (near := gpus.nearest(text)) else "")
    return key


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text


def _name(text: str) -> str:
    _text(text).encode()  # programs print it, and the environment may hold bytes that are no text
    return text


def _destination(text: str) -> str:
    """Seen from here: the program may go to another folder, and so may its children."""
    return text if _text(text) == "-" else os.path.abspath(text)


OPTIONS: tuple[Option, ...] = (
    Option(
        "driver",
        "TORCHDEVICE_DRIVER",
        "--driver",
        ", ".join(("auto", *DRIVERS)),
        lambda text: _one_of("auto", *DRIVERS)(text),
        "what stands in for the GPU",
    ),
    Option(
        "policy",
        "TORCHDEVICE_POLICY",
        "--policy",
        "accelerate, faithful",
        _one_of("accelerate", "faithful"),
        "where requests that do not name CUDA go",
    ),
    Option(
        "allow_redirects",
        "TORCH_ALLOW_REDIRECTS",
        None,
        SWITCH_VALUES,
        read_switch,
        "always redirect per the policy table, on every platform, whatever the driver's default",
        lambda value: str(value).lower(),
    ),
    Option(
        "identity",
        "TORCHDEVICE_IDENTITY",
        "--identity",
        "cuda, native",
        _one_of("cuda", "native"),
        "what an accelerator tensor says it is",
    ),
    Option(
        "float64",
        "TORCHDEVICE_FLOAT64",
        "--float64",
        "downcast, cpu, raise",
        _one_of("downcast", "cpu", "raise"),
        "what a float64 tensor on MPS becomes",
    ),
    Option(
        "devices",
        "TORCHDEVICE_DEVICES",
        "--devices",
        "a whole number from 1 to 64",
        _count,
        "how many virtual GPUs there are",
    ),
    Option(
        "memory",
        "TORCHDEVICE_MEMORY",
        "--memory",
        "a size of 1 byte to 8191 PiB such as 512MiB, 16GiB or 8e9",
        _bytes,
        "memory of each GPU",
    ),
    Option(
        "gpu",
        "TORCHDEVICE_GPU",
        "--gpu",
        "a profile such as h200 (--gpu list)",
        _profile,
        "the GPU that the device claims to be",
    ),
    Option(
        "capability",
        "TORCHDEVICE_CAPABILITY",
        "--capability",
        "a compute capability such as 7.0 or 9.0",
        _capability,
        "the compute capability the device claims",
        lambda value: ".".join(map(str, value)),
    ),
    Option("name", "TORCHDEVICE_NAME", "--name", "any text", _name, "the name the device claims"),
    Option(
        "log_level",
        "TORCHDEVICE_LOG_LEVEL",
        "--log-level",
        "DEBUG, INFO, WARNING, ERROR",
        _one_of("DEBUG", "INFO", "WARNING", "ERROR", fold=str.upper),
        "level of the logger torchdevice_cuda",
    ),
    Option(
        "report",
        "TORCHDEVICE_REPORT",
        "--report",
        "a path that can be written, or - for standard error",
        _destination,
        "write what went where at exit",
    ),
    Option(
        "fallback",
        "TORCHDEVICE_FALLBACK",
        "--fallback",
        "allow, warn, error",
        _one_of("allow", "warn", "error"),
        "what an op that leaves the accelerator does",
    ),
    Option(
        "mlx",
        "TORCHDEVICE_MLX",
        "--mlx",
        "auto, off, always",
        _one_of("auto", "off", "always"),
        "whether MLX computes what MPS lacks",
    ),
    Option(
        "refusals",
        "TORCHDEVICE_REFUSALS",
        "--refusals",
        "memory, disk",
        _one_of("memory", "disk"),
        "where it is remembered what MPS refused",
    ),
    Option(
        "visible_devices",
        "CUDA_VISIBLE_DEVICES",
        None,
        "as CUDA reads it",
        str,
        "which of the GPUs the program may see",
    ),
    Option(
        "build",
        "TORCHDEVICE_BUILD",
        None,
        SWITCH_VALUES,
        read_switch,
        "whether the native part of the virtual GPU may be built where it is missing",
        write_switch,
    ),
    Option(
        "emulate_mps",
        "TORCHDEVICE_EMULATE_MPS",
        None,
        SWITCH_VALUES,
        read_switch,
        "whether a device in host memory answers as the Apple GPU, to try the mps driver elsewhere",
        write_switch,
    ),
    Option(
        "nvidia_smi",
        "TORCHDEVICE_WITH_NVIDIA_SMI",
        None,
        SWITCH_VALUES,
        read_switch,
        "whether programs find an nvidia-smi that shows these GPUs",
        write_switch,
    ),
    Option(
        "hide_from",
        "TORCHDEVICE_HIDE_FROM",
        "--hide-from",
        "names, default, none",
        hidden.read,
        "libraries that are told there is no CUDA",
        hidden.write,
    ),
)

BY_FIELD: dict[str, Option] = {option.field: option for option in OPTIONS}


def known_variables() -> list[str]:
    """Return the name of every environment variable of ours."""
    return [*(option.variable for option in OPTIONS), *(variable.name for variable in variables.VARIABLES)]


def _read(option: Option, spelled: str, text: str) -> Any:
    return variables.read_value(option.read, option.allowed, spelled, text)


def _write(option: Option, value: Any) -> str:
    """Write a value of activate() as text; the reader rejects what is of another type."""
    try:
        return value if isinstance(value, str) else option.write(value)
    except TypeError:
        return repr(value)


def load(overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings: ``overrides`` (command line or ``activate()`` arguments) win over the environment.

    Override values may be text, as the command line gives it, or already of the field's type.
    """
    environ = os.environ if environ is None else environ
    variables.check(environ, known_variables())
    values: dict[str, Any] = {}
    for option in OPTIONS:
        text = environ.get(option.variable)
        if text is not None and (text or option.field == "visible_devices"):
            values[option.field] = _read(option, option.variable, text)
    for field, value in (overrides or {}).items():
        if field not in BY_FIELD:
            hint = variables.suggest(field, BY_FIELD)
            raise SettingsError(f"there is no setting {field!r}{hint}; known: {', '.join(sorted(BY_FIELD))}")
        if value is None:
            continue
        option = BY_FIELD[field]
        # Whatever type the caller used, the same reader checks it: activate(devices=0) must fail as --devices 0 does.
        values[field] = _read(option, option.flag or field, _write(option, value))
    chosen = Settings(**values)
    for line in describe_unsupported(chosen, chosen.driver, Refused):
        raise SettingsError(line)
    return chosen


def describe_unsupported(chosen: Settings, driver: str, kind: type[Meaning]) -> list[str]:
    """A line for each setting, other than its default, that does not act on a driver, in this way."""
    default = Settings()
    lines = []
    for option in OPTIONS:
        value, found = getattr(chosen, option.field), meaning(option.field, driver)
        if isinstance(found, kind) and value != getattr(default, option.field):
            spelled = f"{option.flag or option.variable}={option.write(value)}"
            lines.append(f"{spelled} means nothing on the {driver} driver: {found.why}")
    return lines


def visible_devices_now() -> str | None:
    """What ``CUDA_VISIBLE_DEVICES`` says now: CUDA reads it at its first use, and a program may set it until then."""
    return os.environ.get(BY_FIELD["visible_devices"].variable)


def as_environment(settings: Settings) -> dict[str, str]:
    """The environment in which a child process reads these same settings."""
    default = Settings()
    return {
        option.variable: option.write(getattr(settings, option.field))
        for option in OPTIONS
        if getattr(settings, option.field) != getattr(default, option.field)
    }
