"""Environment variables that are not settings of a driver, and the check for unknown variables.

:data:`torchdevice_cuda.settings.OPTIONS` has the others. An unknown name with such a prefix is a misspelling, and a
program must not run as if nothing had been set.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping

from .folders import CACHE_DIR, RUNTIME_DIR, SettingsError, expand

#: The prefixes of these variables; the second is that of one variable, so that its misspellings are found.
PREFIXES = ("TORCHDEVICE_", "TORCH_ALLOW_REDIRECT")
ON = ("1", "true", "yes", "on")
OFF = ("0", "false", "no", "off")
#: Values of TORCHDEVICE_AUTO only: activate if possible.
TRY = ("try",)
KERNEL_FIBERS = "TORCHDEVICE_KERNEL_FIBERS"
COUNT_KERNELS = "TORCHDEVICE_COUNT_KERNELS"
KERNEL_OPTIMIZATION = "TORCHDEVICE_KERNEL_OPTIMIZATION"
_LISTED = "docs/settings.md and python -m torchdevice_cuda --help list them"


class ValueHint(ValueError):
    """An invalid value, with a hint for the error message."""


def read_switch(text: str) -> bool:
    """Read a boolean."""
    value = text.strip().lower()
    if value not in ON + OFF:
        raise ValueError(text)
    return value in ON


def write_switch(value: object) -> str:
    """Write a boolean as 1 or 0; any other value unchanged, for the reader to check."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _match(pattern: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if re.fullmatch(pattern, text, re.ASCII) is None:
            raise ValueError(text)
        return text

    return read


def _read_auto(text: str) -> str:
    value = text.strip().lower()
    if value not in ON + TRY + OFF:
        raise ValueError(text)
    return value


def _read_folder(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    try:
        return os.fspath(expand(text))
    except (RuntimeError, OSError) as error:  # an unknown user, or a working folder that no longer exists
        raise ValueHint(str(error)) from error


@dataclasses.dataclass(frozen=True)
class Variable:
    """One environment variable: its name, its reader, the accepted values and its effect."""

    name: str
    allowed: str
    read: Callable[[str], object]
    help: str
    #: For processes that torchdevice_cuda starts itself.
    is_internal: bool = False


SWITCH_VALUES = "1, true, yes, on, 0, false, no, off"
VARIABLES: tuple[Variable, ...] = (
    Variable(
        "TORCHDEVICE_AUTO",
        ", ".join(ON + TRY + OFF),
        _read_auto,
        "whether the shim activates torchdevice_cuda when a process imports torch",
    ),
    Variable(CACHE_DIR, "a folder", _read_folder, "where compiled libraries and kernels are cached"),
    Variable(RUNTIME_DIR, "a folder", _read_folder, "where processes publish the device memory that they hold"),
    Variable(
        KERNEL_FIBERS,
        SWITCH_VALUES,
        read_switch,
        "whether kernels with barriers are never split into loops over threads",
    ),
    Variable(
        KERNEL_OPTIMIZATION,
        "0, 1, 2, 3",
        _match(r"[0-3]"),
        "the optimization level of kernels; unset: nvcc's, with fewer functions inlined; for much code, `-Og`",
    ),
    Variable("TORCHDEVICE_NATIVE_CXXFLAGS", "options of the C++ compiler", str, "added when the device is compiled"),
    Variable(
        "TORCHDEVICE_EMULATE_MPS_LACKS",
        "names of operators, separated by commas without spaces",
        _match(r"[a-zA-Z_]\w*(,[a-zA-Z_]\w*)*"),
        "operators that the emulated Apple GPU lacks in addition",
    ),
    Variable(
        "TORCHDEVICE_EMULATE_MPS_LATENCY_US",
        "a whole number of microseconds",
        _match(r"[0-9]{1,15}"),
        "from the end of work on the emulated Apple GPU to its signal",
    ),
    Variable(
        "TORCHDEVICE_EMULATE_MPS_STORAGE",
        "shared, private",
        _match("shared|private"),
        "the storage mode of the emulated Apple GPU's buffers; set, a wrong access of the host ends the process",
    ),
    Variable(
        COUNT_KERNELS,
        SWITCH_VALUES,
        read_switch,
        "compile kernels of CUDA C++ so that what they do is counted, for a GPU's clock",
        is_internal=True,
    ),
    Variable(
        "TORCHDEVICE_SANITIZE_FILE",
        "a file",
        str,
        "where checked kernels write their findings",
        is_internal=True,
    ),
    Variable(
        "TORCHDEVICE_TOOLKIT_VERSION",
        "a version of CUDA such as 13.0",
        _match(r"[0-9]+\.[0-9]+"),
        "the version that nvcc reports",
        is_internal=True,
    ),
)


def read_value(read: Callable[[str], object], allowed: str, spelled: str, text: str) -> object:
    """Read a value; SettingsError names the variable or option, the value and the allowed values."""
    try:
        if "\0" in text:
            raise ValueError(text)
        os.fsencode(text)  # children get it through the environment, which cannot contain other text
        return read(text)
    except (ValueError, OverflowError) as error:
        hint = f"; {error}" if isinstance(error, ValueHint) and str(error) else suggest_value(text, allowed.split(", "))
        raise SettingsError(f"{spelled}={text!r} cannot be read; allowed: {allowed}{hint}") from None


def suggest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return "; did you mean ...?" with the most similar known name, or an empty string.

    The prefix and the case are ignored.
    """
    import difflib  # for errors only

    names = {each.removeprefix(prefix).lower(): each for each in known}
    near = difflib.get_close_matches(name.removeprefix(prefix).strip().lower(), names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else ""


def suggest_value(text: str, allowed: Iterable[str]) -> str:
    """Return such a suggestion for a value, if the allowed values are words."""
    words = list(allowed)
    return suggest(text, words) if all(word.isalnum() for word in words) else ""


def check(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """Raise SettingsError for an unknown variable with one of the prefixes, and for an invalid value.

    ``known`` includes the names in :data:`torchdevice_cuda.settings.OPTIONS`, whose values are read there.
    """
    unknown = {name for name in environ if name.startswith(PREFIXES)}.difference(known)
    for name in sorted(unknown):
        hint = suggest(name, known, PREFIXES[0]) or ";"
        raise SettingsError(f"there is no variable {name} (set to {environ[name]!r}){hint} {_LISTED}")
    for variable in VARIABLES:
        if text := environ.get(variable.name):
            read_value(variable.read, variable.allowed, variable.name, text)
