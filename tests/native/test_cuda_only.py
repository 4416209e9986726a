"""Operators that CUDA builds have for CUDA alone: a kernel, checked against PyTorch's own, or words that name them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import affine_grid, grid_sample, linear, scaled_dot_product_attention

pytestmark = child(VIRTUAL)
aten = torch.ops.aten


def _made(*sizes: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Create equal tensors on the host and on the device."""
    host = torch.randn(*sizes).to(dtype)
    return host.requires_grad_(grad), host.detach().cuda().requires_grad_(grad)


def _same(host: torch.Tensor, device: torch.Tensor, *pairs: tuple[torch.Tensor, torch.Tensor], **how: Any) -> None:
    """Results agree, and so do the gradients of what they were made from."""
    assert device.is_cuda
    torch.testing.assert_close(device.cpu(), host, **how)
    weights = torch.randn_like(host)
    host.backward(weights)
    device.backward(weights.cuda())
    for a, b in pairs:
        torch.testing.assert_close(b.grad.cpu(), a.grad, **how)


@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(affine: bool) -> None:
    torch.manual_seed(0)
    x, there = _made(3, 5, 4, 6)
    host = torch.nn.RMSNorm((4, 6), elementwise_affine=affine)
    device = torch.nn.RMSNorm((4, 6), elementwise_affine=affine, device="cuda")
    parameters = zip(host.parameters(), device.parameters(), strict=True)
    _same(host(x), device(there), (x, there), *parameters)


def test_fused_rms_norm_of_a_half() -> None:
    x, there = _made(5, 8, dtype=torch.bfloat16)
    _same(torch.nn.RMSNorm(8)(x), torch.nn.RMSNorm(8, device="cuda")(there), (x, there), rtol=2e-2, atol=2e-2)


def test_convolutions_of_cudnn() -> None:
    (x, xd), (w, wd), (z, _) = _made(2, 4, 8, 8), _made(6, 4, 3, 3), _made(2, 6, 8, 8)
    places = ([1, 1], [1, 1], [1, 1], 1)
    expected = torch.conv2d(x, w, None, 1, 1)
    _same(expected, torch.cudnn_convolution(xd, wd, *places, False, False, True), (x, xd), (w, wd))
    with torch.no_grad():
        relu = torch.cudnn_convolution_relu(xd, wd, None, *places)
        add = torch.cudnn_convolution_add_relu(xd, wd, z.cuda(), 0.5, None, *places)
    torch.testing.assert_close(relu.cpu(), expected.relu())
    torch.testing.assert_close(add.cpu(), (expected + 0.5 * z).relu())


def test_transposed_convolution_of_cudnn() -> None:
    (x, xd), (w, wd) = _made(2, 4, 5, 5), _made(4, 3, 3, 3)
    made = torch.cudnn_convolution_transpose(xd, wd, [1, 1], [0, 0], [2, 2], [1, 1], 1, False, False, True)
    _same(torch.conv_transpose2d(x, w, None, 2, 1), made, (x, xd), (w, wd))


def test_depthwise_convolution() -> None:
    (x, xd), (w, wd) = _made(2, 4, 8, 8, grad=False), _made(4, 1, 3, 3, grad=False)
    made = aten._conv_depthwise2d(xd, wd, [3, 3], None, [1, 1], [1, 1], [1, 1])
    torch.testing.assert_close(made.cpu(), torch.conv2d(x, w, None, 1, 1, 1, 4))


def test_batch_norm_of_cudnn() -> None:
    (x, xd), (w, wd), (b, bd) = _made(4, 3, 5, 5), _made(3), _made(3)
    host = torch.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False)
    _same(host, torch.cudnn_batch_norm(xd, wd, bd, None, None, True, 0.1, 1e-5)[0], (x, xd), (w, wd), (b, bd))


def test_sampling_of_cudnn() -> None:
    (x, xd), (theta, thetad) = _made(2, 3, 6, 6), _made(2, 2, 3)
    host = grid_sample(x, affine_grid(theta, [2, 3, 4, 4], align_corners=True), align_corners=True)
    device = torch.cudnn_grid_sampler(xd, torch.cudnn_affine_grid_generator(thetad, 2, 3, 4, 4))
    _same(host, device, (x, xd), (theta, thetad))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_into_another_type(dtype: str) -> None:
    a, b, c = (torch.randn(3, 4, 4).to(getattr(torch, dtype)).cuda() for _ in range(3))
    wide = torch.bmm(a.float(), b.float())
    out = torch.empty(0, device="cuda")
    for made, expected in (
        (torch.mm(a[0], b[0], out_dtype=torch.float32), wide[0]),
        (torch.mm(a[0], b[0], out_dtype=torch.float32, out=out), wide[0]),
        (torch.bmm(a, b, out_dtype=torch.float32), wide),
        (torch.addmm(c[0], a[0], b[0], out_dtype=torch.float32), wide[0] + c[0]),
        (torch.baddbmm(c, a, b, out_dtype=torch.float32, beta=2), wide + 2 * c),
    ):
        assert made.dtype == torch.float32
        torch.testing.assert_close(made, expected)
    with pytest.raises(RuntimeError, match="out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs"):
        torch.mm(a[0], b[0], out_dtype=torch.float64)
    with pytest.raises(RuntimeError, match="input dtypes must be the same"):
        torch.mm(a[0], b[0].float(), out_dtype=torch.float32)


def test_weights_of_four_bits() -> None:
    torch.manual_seed(0)
    n, k, group = 16, 128, 32
    levels = torch.randint(16, (n, k))
    scales, zeros = torch.rand(k // group, n) / 8, torch.rand(k // group, n)
    packed = aten._convert_weight_to_int4pack((levels[:, ::2] << 4 | levels[:, 1::2]).to(torch.uint8).cuda(), 4)
    assert packed.shape == (n // 8, k // 64, 32, 2)
    both = torch.stack([scales, zeros], -1).bfloat16().cuda()
    x = torch.randn(3, k, dtype=torch.bfloat16).cuda()
    grouped = (levels.view(n, -1, group).cuda() - 8) * both[..., 0].t()[..., None] + both[..., 1].t()[..., None]
    made = aten._weight_int4pack_mm(x, packed, group, both)
    torch.testing.assert_close(made, linear(x.float(), grouped.view(n, k).float()).bfloat16(), rtol=2e-2, atol=0.3)


# ----------------------------------------------------------------------------- attention
@pytest.mark.parametrize("causal", [True, False])
def test_attention_of_cudnn(causal: bool) -> None:
    pairs = [_made(2, 3, 5, 8) for _ in range(3)]
    host = scaled_dot_product_attention(*(a for a, _ in pairs), is_causal=causal)
    device = aten._scaled_dot_product_cudnn_attention(*(b for _, b in pairs), None, True, 0.0, causal)[0]
    _same(host, device, *pairs)


@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_of_packed_sequences(causal: bool) -> None:
    pairs = [_made(9, heads, 8, dtype=torch.bfloat16) for heads in (4, 2, 2)]
    starts = [0, 4, 9]
    parts = []
    for a, b in zip(starts, starts[1:], strict=False):
        q, k, v = (host[a:b].transpose(0, 1) for host, _ in pairs)
        parts.append(scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True).transpose(0, 1))
    offsets = torch.tensor(starts, dtype=torch.int32, device="cuda")
    made = aten._flash_attention_forward(*(b for _, b in pairs), offsets, offsets, 5, 5, 0.0, causal, False)
    assert made[1].shape == (4, 9)
    _same(torch.cat(parts), made[0], *pairs, rtol=5e-2, atol=5e-2)


def test_flash_attention_of_few_queries_is_aligned_with_the_last_key() -> None:
    q, k, v = (torch.randn(1, length, 2, 8, device="cuda").half() for length in (2, 5, 5))
    made = aten._flash_attention_forward(q, k, v, None, None, 2, 5, 0.0, True, False)[0]
    mask = torch.ones(2, 5, dtype=torch.bool, device="cuda").tril(3)
    expected = scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), attn_mask=mask)
    torch.testing.assert_close(made, expected.transpose(1, 2), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", [0, 1])
def test_efficient_attention(kind: int) -> None:
    pairs = [_made(2, 5, 3, 8) for _ in range(3)]
    host = scaled_dot_product_attention(*(a.transpose(1, 2) for a, _ in pairs), is_causal=kind == 1).transpose(1, 2)
    made = aten._efficient_attention_forward(*(b for _, b in pairs), None, None, None, None, None, 0.0, kind, True)[0]
    _same(host, made, *pairs)


# ------------------------------------------------------------------------ every other one
#: Where a CUDA build has kernels for CUDA alone.
KEYS = {"CUDA": "CPU", "SparseCUDA": "SparseCPU", "SparseCsrCUDA": "SparseCsrCPU"}


def test_no_kernel_that_needs_a_gpu_is_called() -> None:
    """A kernel of the CUDA build that is still there would ask NVIDIA's driver. Those for MIOpen only refuse."""
    library, left = "RegisterCUDA", []
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and not name.startswith("aten::miopen_"):
            rows = torch._C._dispatch_dump(name).splitlines()
            inherited = [row for row in rows if row.startswith(tuple(f"{key}:" for key in KEYS)) and library in row]
            left += [name for row in inherited if "(inactive)" not in row]
    assert left == []


def test_composites_have_gradients() -> None:
    """A kernel for the whole of one, and no gradient for the whole, would leave it without. Indices have none."""
    has, whole = torch._C._dispatch_has_kernel_for_dispatch_key, []
    for name in torch._C._dispatch_get_all_op_names():
        if has(name, "CompositeImplicitAutograd") and any(has(name, key) for key in KEYS):
            whole += [] if any(has(name, key) for key in ("Autograd", "AutogradCUDA")) else [name]
    assert set(whole) <= {"aten::argsort.stable"}
    matrix = torch.rand(3, 3, device="cuda", requires_grad=True)
    torch.linalg.eigvals(matrix).abs().sum().backward()
    assert matrix.grad is not None


def test_operators_without_a_kernel_are_named() -> None:
    x = torch.zeros(4, 4, device="cuda", dtype=torch.half)
    with pytest.raises(
        NotImplementedError, match=r"Could not run 'aten::_mixed_dtypes_linear' with arguments from the 'CUDA'"
    ):
        torch._mixed_dtypes_linear(x, x.to(torch.int8), x[0])


@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"])
@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_by_the_one_kernel_that_is_allowed(kernel: str, precision: str, masked: bool) -> None:
    """They take half precision, the memory-efficient one single precision too, flash attention no mask."""
    allowed, dtype = getattr(SDPBackend, kernel), getattr(torch, precision)
    (q, there), (k, keys), (v, values) = (_made(2, 4, 6, 8, dtype=dtype) for _ in range(3))
    mask = torch.ones(6, 6, dtype=torch.bool).tril(1) if masked else None
    there_mask = None if mask is None else mask.cuda()
    half, single = dtype in (torch.float16, torch.bfloat16), dtype == torch.float32
    flash, efficient = allowed == SDPBackend.FLASH_ATTENTION, allowed == SDPBackend.EFFICIENT_ATTENTION
    with sdpa_kernel(SDPBackend.MATH):
        expected = scaled_dot_product_attention(q, k, v, mask)
    with sdpa_kernel(allowed):
        if (half or (single and efficient)) and not (flash and masked):
            made = scaled_dot_product_attention(there, keys, values, there_mask)
            _same(expected, made, (q, there), (k, keys), (v, values), rtol=2e-2, atol=2e-2)
        else:
            with pytest.raises(RuntimeError, match="^No available kernel. Aborting execution.$"):
                scaled_dot_product_attention(there, keys, values, there_mask)


def test_attention_by_no_kernel() -> None:
    x = torch.randn(1, 2, 4, 8, device="cuda")
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="^No viable backend for scaled_dot_product_attention"):
        scaled_dot_product_attention(x, x, x)


@pytest.mark.skipif(torch.__version__ >= "2.15", reason="since 2.15 the fused kernels take them")
def test_heads_without_a_batch_are_for_the_math() -> None:
    x = torch.randn(2, 4, 8, device="cuda", dtype=torch.float16)
    assert scaled_dot_product_attention(x, x, x).shape == (2, 4, 8)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="^No available kernel"):
        scaled_dot_product_attention(x, x, x)
