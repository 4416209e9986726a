"""Operators that CUDA computes otherwise than the CPU, or alone: expected values by arithmetic in float64."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child

H200 = VIRTUAL.with_settings(gpu="h200")


@child(VIRTUAL)
def test_an_activation_after_a_product_is_cublas() -> None:
    bias, a, b = torch.randn(7), torch.randn(5, 3), torch.randn(3, 7)
    product = torch.addmm(bias.double(), a.double(), b.double())
    for use_gelu, right in ((True, torch.nn.functional.gelu(product, approximate="tanh")), (False, product.relu())):
        made = torch._addmm_activation(bias.cuda(), a.cuda(), b.cuda(), use_gelu=use_gelu)
        torch.testing.assert_close(made.cpu().double(), right, atol=1e-6, rtol=1e-5)
        out = torch.empty(0, device="cuda")
        torch._addmm_activation(bias.cuda(), a.cuda(), b.cuda(), use_gelu=use_gelu, out=out)
        assert torch.equal(out, made)


@child(VIRTUAL)
def test_gradients_of_an_embedding_are_added_in_float32() -> None:
    rows = torch.randint(0, 5, (3000,))
    for dtype in (torch.float16, torch.bfloat16):
        grad = torch.randn(3000, 8).to(dtype)
        made = torch.ops.aten.embedding_dense_backward(grad.cuda(), rows.cuda(), 5, -1, False)
        right = torch.zeros(5, 8).index_add(0, rows, grad.float())
        torch.testing.assert_close(made.cpu(), right.to(dtype), atol=0, rtol=2 * torch.finfo(dtype).eps)


@child(VIRTUAL)
def test_batch_norm_of_cudnn_saves_nothing_outside_training() -> None:
    x, one, zero = torch.randn(2, 3, 4, 4, device="cuda"), torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    evaluated = torch.cudnn_batch_norm(x, one, zero, zero, one, False, 0.1, 1e-5)
    assert [saved.numel() for saved in evaluated[1:]] == [0, 0, 0]
    trained = torch.cudnn_batch_norm(x, one, zero, zero.clone(), one.clone(), True, 0.1, 1e-5)
    assert [saved.numel() for saved in trained[1:3]] == [3, 3]


@child(VIRTUAL)
def test_a_program_gives_an_operator_its_kernel_for_cuda() -> None:
    library = torch.library.Library("of_a_program", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    assert not has("of_a_program::twice", "CUDA")
    library.impl("twice", lambda x: 2 * x, "CUDA")
    assert has("of_a_program::twice", "CUDA") and has("aten::add.Tensor", "CUDA") and has("aten::matmul", "CUDA")
    library._destroy()


@child(VIRTUAL)
def test_sparse_tensors_are_checked() -> None:
    with torch.sparse.check_sparse_tensor_invariants():
        indices = torch.tensor([[0, 0, 2], [1, 3, 0]], device="cuda")
        made = torch.sparse_coo_tensor(indices, torch.arange(3.0, device="cuda"), (3, 4), is_coalesced=True)
        assert made.to_dense()[2, 0] == 2
        with pytest.raises(RuntimeError, match="cannot set is_coalesced to true if indices correspond to uncoalesced"):
            torch.sparse_coo_tensor(indices.flip(1), torch.arange(3.0, device="cuda"), (3, 4), is_coalesced=True)


@child(H200)
def test_groups_of_float8_matrices_are_multiplied() -> None:
    e4m3, ends = torch.float8_e4m3fn, torch.tensor([16, 48], dtype=torch.int32, device="cuda")
    a, b = torch.randn(48, 32).to(e4m3), torch.randn(2, 64, 32).to(e4m3)
    of_a, of_b = torch.rand(48), torch.rand(2, 64)
    given = a.cuda(), b.cuda().transpose(1, 2), of_a.cuda(), of_b.cuda()
    made = torch._scaled_grouped_mm(*given, offs=ends, out_dtype=torch.bfloat16)
    parts = [
        (a[part].double() @ b[i].double().t()) * of_a[part, None] * of_b[i]
        for i, part in enumerate((slice(0, 16), slice(16, 48)))
    ]
    assert made.dtype is torch.bfloat16
    torch.testing.assert_close(made.cpu().double(), torch.cat(parts), atol=1e-2, rtol=1e-2)
    both = torch._scaled_grouped_mm(
        a.cuda().view(2, 24, 32)[:, :16].contiguous(), given[1], of_a.cuda()[:32].view(2, 16), of_b.cuda()
    )
    right = torch.stack([a.view(2, 24, 32)[i, :16].double() @ b[i].double().t() for i in range(2)])
    right = right * of_a[:32].view(2, 16, 1) * of_b.view(2, 1, 64)
    torch.testing.assert_close(both.cpu().double(), right, atol=1e-2, rtol=1e-2)
    # The offsets divide what is multiplied: columns of the first matrices, rows of the second.
    x, y = torch.randn(16, 64).to(e4m3), torch.randn(32, 64).to(e4m3)
    of_x, of_y = torch.rand(32), torch.rand(64)
    ends = torch.tensor([16, 64], dtype=torch.int32, device="cuda")
    summed = torch._scaled_grouped_mm(x.cuda(), y.cuda().t(), of_x.cuda(), of_y.cuda(), offs=ends)
    right = torch.stack([x[:, p].double() @ y[:, p].double().t() for p in (slice(0, 16), slice(16, 64))])
    right = right * of_x.view(2, 16, 1) * of_y.view(2, 1, 32)
    torch.testing.assert_close(summed.cpu().double(), right, atol=1e-2, rtol=1e-2)
    for wrong, words in (
        ((given[0], given[1].transpose(1, 2), *given[2:]), "Expected mat2 to be transposed"),
        ((given[0], *given[1:]), "Have to provide offsets if there is a 2d matrix"),
    ):
        with pytest.raises(ValueError, match=words):
            torch._scaled_grouped_mm(*wrong)


@child(VIRTUAL.with_settings(gpu="a100-80"))
def test_groups_of_float8_matrices_need_a_hopper() -> None:
    a = torch.zeros(16, 16, device="cuda").to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=r"only supported on CUDA devices with compute capability = \[9.0, 10.0\]"):
        torch._scaled_grouped_mm(a, a.t(), a, a)
