"""TunableOp: its settings, and its file of results.

The host has one way to compute a product, so nothing is measured: results are those that were read from a file. The
``PYTORCH_TUNABLEOP_*`` variables are torch's own interface, read here as torch's C++ reads them, and win over calls.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import torch

from ...drivers import active

__all__ = [
    "_cuda_record_untuned_enable",
    "_cuda_record_untuned_is_enabled",
    "_cuda_tunableop_clear_all",
    "_cuda_tunableop_enable",
    "_cuda_tunableop_get_cublaslt_requested_algo_count",
    "_cuda_tunableop_get_filename",
    "_cuda_tunableop_get_max_tuning_duration",
    "_cuda_tunableop_get_max_tuning_iterations",
    "_cuda_tunableop_get_results",
    "_cuda_tunableop_get_rotating_buffer_size",
    "_cuda_tunableop_get_validators",
    "_cuda_tunableop_is_enabled",
    "_cuda_tunableop_pop_dynamic_dims_mask",
    "_cuda_tunableop_push_dynamic_dims_mask",
    "_cuda_tunableop_read_file",
    "_cuda_tunableop_set_cublaslt_requested_algo_count",
    "_cuda_tunableop_set_filename",
    "_cuda_tunableop_set_max_tuning_duration",
    "_cuda_tunableop_set_max_tuning_iterations",
    "_cuda_tunableop_set_numerical_check_tolerances",
    "_cuda_tunableop_set_rotating_buffer_size",
    "_cuda_tunableop_tuning_enable",
    "_cuda_tunableop_tuning_is_enabled",
    "_cuda_tunableop_wildcard_fallback_enable",
    "_cuda_tunableop_wildcard_fallback_is_enabled",
    "_cuda_tunableop_write_file",
    "_cuda_tunableop_write_file_on_exit",
]

_DEFAULT_FILENAME = "tunableop_results.csv"
_MIB = 1 << 20

Key = tuple[str, str]  # operation, its parameters


@dataclasses.dataclass
class _Context:
    """What the program has set, and results that it read."""

    enabled: bool = False
    tuning: bool = True
    record_untuned: bool = False
    duration_ms: int = 30
    iterations: int = 100
    algorithms: int = 8
    wildcards: bool = False
    rotating_buffer: int = -1  # bytes; negative: the size of the device's cache
    tolerances: tuple[float, float] | None = None
    filename: str = ""
    default_filename_used: bool = False
    results: dict[Key, tuple[str, float]] = dataclasses.field(default_factory=dict)


_context = _Context()
_lock = threading.RLock()


def _variable(name: str) -> str | None:
    return os.environ.get(f"PYTORCH_TUNABLEOP_{name}")


def _flag(value: object, function: str) -> bool:
    if not isinstance(value, bool):
        raise RuntimeError(f"{function} expects a bool, but got {type(value).__name__}")
    return value


def _number(value: object, function: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RuntimeError(f"{function} expects an int, but got {type(value).__name__}")
    return value


# ------------------------------------------------------------------------- switches
def _cuda_tunableop_enable(value: bool) -> None:
    """Switch TunableOp on or off."""
    _context.enabled = _flag(value, "cuda_tunableop_enable")


def _cuda_tunableop_is_enabled() -> bool:
    """Whether it is on."""
    return _variable("ENABLED") == "1" or _context.enabled


def _cuda_tunableop_tuning_enable(value: bool) -> None:
    """Let operations without a result be tuned, or not."""
    _context.tuning = _flag(value, "cuda_tunableop_tuning_enable")


def _cuda_tunableop_tuning_is_enabled() -> bool:
    """Whether they may be."""
    return _variable("TUNING") != "0" and _context.tuning


def _cuda_record_untuned_enable(value: bool) -> None:
    """Have operations without a result written down for later, or not."""
    _context.record_untuned = _flag(value, "cuda_record_untuned_enable")


def _cuda_record_untuned_is_enabled() -> bool:
    """Whether they are."""
    return _variable("RECORD_UNTUNED") == "1" or _context.record_untuned


def _cuda_tunableop_wildcard_fallback_enable(value: bool) -> None:
    """Let a result for any value of a dimension serve a product that has none of its own, or not."""
    _context.wildcards = _flag(value, "cuda_tunableop_wildcard_fallback_enable")


def _cuda_tunableop_wildcard_fallback_is_enabled() -> bool:
    """Whether it may."""
    return _variable("WILDCARD_FALLBACK") == "1" or _context.wildcards


class _Mask:
    """A pushed mask of dimensions; whoever pushed it pops it, once."""

    def __init__(self) -> None:
        self.popped = False


def _cuda_tunableop_push_dynamic_dims_mask(mask: int) -> _Mask:
    """Take dimensions for variable ones; the one solution there is serves all sizes, so nothing hangs on it."""
    function = "cuda_tunableop_push_dynamic_dims_mask"
    if not 0 <= _number(mask, function) <= 0xF:
        raise RuntimeError(f"{function} expects a mask in [0, 0xF] (low 4 bits = M|N|K|BATCH), but got {mask}")
    return _Mask()


def _cuda_tunableop_pop_dynamic_dims_mask(mask: _Mask) -> None:
    """Take them for fixed again."""
    if not isinstance(mask, _Mask) or mask.popped:
        raise RuntimeError(
            "cuda_tunableop_pop_dynamic_dims_mask expects a valid, unconsumed TunableDynamicDimsGuard capsule"
        )
    mask.popped = True


# --------------------------------------------------------------------------- limits
def _limit(name: str, otherwise: int) -> int:
    text = _variable(name)
    return max(0, int(text)) if text else otherwise


def _cuda_tunableop_set_max_tuning_duration(duration: int) -> None:
    """Milliseconds that tuning may measure one solution."""
    _context.duration_ms = max(0, _number(duration, "cuda_tunableop_set_max_tuning_duration"))


def _cuda_tunableop_get_max_tuning_duration() -> int:
    """The same."""
    return _limit("MAX_TUNING_DURATION_MS", _context.duration_ms)


def _cuda_tunableop_set_max_tuning_iterations(iterations: int) -> None:
    """Times that tuning may run one solution."""
    _context.iterations = max(0, _number(iterations, "cuda_tunableop_set_max_tuning_iterations"))


def _cuda_tunableop_get_max_tuning_iterations() -> int:
    """The same."""
    return _limit("MAX_TUNING_ITERATIONS", _context.iterations)


def _cuda_tunableop_set_cublaslt_requested_algo_count(count: int) -> None:
    """Solutions that cuBLASLt is asked for, at least one; the host has one."""
    _context.algorithms = max(1, _number(count, "cuda_tunableop_set_cublaslt_requested_algo_count"))


def _cuda_tunableop_get_cublaslt_requested_algo_count() -> int:
    """The same."""
    return max(1, _limit("CUBLASLT_REQUESTED_ALGO_COUNT", _context.algorithms))


def _cuda_tunableop_set_rotating_buffer_size(buffer_size: int) -> None:
    """Mebibytes of inputs to rotate through; negative for the size of the device's cache, 0 for none."""
    size = _number(buffer_size, "cuda_tunableop_set_rotating_buffer_size")
    _context.rotating_buffer = -1 if size < 0 else size * _MIB


def _cuda_tunableop_get_rotating_buffer_size() -> int:
    """Bytes of inputs to rotate through."""
    text = _variable("ROTATING_BUFFER_SIZE")
    size = int(text) * _MIB if text else _context.rotating_buffer
    return active().facts(active().current_device()).L2_cache_size if size < 0 else size


def _cuda_tunableop_set_numerical_check_tolerances(enable: bool, atol: float = 1e-05, rtol: float = 1e-05) -> None:
    """Have solutions compared with the default one, within these tolerances; the one solution there is passes."""
    _context.tolerances = (float(atol), float(rtol)) if _flag(enable, "set_numerical_check_tolerances") else None


# ---------------------------------------------------------------------------- files
def _with_ordinal(filename: str, device: int) -> str:
    """A filename with the device's number at ``%d``, else before its last dot, else at its end."""
    if "%d" in filename:
        return filename.replace("%d", str(device), 1)
    stem, dot, suffix = filename.rpartition(".")
    return f"{stem}{device}.{suffix}" if dot else f"{filename}{device}"


def _cuda_tunableop_set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Name the results file."""
    if not isinstance(filename, str):
        raise RuntimeError(f"cuda_tunableop_set_filename expects a string, but got {type(filename).__name__}")
    if filename and insert_device_ordinal:
        filename = _with_ordinal(filename, active().current_device())
    _context.filename = filename


def _results_file() -> str:
    """Where results go; each device has a default file of its own."""
    if _context.filename:
        return _context.filename
    _context.default_filename_used = True
    return _default_file()


def _default_file() -> str:
    return _with_ordinal(_variable("FILENAME") or _DEFAULT_FILENAME, active().current_device())


def _cuda_tunableop_get_filename() -> str:
    """The results file; empty before one was named or used."""
    if not _context.filename and _context.default_filename_used:
        return _default_file()
    return _context.filename


def _cuda_tunableop_get_validators() -> tuple[tuple[str, str], ...]:
    """What must not have changed for old results to hold: the version of torch."""
    return (("PT_VERSION", str(torch.__version__).partition("+")[0]),)


def _cuda_tunableop_get_results() -> tuple[tuple[str, str, str, float], ...]:
    """``(operation, parameters, solution, milliseconds)`` of everything read."""
    with _lock:
        return tuple((*key, *result) for key, result in _context.results.items())


def _cuda_tunableop_read_file(filename: str) -> bool:
    """Read results; False where there is no such file or its validators do not fit."""
    if not isinstance(filename, str):
        raise RuntimeError(f"cuda_tunableop_read_file expects a string, but got {type(filename).__name__}")
    try:
        lines = Path(filename or _results_file()).read_text().splitlines()
    except OSError:
        return False
    validators: dict[str, str] = {}
    results: dict[Key, tuple[str, float]] = {}
    for line in lines:
        parts = line.split(",")
        if len(parts) < 3:
            continue
        if parts[0] == "Validator":
            validators[parts[1]] = parts[2]
        else:
            results[parts[0], parts[1]] = (parts[2], float(parts[3]) if len(parts) > 3 else 0.0)
    if validators != dict(_cuda_tunableop_get_validators()):
        return False
    with _lock:
        _context.results.update(results)
    return True


def _cuda_tunableop_clear_all() -> None:
    """Forget all results; the file stays."""
    with _lock:
        _context.results.clear()


def _validator_lines() -> str:
    return "".join(f"Validator,{name},{value}\n" for name, value in _cuda_tunableop_get_validators())


def _result_line(operation: str, parameters: str, solution: str, milliseconds: float) -> str:
    return f"{operation},{parameters},{solution},{milliseconds:.6f}\n"


def _cuda_tunableop_write_file_on_exit(enable: bool) -> None:
    """Write results to the file as they come, or not: none come."""
    _flag(enable, "cuda_tunableop_write_file_on_exit")


def _cuda_tunableop_write_file(filename: str) -> bool:
    """Write all results to a file, the results file if the name is empty; False where that fails."""
    lines = [_validator_lines(), *(_result_line(*result) for result in _cuda_tunableop_get_results())]
    try:
        Path(filename or _results_file()).write_text("".join(lines))
    except OSError:
        return False
    return True
