"""2:4 sparsity: compressed matrices multiply as their dense ones, tiles keep what CUDA's algorithms keep."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from harness import VIRTUAL, child
from torch.sparse import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

AMPERE, HOPPER = VIRTUAL.with_settings(gpu="a100-80"), VIRTUAL.with_settings(gpu="h200")


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of SparseSemiStructuredTensor")
        yield


def sparse(dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return (torch.tensor([0, 3, 0, -2]).tile((128, 32)) * torch.randint(1, 5, (128, 128))).to(dtype).cuda()


@child(AMPERE)
def test_both_libraries_multiply_as_dense() -> None:
    a, b, bias = sparse(), torch.randn(128, 64).half().cuda(), torch.randn(128).half().cuda()
    for cutlass in (False, True):
        SparseSemiStructuredTensor._FORCE_CUTLASS = cutlass
        made = to_sparse_semi_structured(a)
        assert isinstance(made, SparseSemiStructuredTensorCUTLASS if cutlass else SparseSemiStructuredTensorCUSPARSELT)
        assert made.packed.shape == (128, 64 if cutlass else 72)  # cuSPARSELt's has the positions too
        assert torch.equal(made.to_dense(), a)
        torch.testing.assert_close(torch.mm(made, b), torch.mm(a, b))
        linear = torch.nn.functional.linear
        torch.testing.assert_close(linear(b.t().contiguous(), made, bias), linear(b.t().contiguous(), a, bias))


@child(HOPPER)
def test_cutlass_refuses_other_gpus_as_on_cuda() -> None:
    SparseSemiStructuredTensor._FORCE_CUTLASS = True
    made = to_sparse_semi_structured(sparse())
    with pytest.raises(RuntimeError, match="Supported only on GPUs with compute capability 8.x"):
        torch.mm(made, torch.ones(128, 64).half().cuda())


@child(HOPPER)
def test_products_of_bytes_have_other_results() -> None:
    a, b = sparse(torch.int8), torch.randint(-9, 9, (64, 128)).to(torch.int8).cuda().t()
    right = a.cpu().double() @ b.cpu().double()
    packed = torch._cslt_compress(a)
    assert packed.shape == (128, 80)
    assert torch.equal(torch._cslt_sparse_mm(packed, b, out_dtype=torch.int32).cpu().double(), right)
    assert torch.equal(torch._cslt_sparse_mm(packed, b).cpu().double(), right.clamp(-128, 127))
    scaled = torch._cslt_sparse_mm(
        packed, b, alpha=torch.arange(128.0).cuda(), out_dtype=torch.bfloat16, transpose_result=True
    )
    torch.testing.assert_close(scaled.cpu().double(), (right * torch.arange(128.0)[:, None]).t(), rtol=1e-2, atol=0)
    with pytest.raises(RuntimeError, match="operation not supported when calling `cusparseLtMatmulDescriptorInit"):
        torch._cslt_sparse_mm(packed, b.contiguous(), out_dtype=torch.int32)
    with pytest.raises(RuntimeError, match="must be one of {fp16, bf16, int32} for int8 inputs"):
        torch._cslt_sparse_mm(packed, b, out_dtype=torch.float64)
    with pytest.raises(RuntimeError, match="out_dtype support only available for int8/fp8 inputs"):
        torch._cslt_sparse_mm(torch._cslt_compress(a.half()), b.half(), out_dtype=torch.float32)
    assert torch._C._cusparselt.mm_search(packed, b, None, None, torch.int32, False)[:2] == (0, 1)


def greedy(tile: list[list[float]]) -> set[tuple[int, int]]:
    kept: set[tuple[int, int]] = set()
    for _, r, c in sorted((-tile[r][c], r, c) for r in range(4) for c in range(4)):
        if sum(x == r for x, _ in kept) < 2 and sum(y == c for _, y in kept) < 2:
            kept.add((r, c))
    return kept


@child(AMPERE)
def test_tiles_keep_the_largest_of_rows_and_columns() -> None:
    dense = torch.randperm(128 * 256).view(128, 256).half().cuda() / 1000
    dense = dense + torch.arange(256, device="cuda").half() / 64
    identity = torch.eye(256).half().cuda()
    for kind in (SparseSemiStructuredTensorCUTLASS, SparseSemiStructuredTensorCUSPARSELT):
        made = kind.prune_dense_static_sort(dense, algorithm="largest_abs_values_greedy")
        pruned = torch.mm(made, identity)
        tile, kept = dense[4:8, 8:12].tolist(), pruned[4:8, 8:12] != 0
        if len({x for row in tile for x in row}) == 16:  # ties are CUDA's own
            assert {(r, c) for r in range(4) for c in range(4) if kept[r, c]} == greedy(tile)
        there = pruned != 0
        assert torch.equal(pruned[there], dense[there])
        for counted in (there, there.t()):
            assert counted.reshape(-1, 4).sum(1).max() == 2
        torch.testing.assert_close(torch.mm(made.t(), torch.eye(128).half().cuda()), pruned.t())
        # The mask of the threads prunes another matrix alike, as the backward pass does.
        ones = torch._sparse_semi_structured_apply_dense(torch.ones_like(dense), made.compressed_swizzled_bitmask)
        assert torch.equal(ones != 0, there)
    causal = SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort(dense, algorithm="causal1122")
    rows = (torch.mm(causal, identity) != 0).view(-1, 4, 64, 4).sum(-1)
    assert torch.equal(rows.amax((0, 2)).cpu(), torch.tensor([1, 1, 2, 2]))
    with pytest.raises(RuntimeError, match='Unknown algorithm "best"'):
        torch._sparse_semi_structured_tile(dense, algorithm="best")
