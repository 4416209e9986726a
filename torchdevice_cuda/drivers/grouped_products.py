"""Products of groups of float8 matrices with a scale for each row, which only CUDA has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
Kernel = Callable[..., Any]


def _check(right: bool, words: str) -> None:
    if not right:
        raise ValueError(words)


def _is_transposed(matrix: Tensor) -> bool:
    """Return whether the last but one dimension is the one without gaps, as of a transposed matrix."""
    rows, columns = matrix.stride()[-2:]
    if rows == 1 and columns >= max(1, matrix.shape[-2]):
        return True
    _check(
        columns == 1 and rows >= max(1, matrix.shape[-1]),
        f"Invalid strides/sizes, got {list(matrix.stride())} for strides and {list(matrix.shape)} for sizes",
    )
    return False


def _check_scale(matrix: Tensor, scale: Tensor, dimension: int, groups: int) -> None:
    of = f"arg {dimension}"
    if matrix.dim() == 2:
        wanted = matrix.shape[dimension] * groups
        right, words = scale.dim() == 1, f"scale must be a 1D tensor, but got {scale.dim()}D, {of}"
        fits, length = scale.shape[:1] == (wanted,), f"scale must have the same length as mat for {of}"
    else:
        right, words = scale.dim() == 2, f"scale must be a 2D tensor, but got {scale.dim()}D for {of}"
        fits = scale.shape == (matrix.shape[0], matrix.shape[1 + dimension])
        length = f"scale must have the same first dimension as mat for {of}"
        if scale.shape[:1] != matrix.shape[:1]:
            length = f"scale must have the same batch dimension as mat for {of}"
    if not right or not fits:
        raise RuntimeError(length if right else words)


def _multiply(a: Tensor, b: Tensor, of_rows: Tensor, of_columns: Tensor) -> Tensor:
    made = a.to(torch.float32) @ b.to(torch.float32)
    return (made * of_rows.unsqueeze(-1) * of_columns.unsqueeze(-2)).to(torch.bfloat16)


def _scaled_grouped(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    capability = torch.cuda.get_device_capability(a.device)
    _check(
        capability in ((9, 0), (10, 0)),
        "torch._scaled_grouped_mm is only supported on CUDA devices with compute capability = [9.0, 10.0], or ROCm "
        "MI300+",
    )
    _check(not _is_transposed(a), "Expected mat1 to not be transposed")
    _check(_is_transposed(b), "Expected mat2 to be transposed")
    _check(a.dim() in (2, 3), "mat_a has to be 2 or 3d")
    _check(b.dim() in (2, 3), "mat_b has to be 2 or 3d")
    flat = a.dim() == 2, b.dim() == 2
    _check(all(flat) or a.shape[-1] == b.shape[-2], "contraction dimension of mat_a and mat_b must match")
    _check(
        a.shape[-1] % 16 == 0,
        f"Expected trailing dimension of mat_a to be divisible by 16 but got mat1 shape: ({list(a.shape)}).",
    )
    _check(
        b.shape[-2] % 16 == 0 and b.shape[-1] % 16 == 0,
        f"Expected mat_b shape to be divisible by 16 but got mat_b shape: ({list(b.shape)}).",
    )
    _check(bias is None, "Bias not supported yet")
    _check(scale_result is None, "Scale result not supported yet")
    _check((offs is not None) == any(flat), "Have to provide offsets if there is a 2d matrix")
    if offs is not None:
        _check(offs.dim() == 1, "offs has to be 1D")
        _check(offs.dtype is torch.int32, "Offsets have to be int32")
    if scale_a.dtype is not torch.float32 or scale_b.dtype is not torch.float32:
        raise NotImplementedError(
            f"_scaled_grouped_mm with scales of {scale_a.dtype} and {scale_b.dtype} is not available here; scales of "
            "float32, one for each row of the first matrices and each column of the second, are"
        )
    ends = offs.tolist() if offs is not None else []
    groups = len(ends) if all(flat) else 1
    _check_scale(a, scale_a, 0, groups)
    _check_scale(b, scale_b, 1, groups)
    _check(out_dtype in (None, torch.bfloat16), "Only bf16 high precision output types are supported for grouped gemm")
    if offs is None:
        return _multiply(a, b, scale_a, scale_b)
    parts = [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]
    if all(flat):
        scales = zip(scale_a.view(groups, -1), scale_b.view(groups, -1), strict=True)
        return torch.stack([_multiply(a[:, p], b[p], *s) for p, s in zip(parts, scales, strict=True)])
    if flat[0]:
        made = a.new_zeros(a.shape[0], b.shape[-1], dtype=torch.bfloat16)
        for i, part in enumerate(parts):
            made[part] = _multiply(a[part], b[i], scale_a[part], scale_b[i])
        return made
    made = a.new_zeros(a.shape[1], b.shape[1], dtype=torch.bfloat16)
    for i, part in enumerate(parts):
        made[:, part] = _multiply(a[i], b[:, part], scale_a[i], scale_b[part])
    return made


#: Kernels by the operator's name.
KERNELS: dict[str, Kernel] = {"_scaled_grouped_mm": _scaled_grouped}
