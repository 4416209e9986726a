"""Readers and writers of the values of settings. A reader raises ValueError for invalid text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}ib"] = 1024**_power
    _UNITS[f"{_letter}b"] = 1000**_power

#: Orders of streams.
_EAGER, _ADVERSARIAL = "eager", "adversarial"

#: The largest size that torch's C++ can count after rounding up.
_MOST_BYTES = 8191 * 1024**5


def read_one_of(*choices: str, fold: Callable[[str], str] = str.lower) -> Callable[[str], str]:
    """Return a reader of one of these words."""

    def read(text: str) -> str:
        value = fold(text.strip())
        if value not in choices:
            raise ValueError(text)
        return value

    return read


def read_count(text: str) -> int:
    """Read a number of devices."""
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", text) is None or not 1 <= int(text) <= 64:
        raise ValueError(text)
    return int(text)


def read_bytes(text: str) -> int:
    """Read a size with an optional unit."""
    match = re.fullmatch(r"\s*(\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,2})?)\s*([a-z]*)\s*", text.lower(), re.ASCII)
    if match is None or match[2] not in _UNITS:
        raise ValueError(text)
    import fractions  # imports decimal, so not at every start

    value = int(fractions.Fraction(match[1]) * _UNITS[match[2]])
    if not 1 <= value <= _MOST_BYTES:
        raise ValueError(text)
    return value


def read_capability(text: str) -> tuple[int, int]:
    """Read a compute capability."""
    match = re.fullmatch(r"\s*([0-9]{1,2})\.([0-9])\s*", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2])


def read_streams(text: str) -> int | None:
    """Read how work of streams is ordered: the seed of an adversarial order; ``None`` for the order of issue."""
    if text.strip().lower() == _EAGER:
        return None
    match = re.fullmatch(rf"\s*{_ADVERSARIAL}(?::([0-9]{{1,18}}))?\s*", text.lower())
    if match is None:
        raise ValueError(text)
    return int(match[1] or 0)


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text


def read_name(text: str) -> str:
    """Read text that programs can print."""
    _text(text).encode()  # programs print it, and the environment may contain bytes that are not text
    return text


def read_destination(text: str) -> str:
    """Return an absolute path: the program and its children may change the working folder."""
    return text if _text(text) == "-" else os.path.abspath(text)


def write_streams(seed: int | None) -> str:
    """Write the order of streams."""
    return _EAGER if seed is None else f"{_ADVERSARIAL}:{seed}"


def write_lower(value: Any) -> str:
    """Write a boolean as true or false."""
    return str(value).lower()


def write_version(value: Any) -> str:
    """Write numbers separated by points."""
    return ".".join(map(str, value))
