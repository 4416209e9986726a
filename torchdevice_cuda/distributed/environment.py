"""The variables that PyTorch reads for NCCL: some have an effect here; the others are only checked, as by PyTorch."""

from __future__ import annotations

import os
import re
import warnings
from typing import NamedTuple

_TRUE = frozenset({"y", "yes", "1", "t", "true"})
_FALSE = frozenset({"n", "no", "0", "f", "false"})
#: A number as C++ parses it: text after it is ignored.
_NUMBER = re.compile(r"\s*[+-]?\d+")
_LARGEST = 2**31
#: Variables about NCCL's threads, streams and memory: an invalid value is refused.
_FLAGS = (
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_CUDA_EVENT_CACHE",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
    "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
    "TORCH_NCCL_PROPAGATE_ERROR",
    "TORCH_NCCL_HIGH_PRIORITY",
    "TORCH_NCCL_BCAST_UNIQUEID",
)
_NUMBERS = (
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
    "TORCH_NCCL_COORD_CHECK_MILSEC",
    "TORCH_NCCL_RANKS_PER_ROOT",
)
#: Their old names.
_OLD = {
    name: name.removeprefix("TORCH_")
    for name in (
        "TORCH_NCCL_BLOCKING_WAIT",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TORCH_NCCL_DESYNC_DEBUG",
        "TORCH_NCCL_ENABLE_TIMING",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    )
}


class Environment(NamedTuple):
    """The variables that have an effect."""

    #: Whether values that are sent or reduced are checked for NaN first.
    checks_nan: bool
    #: Whether works measure their duration.
    times: bool


def read() -> Environment:
    """Read the variables, when a group is created."""
    for name in _FLAGS:
        _flag(name)
    for name in _NUMBERS:
        _number(name)
    return Environment(
        checks_nan=_flag("TORCH_NCCL_NAN_CHECK"),
        times=_flag("TORCH_NCCL_DESYNC_DEBUG") | _flag("TORCH_NCCL_ENABLE_TIMING"),
    )


def _value(name: str) -> tuple[str, str] | None:
    """Return the name that is set, and its value."""
    if name in os.environ:
        return name, os.environ[name]
    old = _OLD.get(name, "")
    if old not in os.environ:
        return None
    warnings.warn(f"Environment variable {old} is deprecated; use {name} instead", stacklevel=4)
    return old, os.environ[old]


def _flag(name: str) -> bool:
    found = _value(name)
    if found is None:
        return False
    used, value = found[0], found[1].lower()
    if value not in _TRUE | _FALSE:
        raise RuntimeError(f"Invalid value for environment variable: {used}")
    return value in _TRUE


def _number(name: str) -> None:
    found = _value(name)
    if found is None:
        return
    digits = _NUMBER.match(found[1])
    if digits is None or not -_LARGEST <= int(digits[0]) < _LARGEST:
        raise RuntimeError(f"Invalid value for environment variable: {found[0]}")
