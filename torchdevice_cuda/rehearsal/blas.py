"""The workspaces of cuBLAS that a call makes PyTorch allocate, and their sizes."""

from __future__ import annotations

import os
import re
from typing import Protocol

from .._compat import blas_lt_has_own_workspace
from .calls import Call, Shape

_KIB = 1024
#: What a call takes, as the compiled device counts it.
NONE, BLAS, BLAS_LT = 0, 1, 2
#: Calls of cuBLAS, recorded on an H200 by what they leave allocated; ``addr``, convolutions and factorizations leave
#: nothing.
_PRODUCTS = frozenset(
    "mm bmm baddbmm addbmm addmm addmv mv dot vdot matmul linear einsum bilinear _trilinear _int_mm _euclidean_dist "
    "linalg_matrix_exp linalg_solve_triangular triangular_solve linalg_inv_ex _linalg_solve_ex linalg_lu_solve "
    "linalg_lstsq".split()
)
#: Those that always take cuBLASLt.
_LT = frozenset(("_scaled_mm", "_addmm_activation"))
_LT_TYPES = frozenset(("float", "double", "c10::Half", "c10::BFloat16"))


class Device(Protocol):
    """The functions of the compiled device that are used here."""

    def set_workspaces(self, blas_bytes: int, blas_lt_bytes: int) -> None:
        """Set the sizes of workspaces that are allocated from now on."""


def find_workspaces(call: Call) -> int:
    """Return what a call takes: nothing, a workspace of cuBLAS, or one of cuBLASLt too."""
    name = call.name.removesuffix("_")
    if name in _LT:
        return BLAS_LT
    if name not in _PRODUCTS or not all(t.elements for t in call.tensors):
        return NONE
    return BLAS_LT if _adds_bias(name, call) else BLAS


def _adds_bias(name: str, call: Call) -> bool:
    """Return whether cuBLASLt adds a row to each row of a product, of at least two columns."""
    shapes = [call.get(i) for i in range(3)]
    if name == "linear":
        source, weight, bias = shapes
        if not isinstance(bias, Shape) or (source.strides and len(source.sizes) != 2):
            return False
        columns, inner = (*weight.sizes, 1)[:2]
    elif name == "addmm" and call.get(3, 1) == 1:
        bias, _, factor = shapes
        inner, columns = factor.sizes
    else:
        return False
    is_row = bias.sizes == (columns,) and not bias.strides
    return is_row and columns > 1 and inner > 1 and bias.type in _LT_TYPES


def _find_configured(text: str | None) -> int | None:
    """Return the bytes of CUBLAS_WORKSPACE_CONFIG: pairs of KiB and count, such as ``:4096:2:16:8``."""
    if not text or not re.fullmatch(r"(:\d+:\d+)+", text):
        return None
    numbers = [int(number) for number in text[1:].split(":")]
    return sum(size * count * _KIB for size, count in zip(numbers[::2], numbers[1::2], strict=True))


def find_blas_bytes(major: int) -> int:
    """Return a workspace's bytes: the environment's, else PyTorch's on GPUs of this major compute capability."""
    # cuBLAS's own variable, not a setting of torchdevice_cuda
    configured = _find_configured(os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
    if configured is not None:
        return configured
    return 4096 * 8 * _KIB if major >= 9 else (4096 * 2 + 16 * 8) * _KIB


def find_blas_lt_bytes(otherwise: int = 1024 * _KIB) -> int:
    """Return the bytes of cuBLASLt's workspace: the environment's, else these."""
    kib = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return int(kib) * _KIB if kib.isdecimal() else otherwise


def size_workspaces(device: Device, blas_bytes: int, version: str) -> None:
    """Let the device allocate workspaces of this size, and those of cuBLASLt in a release of torch that has its own."""
    device.set_workspaces(blas_bytes, find_blas_lt_bytes() if blas_lt_has_own_workspace(version) else 0)
