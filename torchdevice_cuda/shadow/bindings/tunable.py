"""TunableOp: its settings and its files.

The host has one way to compute a product, so nothing is measured and there are no results. The ``PYTORCH_TUNABLEOP_*``
variables are torch's own interface, parsed here as by torch's C++, and override calls.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ...drivers import active
from .pybind import define

__all__: list[str] = []

_MIB = 1 << 20


def _variable(name: str) -> str | None:
    return os.environ.get(f"PYTORCH_TUNABLEOP_{name}")


def _check(value: object, kind: type, function: str) -> Any:
    """Raise as torch's C++ does unless a value has exactly this type."""
    if type(value) is not kind:
        wanted = {bool: "a bool", int: "an int", str: "a string"}[kind]
        raise RuntimeError(f"{function} expects {wanted}, but got {type(value).__name__}")
    return value


def _define_switch(stem: str, variable: str, value: bool) -> None:
    """Define the functions that set and read a switch; its variable can only invert the default."""
    other = not value

    def enable(wanted: bool) -> None:
        nonlocal value
        value = _check(wanted, bool, f"cuda_{stem}_enable")

    def is_enabled() -> bool:
        return other if _variable(variable) == str(int(other)) else value

    define(globals(), {f"_cuda_{stem}_enable": enable, f"_cuda_{stem}_is_enabled": is_enabled})


def _define_limit(stem: str, variable: str, value: int, least: int = 0) -> None:
    """Define the functions that set and read a limit."""

    def set_limit(wanted: int) -> None:
        nonlocal value
        value = max(least, _check(wanted, int, f"cuda_tunableop_set_{stem}"))

    def get_limit() -> int:
        text = _variable(variable)
        return max(least, int(text)) if text else value

    define(globals(), {f"_cuda_tunableop_set_{stem}": set_limit, f"_cuda_tunableop_get_{stem}": get_limit})


_define_switch("tunableop", "ENABLED", False)
_define_switch("tunableop_tuning", "TUNING", True)
_define_switch("record_untuned", "RECORD_UNTUNED", False)
_define_switch("tunableop_wildcard_fallback", "WILDCARD_FALLBACK", False)
_define_limit("max_tuning_duration", "MAX_TUNING_DURATION_MS", 30)
_define_limit("max_tuning_iterations", "MAX_TUNING_ITERATIONS", 100)
_define_limit("cublaslt_requested_algo_count", "CUBLASLT_REQUESTED_ALGO_COUNT", 8, least=1)

_rotating_buffer = -1  # bytes; negative: the size of the device's cache
_filename = ""
_default_filename_used = False


def _cuda_tunableop_set_rotating_buffer_size(buffer_size: int) -> None:
    """Set the mebibytes of inputs to rotate through; negative for the size of the device's cache, 0 for none."""
    global _rotating_buffer
    _rotating_buffer = _check(buffer_size, int, "cuda_tunableop_set_rotating_buffer_size") * _MIB


def _cuda_tunableop_get_rotating_buffer_size() -> int:
    """Return the bytes of inputs to rotate through."""
    text = _variable("ROTATING_BUFFER_SIZE")
    size = int(text) * _MIB if text else _rotating_buffer
    return active().facts(active().current_device()).L2_cache_size if size < 0 else size


def _cuda_tunableop_set_numerical_check_tolerances(enable: bool, atol: float = 1e-05, rtol: float = 1e-05) -> None:
    """Accept tolerances for comparing solutions with the default one, which is the only one."""
    _check(enable, bool, "set_numerical_check_tolerances")


def _cuda_tunableop_push_dynamic_dims_mask(mask: int) -> object:
    """Accept dimensions that vary: the only solution serves all sizes."""
    return _check(mask, int, "cuda_tunableop_push_dynamic_dims_mask")


def _cuda_tunableop_pop_dynamic_dims_mask(mask: object) -> None:
    """Accept the end of varying dimensions."""


# ---------------------------------------------------------------------------- files
def _with_ordinal(filename: str) -> str:
    """Insert the current device's number into a filename: at ``%d``, else before its last dot, else at its end."""
    device = active().current_device()
    if "%d" in filename:
        return filename.replace("%d", str(device), 1)
    stem, dot, suffix = filename.rpartition(".")
    return f"{stem}{device}.{suffix}" if dot else f"{filename}{device}"


def _cuda_tunableop_set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Set the name of the results file."""
    global _filename
    _filename = _check(filename, str, "cuda_tunableop_set_filename")
    if filename and insert_device_ordinal:
        _filename = _with_ordinal(filename)


def _cuda_tunableop_get_filename() -> str:
    """Return the name of the results file; empty before one was set or used."""
    return _results_file() if _filename or _default_filename_used else ""


def _results_file() -> str:
    """Return the name of the results file; each device has its own default file."""
    global _default_filename_used
    if _filename:
        return _filename
    _default_filename_used = True
    return _with_ordinal(_variable("FILENAME") or "tunableop_results.csv")


def _cuda_tunableop_get_validators() -> tuple[tuple[str, str], ...]:
    """Return the values that must be equal for old results to be valid: the version of torch."""
    return (("PT_VERSION", str(torch.__version__).partition("+")[0]),)


def _cuda_tunableop_get_results() -> tuple[tuple[str, str, str, float], ...]:
    """Return the measured solutions: none."""
    return ()


def _cuda_tunableop_read_file(filename: str) -> bool:
    """Return whether a file's results are valid here: it exists, and its validators match."""
    try:
        text = Path(_check(filename, str, "cuda_tunableop_read_file") or _results_file()).read_text()
    except OSError:
        return False
    rows = [line.split(",") for line in text.splitlines()]
    validators = {row[1]: row[2] for row in rows if len(row) > 2 and row[0] == "Validator"}
    return validators == dict(_cuda_tunableop_get_validators())


def _cuda_tunableop_clear_all() -> None:
    """Drop the results: there are none."""


def _cuda_tunableop_write_file_on_exit(enable: bool) -> None:
    """Accept whether results are written as they arrive."""
    _check(enable, bool, "cuda_tunableop_write_file_on_exit")


def _cuda_tunableop_write_file(filename: str) -> bool:
    """Write a file without results, the results file if the name is empty; return whether that worked."""
    lines = [f"Validator,{name},{value}\n" for name, value in _cuda_tunableop_get_validators()]
    try:
        Path(filename or _results_file()).write_text("".join(lines))
    except OSError:
        return False
    return True
