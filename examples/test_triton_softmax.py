"""A Triton kernel and its test, which runs without a GPU.

pytest --torchdevice --torchdevice-driver virtual examples/test_triton_softmax.py
"""

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@triton.jit
def softmax_kernel(result, source, stride, columns, size: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, size)
    values = tl.load(source + row * stride + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(result + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of each row."""
    result = torch.empty(x.shape, device=x.device)
    softmax_kernel[(x.shape[0],)](result, x, x.stride(0), x.shape[1], size=triton.next_power_of_2(x.shape[1]))
    return result


@needs_gpu
@pytest.mark.parametrize("columns", [1, 100, 1024])
def test_softmax(columns: int) -> None:
    x = torch.randn(33, columns, device="cuda")
    torch.testing.assert_close(softmax(x), torch.softmax(x, 1))


@needs_gpu
def test_rows_with_a_stride() -> None:
    x = torch.randn(8, 64, device="cuda")[:, :50]
    torch.testing.assert_close(softmax(x), torch.softmax(x, 1))
