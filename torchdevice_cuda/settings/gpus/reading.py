"""Read a GPU profile from a file of TOML; errors name the file, the key, the value and what is allowed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..._compat import read_toml
from ..values import read_bytes, read_capability, read_name
from ..variables import ValueHint, suggest
from .model import ARCHITECTURES, RATES, Gpu

_CAPABILITIES = ", ".join(f"{major}.{minor}" for major, minor in ARCHITECTURES)
_PCIE = re.compile(r"[1-7]\.0 x(1|2|4|8|16)")
_MISSING = object()


@dataclasses.dataclass(frozen=True)
class _Key:
    read: Callable[[Any], Any]
    allowed: str
    is_required: bool = True


def _read_text(value: Any, read: Callable[[str], Any] = read_name) -> Any:
    if not isinstance(value, str):
        raise ValueError(value)
    return read(value)


def _read_capability(value: Any) -> tuple[int, int]:
    found: tuple[int, int] = _read_text(value, read_capability)
    if found not in ARCHITECTURES:
        raise ValueError(value)
    return found


def _read_memory(value: Any) -> int:
    return read_bytes(str(value) if type(value) is int else _read_text(value, str))


def _read_switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _read_pcie(value: Any) -> str:
    if not isinstance(value, str) or not _PCIE.fullmatch(value):
        raise ValueError(value)
    return value


def _read_sources(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(value)
    return tuple(map(_read_text, value))


def _whole(most: int, **more: Any) -> _Key:
    def read(value: Any) -> int:
        if type(value) is not int or not 1 <= value <= most:
            raise ValueError(value)
        return value

    return _Key(read, f"a whole number from 1 to {most}", **more)


def _rate() -> _Key:
    most = 1_000_000

    def read(value: Any) -> float:
        if type(value) not in (int, float) or not 0 < value <= most:
            raise ValueError(value)
        return float(value)

    return _Key(read, f"a number above 0, at most {most}", is_required=False)


#: By the name in a file, which is that of the field of :class:`Gpu`.
KEYS = {
    "name": _Key(_read_text, "text"),
    "capability": _Key(_read_capability, f'"{_CAPABILITIES}"'.replace(", ", '", "')),
    "multiprocessors": _whole(1024),
    "memory": _Key(_read_memory, 'a whole number of bytes, or a size such as "24564 MiB" or "16 GiB"'),
    "clock_mhz": _whole(10_000),
    "memory_clock_mhz": _whole(100_000),
    "bus_bits": _whole(65_536),
    "l2_kib": _whole(1 << 21),
    "integrated": _Key(_read_switch, "true, false", is_required=False),
    "bandwidth_gb_s": _rate(),
    "pcie": _Key(_read_pcie, 'generation and lanes such as "4.0 x16"', is_required=False),
    "nvlink_gb_s": _rate(),
    "power_w": _rate(),
    "sources": _Key(_read_sources, "a list of texts", is_required=False),
}
_TFLOPS = dict.fromkeys(RATES, _rate())


def read(path: Path) -> Gpu:
    """Return the profile in a file; ValueHint if there is none."""
    try:
        found = read_toml(path)
    except OSError as error:
        raise ValueHint(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise ValueHint(f"{path} is no file of TOML: {error}") from error
    rates = found.pop("tflops", {})
    if not isinstance(rates, dict):
        raise ValueHint(f"{path}: tflops = {rates!r} cannot be read; allowed: a table [tflops]")
    tflops = _read_table(path, "tflops.", _TFLOPS, rates)
    return Gpu(**_read_table(path, "", KEYS, found, ("tflops",)), tflops=tflops)


def _read_table(
    path: Path, prefix: str, keys: dict[str, _Key], found: dict[str, Any], others: Iterable[str] = ()
) -> dict[str, Any]:
    known = [*keys, *others]
    for name in found:
        if name not in keys:
            hint = suggest(name, known) or f"; known: {', '.join(known)}"
            raise ValueHint(f"{path}: there is no key {prefix}{name}{hint}")
    values = {}
    for name, key in keys.items():
        value = found.get(name, _MISSING)
        if value is _MISSING:
            if key.is_required:
                raise ValueHint(f"{path}: {prefix}{name} is missing; allowed: {key.allowed}")
            continue
        try:
            values[name] = key.read(value)
        except ValueError:
            message = f"{path}: {prefix}{name} = {value!r} cannot be read; allowed: {key.allowed}"
            raise ValueHint(message) from None
    return values
