"""NCCL's rules with PyTorch's messages: accepted tensors, dtypes and reductions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _DistBackendError
from torch._C._distributed_c10d import ReduceOp

#: Allocates on a tensor's device, whatever the program's default device is.
new_empty: Any = torch._C.TensorBase.new_empty
_SINGLE = (
    "Expecting one tensor only but got multiple. You are probably using multiple devices under one thread. The support "
    "for such usage has been deprecated. For details, please refer to "
    "https://pytorch.org/docs/stable/distributed.html#multi-gpu-collective-functions. ProcessGroupNCCL continues "
    "supporting multi-process and multi-thread modes."
)
_FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
#: Sent as bytes: NVIDIA's GPUs do not compute with them.
_FOREIGN_FLOAT8 = frozenset({torch.float8_e4m3fnuz, torch.float8_e5m2fnuz})
_FACTORED = frozenset({torch.float16, torch.float32, torch.bfloat16, torch.float64})
_SENT = (
    frozenset({torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool}) | _FACTORED | _FLOAT8 | _FOREIGN_FLOAT8
)
#: The names of refused dtypes in PyTorch's C++.
_NAMES = {
    torch.int16: "Short",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
    torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}
_PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_Kind: Any = ReduceOp.RedOpType
_REDUCED = frozenset({_Kind.SUM, _Kind.PRODUCT, _Kind.MIN, _Kind.MAX})
#: Linear reductions, which apply to real and imaginary parts separately.
_COMPLEX = frozenset({_Kind.SUM, _Kind.AVG, _Kind.PREMUL_SUM})


def only(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the only tensor of a list."""
    if len(tensors) != 1:
        raise RuntimeError(_SINGLE)
    return tensors[0]


def check(*tensors: torch.Tensor) -> None:
    """Raise for tensors whose memory NCCL cannot send unchanged."""
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise ValueError("Tensors must be CUDA and dense")
        # Most are contiguous; another memory format is accepted, too.
        if not tensor.is_contiguous() and not _in_a_format(tensor):
            raise ValueError("Tensors must be contiguous")


def _in_a_format(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def check_sent(tensor: torch.Tensor) -> None:
    """Check a tensor that is sent to one other rank, which may be transposed."""
    if tensor.layout is not torch.strided:
        raise ValueError("Tensors must be CUDA and dense")
    if not tensor.is_contiguous() and not _in_a_format(tensor):
        if not dense(tensor):
            raise ValueError("Tensors for P2P must be non-overlapping and dense")
        warnings.warn(
            "Detected non-contiguous tensor in P2P operations. It is user responsibility to guarantee that source and "
            "destination tensors have the same contiguity format.",
            stacklevel=2,
        )


def check_alike(tensors: Sequence[torch.Tensor]) -> None:
    """Raise for tensors that cannot be in one call."""
    if not tensors:
        raise ValueError("Tensor list must be nonempty")
    first = tensors[0]
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise ValueError("Tensors must be CUDA and dense")
        if tensor.dtype != first.dtype:
            raise TypeError("Tensors must have identical type")
        if not dense(tensor):
            raise ValueError("Tensors must be non-overlapping and dense")
        if tensor.device != first.device:
            raise ValueError("Expected list of tensors on the same device")


def dense(tensor: torch.Tensor) -> bool:
    """Return whether its elements fill a contiguous memory range, in any order."""
    return torch.ops.aten.is_non_overlapping_and_dense(tensor)  # type: ignore[no-any-return]


def check_type(dtype: torch.dtype) -> None:
    """Raise for dtypes that NCCL does not send."""
    if dtype not in _SENT:
        name = _NAMES.get(dtype, str(dtype))
        raise TypeError(f"Input tensor data type is not supported for NCCL process group: {name}")


def parts(dtype: torch.dtype) -> torch.dtype:
    """Return the real dtype that a complex one is sent as."""
    return _PARTS.get(dtype, dtype)


def check_float8(dtype: torch.dtype) -> None:
    """Raise for dtypes that are sent, but not computed with."""
    if dtype in _FOREIGN_FLOAT8:
        raise RuntimeError("Unsupported Float8 type for NCCL reduction")


def real(tensor: torch.Tensor, kind: Any) -> torch.Tensor:
    """Return a complex tensor as its real and imaginary parts."""
    if not tensor.is_complex():
        return tensor
    if kind not in _COMPLEX:
        raise RuntimeError(f"all_reduce does not support{kind.name}on complex tensors")
    return torch.view_as_real(tensor)


def gloo_kind(kind: Any, dtype: torch.dtype) -> Any:
    """Return Gloo's reduction; Gloo has no averages, and adds booleans as numbers."""
    if dtype is torch.bool:
        if kind == _Kind.SUM:
            return _Kind.MAX
        if kind == _Kind.AVG:
            raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    if kind == _Kind.PREMUL_SUM:
        if dtype not in _FACTORED:
            raise TypeError("PreMulSum Data type must be half, float, bfloat16 or double")
        return _Kind.SUM
    if kind == _Kind.AVG:
        if dtype in _FLOAT8:
            raise _DistBackendError(
                "NCCL error in: ProcessGroupNCCL.cpp, invalid argument (run with NCCL_DEBUG=WARN for details)"
            )
        return _Kind.SUM
    if kind not in _REDUCED:
        raise ValueError(f"Cannot use ReduceOp.{kind.name} with NCCL")
    return kind


def computed(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which the host reduces."""
    if dtype in _FLOAT8:
        return torch.float32
    return torch.uint8 if dtype is torch.bool else dtype


def check_root(
    call: str,
    what: str,
    lists: Sequence[Sequence[torch.Tensor]],
    tensor: torch.Tensor,
    rank: int,
    size: int,
    root: int,
) -> list[torch.Tensor]:
    """Return the list that only the root of a gather or scatter has; raise if it is invalid."""
    words = f"ProcessGroupNCCL::{call}: "
    if not 0 <= root < size:
        raise ValueError(f"{words}invalid root rank: {root}")
    if rank != root:
        if lists:
            raise ValueError(f"{words}requires empty {what} on non-root")
        return []
    if len(lists) != 1:
        raise ValueError(f"{words}requires a single-element {what} list containing a list with {size} tensors.")
    if len(lists[0]) != size:
        raise ValueError(
            f"{words}Incorrect {what} list size {len(lists[0])}. {what.capitalize()} list size should be {size}, "
            "same as size of the process group."
        )
    for index, one in enumerate(lists[0]):
        if one.dtype != tensor.dtype or one.device != tensor.device:
            raise ValueError(f"{words}invalid tensor type at index {index} (expected {tensor.dtype}, got {one.dtype})")
        if one.shape != tensor.shape:
            raise ValueError(
                f"{words}invalid tensor size at index {index} (expected {_sizes(tensor)}, got {_sizes(one)})"
            )
    return list(lists[0])


def _sizes(tensor: torch.Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def check_splits(tensor: torch.Tensor, splits: Sequence[int], size: int, even: bool) -> list[int]:
    """Check how many elements each rank sends or receives."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if splits:
        if len(splits) != size:
            raise RuntimeError("Number of tensor splits not equal to group size")
        if sum(splits) != rows:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        width = tensor.numel() // rows if rows else 1
        return [count * width for count in splits]
    if not even and rows % size:
        raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
    return [tensor.numel() // size] * size


def same_sizes(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether all tensors have one shape."""
    return all(tensor.shape == tensors[0].shape for tensor in tensors)


def stack(outputs: Sequence[torch.Tensor], given: torch.Tensor) -> torch.Tensor:
    """Return the tensor in which NCCL gathers, for outputs of one shape."""
    stacked: torch.Tensor = new_empty(given, (len(outputs), *outputs[0].shape))
    return stacked
