"""CUDA's errors: their types and messages."""

from __future__ import annotations

import os

from .._compat import accelerator_error

# Omitted if every kernel is waited for.
_LATE = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)
_DEBUGGING = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"

# cudaError_t values that can occur here: code -> (name, text of cudaGetErrorString).
CODES: dict[int, tuple[str, str]] = {
    0: ("cudaSuccess", "no error"),
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    3: ("cudaErrorInitializationError", "initialization error"),
    4: ("cudaErrorCudartUnloading", "driver shutting down"),
    34: ("cudaErrorStubLibrary", "CUDA driver is a stub library"),
    35: ("cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"),
    46: ("cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"),
    98: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
    100: ("cudaErrorNoDevice", "no CUDA-capable device is detected"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    201: ("cudaErrorDeviceUninitialized", "invalid device context"),
    205: ("cudaErrorMapBufferObjectFailed", "mapping of buffer object failed"),
    209: ("cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    401: ("cudaErrorIllegalState", "the operation cannot be performed in the present state"),
    500: ("cudaErrorSymbolNotFound", "named symbol not found"),
    600: ("cudaErrorNotReady", "device not ready"),
    700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    701: ("cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
    709: ("cudaErrorContextIsDestroyed", "context is destroyed"),
    710: ("cudaErrorAssert", "device-side assert triggered"),
    712: ("cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"),
    713: ("cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
    801: ("cudaErrorNotSupported", "operation not supported"),
    900: ("cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"),
    901: ("cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"),
    902: ("cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"),
    904: ("cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"),
    905: ("cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"),
    907: ("cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"),
    908: (
        "cudaErrorStreamCaptureWrongThread",
        "attempt to terminate a thread-local capture sequence from another thread",
    ),
    999: ("cudaErrorUnknown", "unknown error"),
}
#: Errors of a kernel after which the device cannot be used.
ENDING = frozenset({700, 710, 719})
_UNKNOWN = ("cudaErrorUnknown", "unrecognized error code")

BAD_FORK = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
    "start method"
)


def error_text(code: int) -> str:
    """Return the text of ``cudaGetErrorString`` for an error code."""
    return CODES.get(code, _UNKNOWN)[1]


def words_of(code: int, place: str = "") -> str:
    """Return the runtime's message for an error code, torch's explanation, and where it happened."""
    name, text = CODES.get(code, _UNKNOWN)
    if code == 101:
        return f"{text}\nGPU device may be out of range, do you have enough GPUs?"
    return (
        f"{text}\nSearch for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for "
        f"more information.{f'{chr(10)}It happened in {place}.' if place else ''}"
    )


def cuda_error(code: int, place: str = "") -> Exception:
    """Return the ``torch.AcceleratorError`` that torch raises when a CUDA call returns this code.

    `place` says where it happened, which a GPU does not report.
    """
    kind = accelerator_error()
    late = "" if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0") else _LATE
    error = kind(f"CUDA error: {words_of(code, place)}\n{late}{_DEBUGGING}")
    error.place = place  # type: ignore[attr-defined]
    if kind is not RuntimeError:
        error.error_code = code  # type: ignore[attr-defined]
    return error


def invalid_ordinal() -> Exception:
    """Return the error for a device index that does not exist."""
    return cuda_error(101)


def bad_fork() -> RuntimeError:
    """Return the error for using CUDA in a child forked from a process that already used it."""
    return RuntimeError(BAD_FORK)
