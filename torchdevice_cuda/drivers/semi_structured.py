"""2:4 sparsity: the operators of cuSPARSELt and CUTLASS, which keep two of four values.

The compressed tensors have CUDA's shapes. cuSPARSELt's has the kept values first, then two bits of position for each;
the order of these bits is ours, since NVIDIA's is not published. CUTLASS's is the one that torch.sparse converts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
Tensor = torch.Tensor
Kernel = Callable[..., Any]
_HALVES = (torch.float16, torch.bfloat16)
_BYTES = (torch.int8, torch.float8_e4m3fn)
#: What cuSPARSELt takes, and the other types of results that it gives.
_RESULTS: dict[torch.dtype, tuple[tuple[torch.dtype, ...], str]] = {
    torch.int8: (
        (torch.float16, torch.bfloat16, torch.int32),
        "Unsupported out_dtype passed, must be one of {fp16, bf16, int32} for int8 inputs",
    ),
    torch.float8_e4m3fn: (
        (torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float32),
        "Unsupported out_dtype passed, must be one of {fp16, bf16, float32} for fp8 inputs",
    ),
    torch.float16: ((), "out_dtype support only available for int8/fp8 inputs"),
    torch.bfloat16: ((), "out_dtype support only available for int8/fp8 inputs"),
    torch.float32: ((), "out_dtype support only available for int8/fp8 inputs"),
}
#: A warp's part of a matrix, and a thread's.
_WARP_ROWS, _WARP_COLUMNS, _THREAD = 32, 64, 8


# ---- which two of four, and their positions
def _pack(dense: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Return two values of each four, zero where fewer are kept, and their positions."""
    fours, kept = dense.unflatten(1, (-1, 4)), kept.unflatten(1, (-1, 4))
    positions = (~kept).to(torch.uint8).sort(dim=-1, stable=True).indices[..., :2].sort(dim=-1).values
    # Float8 can be moved but not multiplied.
    bits = fours.view(torch.uint8) if fours.dtype is torch.float8_e4m3fn else fours
    values = (bits * kept.to(bits.dtype)).gather(-1, positions)
    return values.flatten(1).view(dense.dtype), positions.flatten(1)


def _unpack(values: Tensor, positions: Tensor) -> Tensor:
    """Return the dense matrix, in a type that can be multiplied."""
    wide = values.to(torch.float32) if values.dtype in _BYTES else values
    fours = wide.new_zeros(values.shape[0], values.shape[1] // 2, 4)
    return fours.scatter_(-1, positions.unflatten(1, (-1, 2)), wide.unflatten(1, (-1, 2))).flatten(1)


def _compressed(values: Tensor, positions: Tensor) -> Tensor:
    """Return cuSPARSELt's tensor: values, then positions, four in a byte; rows of it are no rows of the matrix."""
    fours = positions.to(torch.uint8).reshape(-1, 4)
    packed = fours[:, 0] | fours[:, 1] << 2 | fours[:, 2] << 4 | fours[:, 3] << 6
    return torch.cat([values.contiguous().view(torch.uint8).flatten(), packed]).view(values.dtype)


def _decompressed(compressed: Tensor, rows: int, columns: int) -> Tensor:
    flat, kept = compressed.contiguous().flatten(), rows * columns // 2
    values, packed = flat[:kept].view(rows, columns // 2), flat[kept:].view(torch.uint8)[: kept // 4]
    positions = torch.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], -1)
    return _unpack(values, positions.view(rows, columns // 2).long())


# ---- cuSPARSELt
def _compress(input: Tensor) -> Tensor:
    if input.dtype not in _RESULTS:
        raise RuntimeError("Unsupported dtype for cuSPARSELt/hipSparseLt compressed matrix")
    flat = _compressed(*_pack(input, input.to(torch.float32) != 0))
    wanted = -(-flat.numel() // input.shape[0]) * input.shape[0]
    return torch.cat([flat, flat.new_empty(wanted - flat.numel())]).view(input.shape[0], -1)


def _sparse_product(
    compressed: Tensor,
    dense: Tensor,
    bias: Tensor | None = None,
    alpha: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    transpose_result: bool = False,
    *how: int,
) -> Any:
    dtype = compressed.dtype
    if dtype not in _RESULTS:
        raise RuntimeError("Unsupported dtype for cuSPARSELt compressed matrix multiplication.")
    allowed, words = _RESULTS[dtype]
    if out_dtype is not None and out_dtype not in allowed:
        raise RuntimeError(words)
    if dtype in _BYTES and dense.is_contiguous():
        raise RuntimeError(
            "CUDA error: operation not supported when calling `cusparseLtMatmulDescriptorInit(...)`: products of "
            f"{dtype} take a dense matrix that is transposed, as b.t().contiguous().t()"
        )
    columns, rows = dense.shape[0], compressed.shape[0]
    # Sums of signed bytes are exact in float64.
    wide = torch.float64 if dtype is torch.int8 else torch.float32
    product = _decompressed(compressed, rows, columns).to(wide) @ dense.to(wide)
    if alpha is not None:
        product = product * (alpha if alpha.numel() == 1 else alpha.view(-1, 1)).to(wide)
    if bias is not None:
        product = product + bias.view(-1, 1).to(wide)
    out_dtype = out_dtype or dense.dtype
    if not out_dtype.is_floating_point:
        limits = torch.iinfo(out_dtype)
        product = product.round().clamp(limits.min, limits.max)
    return (product.t() if transpose_result else product).contiguous().to(out_dtype)


def _search(*arguments: Any) -> int:
    _sparse_product(*arguments)
    return 0


# ---- 4 x 4 tiles, of which rows and columns keep two values each
def _choose(scores: Tensor, most_of_row: tuple[int, ...], by_row: bool) -> Tensor:
    """Return which values of the tiles are kept, the largest first; row after row, or all of a tile at once."""
    tiles = scores.shape[0]
    kept = torch.zeros_like(scores, dtype=torch.bool)
    in_row = torch.zeros(tiles, 4, dtype=torch.long, device=scores.device)
    in_column = torch.zeros_like(in_row)
    most = torch.tensor(most_of_row, device=scores.device).expand(tiles, 4)
    together = 4 if by_row else 16
    ranked = scores.unflatten(1, (-1, together)).sort(dim=-1, stable=True).indices.flip(-1)
    order: Tensor = ranked + torch.arange(0, 16, together, device=scores.device).unsqueeze(1)
    for index in order.flatten(1).split(1, 1):
        row, column = index // 4, index % 4
        taken = (in_row.gather(1, row) < most.gather(1, row)) & (in_column.gather(1, column) < 2)
        kept.scatter_(1, index, taken)
        in_row.scatter_add_(1, row, taken.long())
        in_column.scatter_add_(1, column, taken.long())
    return kept


_ALGORITHMS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda tiles: _choose(tiles, (2, 2, 2, 2), False),
    "largest_values_greedy": lambda tiles: _choose(tiles, (2, 2, 2, 2), False),
    "largest_abs_values_greedy": lambda tiles: _choose(tiles.abs(), (2, 2, 2, 2), False),
    "causal1122": lambda tiles: _choose(tiles, (1, 1, 2, 2), True),
}


def _tiles(matrix: Tensor) -> Tensor:
    return matrix.view(matrix.shape[0] // 4, 4, -1, 4).transpose(1, 2).reshape(-1, 16)


def _of_threads(kept: Tensor) -> Tensor:
    """Return the mask of bits of each thread: four tiles of two bytes, the lowest bit first."""
    tiles = kept.unflatten(1, (-1, 2, 4)).unflatten(0, (-1, 2, 4)).permute(0, 3, 1, 4, 2, 5)
    bits = tiles.reshape(*tiles.shape[:2], 8, 8).to(torch.uint8)
    shifts = torch.arange(8, dtype=torch.uint8, device=kept.device)
    return torch.bitwise_left_shift(bits, shifts).sum(-1, dtype=torch.uint8)


def _from_threads(masks: Tensor, rows: int, columns: int) -> Tensor:
    bits = masks.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=masks.device) & 1
    tiles = bits.view(*masks.shape[:2], 2, 2, 4, 4).permute(0, 2, 4, 1, 3, 5)
    return tiles.reshape(masks.shape[0] * _THREAD, masks.shape[1] * _THREAD)[:rows, :columns].bool()


def _padded(matrix: Tensor) -> Tensor:
    rows, columns = matrix.shape
    return torch.nn.functional.pad(matrix, (0, -columns % _WARP_COLUMNS, 0, -rows % _WARP_ROWS))


def _tile(input: Tensor, algorithm: str = "", use_cutlass: bool = True) -> Any:
    if input.dtype not in _HALVES:
        raise RuntimeError(torch.empty((), dtype=input.dtype).type().removeprefix("torch.").removesuffix("Tensor"))
    if input.dim() != 2:
        raise RuntimeError("Can only sparsify 2d tensors")
    if input.stride(1) != 1:
        raise RuntimeError("Can only sparsify contiguous tensors. Sparsify the transpose otherwise.")
    rows, columns = input.shape
    if not use_cutlass and (rows % 128 or columns % 128):
        raise RuntimeError("Only supports rows/cols multiples of 128")
    if columns % 32:
        raise RuntimeError("Number of cols should be multiple of 32")
    if algorithm not in _ALGORITHMS:
        raise RuntimeError(f'Unknown algorithm "{algorithm}"')
    whole = _padded(input)
    chosen = _ALGORITHMS[algorithm](_tiles(whole).float()).view(whole.shape[0] // 4, -1, 4, 4)
    kept = chosen.permute(0, 2, 1, 3).reshape(whole.shape)
    form = _as_cutlass if use_cutlass else _as_cusparselt
    transposed = form(_padded(input.t()), _padded(kept[:rows, :columns].t()))
    return (*form(whole, kept), *transposed, _of_threads(kept))


def _as_cusparselt(dense: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    storage = _compressed(*_pack(dense, kept))
    return storage, storage[dense.numel() // 2 :].view(dense.shape[0] // 128, dense.shape[1] // 32, 256)


def _as_cutlass(dense: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    from torch.sparse._semi_structured_conversions import _calculate_meta_reordering_scatter_offsets

    values, positions = _pack(dense, kept)
    rows, columns = dense.shape
    codes = positions.reshape(rows, columns // 16, 8)
    meta = (codes << torch.arange(0, 16, 2, device=codes.device)).sum(-1).to(torch.int16)
    offsets = _calculate_meta_reordering_scatter_offsets(rows, columns // 16, torch.int16, dense.device)
    reordered = meta.new_empty(meta.numel()).scatter_(0, offsets.view(-1), meta.flatten())
    return values, reordered.view(columns // 32, rows, 2).permute(1, 2, 0)


def _apply(input: Tensor, thread_masks: Tensor) -> Any:
    kept = _from_threads(thread_masks, *input.shape)
    return _pack(input, kept)[0], _pack(input.t(), kept.t())[0]


def _apply_dense(input: Tensor, thread_masks: Tensor) -> Any:
    if input.dtype not in _HALVES:
        raise RuntimeError("Unsupported `input` dtype")
    return (input * _from_threads(thread_masks, *input.shape)).contiguous()


# ---- CUTLASS
_IN_CPP = {
    torch.int8: "signed char",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.float32: "float",
}


def _refusal(why: str) -> RuntimeError:
    return RuntimeError(f"sparse_semi_structured_mad_op : {why}")


def _multiplied(values: Tensor, meta: Tensor, dense: Tensor) -> Tensor:
    """Return the product as it is accumulated, before it is rounded."""
    from torch.sparse._semi_structured_conversions import sparse_semi_structured_to_dense_cutlass

    if torch.cuda.get_device_capability(values.device)[0] != 8:
        raise _refusal("Supported only on GPUs with compute capability 8.x")
    if dense.dtype not in _IN_CPP:
        raise _refusal(f"The mat2 datatype {dense.dtype} is not supported")
    if values.dtype is not dense.dtype:
        got = _IN_CPP.get(values.dtype, values.dtype)
        raise _refusal(f"Expected mat1 datatype {_IN_CPP[dense.dtype]}, but got {got}")
    if values.shape[1] != dense.shape[0] // 2:
        raise _refusal(f"Expected mat1 argument to have {dense.shape[0] // 2} columns, but got {values.shape[1]}")
    if dense.dtype is torch.int8 and dense.stride(1) == 1:
        raise RuntimeError(
            "spgemm_cutlass_dispatch_layouts: Combination of row-major and row-major layouts for input tensors is not "
            "supported"
        )
    if meta.dim() == 3:  # as _sparse_semi_structured_tile lays it out
        meta = meta.permute(2, 0, 1).reshape(values.shape[0], -1)
    unpacked: Tensor = sparse_semi_structured_to_dense_cutlass(values.contiguous(), meta.contiguous())
    exact = torch.float64 if dense.dtype is torch.int8 else torch.float32
    return unpacked.to(exact) @ dense.to(exact)


def _cutlass_mm(mat1: Tensor, mat1_meta: Tensor, mat2: Tensor, *, out_dtype: torch.dtype | None = None) -> Any:
    return _multiplied(mat1, mat1_meta, mat2).to(out_dtype or mat2.dtype)


def _cutlass_addmm(
    input: Tensor,
    mat1: Tensor,
    mat1_meta: Tensor,
    mat2: Tensor,
    *,
    alpha: Any = 1,
    beta: Any = 1,
    out_dtype: torch.dtype | None = None,
) -> Any:
    product = _multiplied(mat1, mat1_meta, mat2)
    return (alpha * product + beta * input.unsqueeze(-1).to(product.dtype)).to(out_dtype or mat2.dtype)


#: Kernels by the operator's name.
KERNELS: dict[str, Kernel] = {
    "_cslt_compress": _compress,
    "_cslt_sparse_mm": _sparse_product,
    "_cslt_sparse_mm_search": _search,
    "_sparse_semi_structured_tile": _tile,
    "_sparse_semi_structured_apply": _apply,
    "_sparse_semi_structured_apply_dense": _apply_dense,
    "_sparse_semi_structured_mm": _cutlass_mm,
    "_sparse_semi_structured_addmm": _cutlass_addmm,
}
