"""A program's allocator options: ``PYTORCH_CUDA_ALLOC_CONF``, parsed as CUDA parses it.

One parser serves every driver and torch release: a snapshot shows the settings on all of them, and only a CUDA build of
torch knows CUDA's own options. Errors are CUDA's, including those of the C++ library's number parsers.
"""

from __future__ import annotations

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MIB = 1 << 20
#: a size that is never reached; CUDA's statistics show it as -1
NEVER = 2**64 - 1
NATIVE, ASYNC = "native", "cudaMallocAsync"
_INTERVALS = 16
_LARGE_SEGMENT = 20 * MIB
_LEAST_LARGE = 10 * MIB
_MOST_REGISTER_THREADS = 128
#: names of the environment variable; the first that is set counts
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Allocator options. Sizes are in bytes."""

    text: str = ""
    backend: str = NATIVE
    max_split: int = NEVER
    large_segment: int = _LARGE_SEGMENT
    max_rounding: int = _LARGE_SEGMENT
    collect_above: float = 0.0
    divisions: tuple[int, ...] = (0,) * _INTERVALS
    expandable: bool = False
    fraction: float = 1.0
    rejects: bool = False
    releases_lock: bool = False
    reuses_in_capture: bool = False
    pinned_registers: bool = False
    pinned_threads: int = 1
    pinned_rounded: int = NEVER
    pinned_kept: int = NEVER

    def shown(self) -> dict[str, Any]:
        """Return the options as a snapshot shows them."""
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.text,
            "max_split_size": signed(self.max_split),
            "garbage_collection_threshold": self.collect_above,
            "expandable_segments": self.expandable,
            "pinned_num_register_threads": self.pinned_threads,
            "release_lock_on_cudamalloc": self.releases_lock,
            "pinned_use_cuda_host_register": self.pinned_registers,
            "graph_capture_record_stream_reuse": self.reuses_in_capture,
            "max_round_threshold": signed(self.pinned_rounded),
            "max_cached_size": signed(self.pinned_kept),
            "roundup_power2_divisions": {str(1 << i): parts for i, parts in enumerate(self.divisions)},
        }


def signed(size: int) -> int:
    """Return a size as the signed 64-bit number that CUDA shows."""
    return size - 2**64 if size >= 2**63 else size


#: messages of the C++ library for text that is not a number
_NO_NUMBER = ("stoull", "stod")


# ------------------------------------------------------------------------------- tokens
_NO_END = "Expected closing bracket ']' in ConfigTokenizer but reached end of config"


class _Tokens:
    """The tokens of a text: words and separators."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = re.findall(r"[,:\[\]]|[^,:\[\]]+", re.sub(r"\s", "", text, flags=re.ASCII))

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, at: int) -> str:
        if at >= len(self._tokens):
            raise RuntimeError("Index out of bounds in ConfigTokenizer")
        return self._tokens[at]

    def size(self, at: int) -> int:
        """Parse an unsigned integer as C++ does: text after the digits is ignored, a negative number wraps around."""
        found = re.match(r"[+-]?\d+", self[at], re.ASCII)
        if found is None:
            raise ValueError(_NO_NUMBER[0])
        number = int(found[0])
        if abs(number) > NEVER:
            raise IndexError(_NO_NUMBER[0])
        return number % 2**64

    def real(self, at: int) -> float:
        """Parse a floating-point number as C++ does."""
        found = re.match(r"[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|nan)", self[at], re.ASCII | re.IGNORECASE)
        if found is None:
            raise ValueError(_NO_NUMBER[1])
        return float(found[0])

    def truth(self, at: int) -> bool:
        """Parse True or False."""
        token = self[at]
        if token not in ("True", "False"):
            raise ValueError(f"Expected 'True' or 'False' at index {at} in ConfigTokenizer but got '{token}'")
        return token == "True"

    def past_value(self, at: int) -> int:
        """Return the end of the value that begins there: a word, or a list."""
        if self[at] != "[":
            return at
        while at < len(self._tokens) and self._tokens[at] != "]":
            at += 1
        if at == len(self._tokens):
            raise RuntimeError(_NO_END)
        return at


# ------------------------------------------------------------------------------- values
#: A parser of a key's value: from the tokens, its position and the earlier settings to new field values.
_Reader = Callable[[_Tokens, int, Settings], dict[str, Any]]


def _check(condition: bool, words: str) -> None:
    if not condition:
        raise ValueError(words)


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _megabytes(field: str) -> _Reader:
    return lambda tokens, at, before: {field: min(tokens.size(at), NEVER // MIB) * MIB}


def _truth(field: str) -> _Reader:
    return lambda tokens, at, before: {field: tokens.truth(at)}


def _truth_of_nothing(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    """Parse an option of pinned memory that has no effect on a host: raise CUDA's errors, store nothing."""
    tokens.truth(at)
    return {}


def _least_segment(option: str, field: str) -> _Reader:
    """Return a parser of a size that must not be smaller than a large segment."""

    def read(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
        least = before.large_segment // MIB
        chosen = tokens.size(at)
        _check(chosen >= least, f"CachingAllocator option {option} too small, must be >= {least}")
        return {field: min(chosen, NEVER // MIB) * MIB}

    return read


def _large_segment(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    chosen, least = tokens.size(at), _LEAST_LARGE // MIB
    _check(chosen > least, f"CachingAllocator option large_segment_size_mb must be > {least} MB")
    return {"large_segment": min(chosen, NEVER // MIB) * MIB}


def _threshold(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    chosen = tokens.real(at)
    _check(0 < chosen < 1, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
    return {"collect_above": chosen}


def _fraction(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    chosen = tokens.real(at)
    _check(0 <= chosen <= 1, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
    return {"fraction": chosen}


def _threads(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    chosen, most = tokens.size(at), _MOST_REGISTER_THREADS
    _check(_is_power(chosen), f"Number of register threads has to be power of 2, got {chosen}")
    _check(chosen <= most, f"Number of register threads should be less than or equal to {most}, got {chosen}")
    return {"pinned_threads": chosen}


def _reserve(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    """Parse the size of a reserved segment, which is not used here."""
    _check(tokens.size(at) > 0, "Pinned reserve segment size has to be greater than 0")
    return {}


def _divisions(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    """Parse one number for all sizes, or ``[size:number,...,>:number]``: MiB, and > for all larger sizes."""
    if tokens[at] != "[":
        parts = tokens.size(at)
        _check(_is_power(parts), "For roundups, the divisions has to be power of 2 ")
        return {"divisions": (parts,) * _INTERVALS}
    found = list(before.divisions)
    last, first = 0, True
    at += 1
    while at < len(tokens) and tokens[at] != "]":
        bound, parts = at, tokens.size(at + 2)
        _check(
            parts == 0 or _is_power(parts), "For roundups, the divisions has to be power of 2 or 0 to disable roundup "
        )
        if tokens[bound] == ">":
            found[last + 1 :] = [parts] * (_INTERVALS - last - 1)
        else:
            size = tokens.size(bound)
            _check(_is_power(size), "For roundups, the intervals have to be power of 2 ")
            last = min(size.bit_length() - 1, _INTERVALS - 1)
            if first:
                found[:last] = [parts] * last
                first = False
            found[last] = parts
        at += 3 if tokens[at + 3] == "]" else 4
    if at >= len(tokens):
        raise RuntimeError(_NO_END)
    return {"divisions": tuple(found)}


def _backend(tokens: _Tokens, at: int, before: Settings) -> dict[str, Any]:
    chosen = tokens[at]
    _check(chosen in (NATIVE, ASYNC), f"Unknown allocator backend, options are {NATIVE} and {ASYNC}")
    return {"backend": chosen}


#: Options of all accelerators, and CUDA's own, by key.
_COMMON: Mapping[str, _Reader] = {
    "large_segment_size_mb": _large_segment,
    "max_split_size_mb": _least_segment("max_split_size_mb", "max_split"),
    "max_non_split_rounding_mb": _least_segment("max_non_split_rounding_mb", "max_rounding"),
    "garbage_collection_threshold": _threshold,
    "roundup_power2_divisions": _divisions,
    "expandable_segments": _truth("expandable"),
    "pinned_use_background_threads": _truth_of_nothing,
    "pinned_max_round_threshold_mb": _megabytes("pinned_rounded"),
    "pinned_max_cached_size_mb": _megabytes("pinned_kept"),
}
_CUDA: Mapping[str, _Reader] = {
    "backend": _backend,
    "release_lock_on_cudamalloc": _truth("releases_lock"),
    "release_lock_on_hipmalloc": _truth("releases_lock"),
    "pinned_use_cuda_host_register": _truth("pinned_registers"),
    "pinned_use_hip_host_register": _truth("pinned_registers"),
    "pinned_num_register_threads": _threads,
    "pinned_reserve_segment_size_mb": _reserve,
    "graph_capture_record_stream_reuse": _truth("reuses_in_capture"),
    "per_process_memory_fraction": _fraction,
    "pinned_free_catch_all": _truth_of_nothing,
    "throw_on_cudamalloc_oom": _truth("rejects"),
}


def _entries(tokens: _Tokens, whose: str) -> Iterator[tuple[str, int]]:
    """Yield each key and the position of its value. Text between them is ignored, as by CUDA."""
    at = 0
    while at < len(tokens):
        key = tokens[at]
        if key not in _COMMON and key not in _CUDA:
            raise ValueError(f"Unrecognized key '{key}' in {whose} allocator config.")
        yield key, at + 2
        at = tokens.past_value(at + 2) + 2


def read(text: str, before: Settings, *, backend: str | None = None) -> Settings:
    """Parse options of the program, after earlier ones; ``backend`` is the one in use.

    Some options return to their defaults if a text does not name them, others stay, as on CUDA. CUDA parses the options
    of all accelerators first, then its own, and raises the first error in this order.
    """
    now, keys = _read(text, before, backend, "Accelerator")
    for words in _warnings(now, keys):
        warnings.warn(words, stacklevel=3)
    return now


def _read(text: str, before: Settings, backend: str | None, whose: str) -> tuple[Settings, list[str]]:
    """Return the settings, and the keys that were given."""
    tokens = _Tokens(text)
    now = dataclasses.replace(before, text=text, max_split=NEVER, collect_above=0.0, divisions=(0,) * _INTERVALS)
    for at in range(len(tokens)):  # parsed first, wherever it is: other options may not be smaller
        if tokens[at] == "large_segment_size_mb":
            now = dataclasses.replace(now, **_large_segment(tokens, at + 2, now))
    now = dataclasses.replace(now, max_rounding=now.large_segment)
    keys: list[str] = []
    for readers in (_COMMON, _CUDA):
        for key, at in _entries(tokens, whose):
            if key in readers:
                keys.append(key)
                now = dataclasses.replace(now, **readers[key](tokens, at, now))
                if key == "backend" and backend not in (None, now.backend):
                    raise RuntimeError(
                        "Allocator backend parsed at runtime != allocator backend parsed at load time, "
                        f"{now.backend} != {backend}"
                    )
    return now, keys


def _warnings(now: Settings, keys: list[str]) -> Iterator[str]:
    """Return CUDA's warnings about options that conflict."""
    if {"pinned_max_round_threshold_mb", "pinned_max_cached_size_mb"} <= {
        *keys
    } and now.pinned_rounded > now.pinned_kept:
        yield (
            f"pinned_max_round_threshold_mb ({now.pinned_rounded >> 20}) > pinned_max_cached_size_mb "
            f"({now.pinned_kept >> 20}). The cache size limit takes precedence: allocations above "
            "pinned_max_cached_size_mb are never rounded up."
        )
    if "backend" in keys and now.backend == ASYNC and any(key in _CUDA and key != "backend" for key in keys):
        yield (
            "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and garbage_collect_threshold."
        )


def _chosen(environment: Mapping[str, str]) -> str | None:
    return next((environment[name] for name in VARIABLES if name in environment), None)


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the environment. CUDA reads it too early for warnings."""
    text = _chosen(environment)
    if text is None:
        return Settings()
    if backend(environment) == ASYNC:
        return Settings(text, ASYNC)  # CUDA finds this backend first, and then parses nothing else
    try:
        return _read(text, Settings(), None, "CUDA")[0]
    except (ValueError, IndexError) as error:
        if str(error) in _NO_NUMBER:  # CUDA reads the environment in C++, where these become RuntimeError
            raise RuntimeError(str(error)) from None
        raise


def backend(environment: Mapping[str, str] = os.environ) -> str:
    """Return the allocator that the environment names. CUDA reads only this option at load time."""
    text = _chosen(environment)
    found = text is not None and re.search(rf"(?:^|,)\s*backend\s*:\s*{ASYNC}\s*(?:,|$)", text)
    return ASYNC if found else NATIVE


def caches(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment allows caching of freed memory."""
    return "1" not in (environment.get(f"PYTORCH_NO_{name}_MEMORY_CACHING") for name in ("CUDA", "HIP"))
