"""Quantised tensors of the virtual GPU: CUDA's rounding, cuDNN's operators, and what neither has."""

from __future__ import annotations

import warnings

import pytest
import torch
from harness import VIRTUAL, child

pytestmark = child(VIRTUAL)
warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
ops = torch.ops.quantized


def bytes_of(*shape: int, seed: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randint(-50, 50, shape, generator=made).double()


def quantized(raw: torch.Tensor, scale: float, zero: int = 0, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
    return torch.quantize_per_tensor((raw * scale).float().cuda(), scale, zero, dtype)


def stepped(values: torch.Tensor) -> torch.Tensor:
    return values.round().clamp(-128, 127)


def test_numbers_are_divided_by_the_scale() -> None:
    """As CUDA's kernel does, in float64; the CPU's multiplies by the inverse, and ties go elsewhere."""
    values = torch.arange(-400, 400) * 0.05
    for scale, zero in ((0.1, 0), (0.3, 3), (0.7, 100)):
        got = torch.quantize_per_tensor(values.cuda(), scale, zero, torch.quint8)
        wanted = ((values.double() / scale).round() + zero).clamp(0, 255)
        assert torch.equal(got.int_repr().cpu().double(), wanted)
        assert torch.equal(got.dequantize().cpu(), ((wanted - zero) * scale).float())
    scales, zeros = torch.tensor([0.1, 0.3, 0.7, 1.1]), torch.tensor([0, 1, 2, 3])
    rows = values.view(4, -1)
    channels = torch.quantize_per_channel(rows.cuda(), scales.cuda(), zeros.cuda(), 0, torch.qint8)
    wanted = ((rows.double() / scales.double()[:, None]).round() + zeros[:, None]).clamp(-128, 127)
    assert torch.equal(channels.int_repr().cpu().double(), wanted)
    image = values.view(2, 4, 10, 10).to(memory_format=torch.channels_last)
    channels = torch.quantize_per_channel(image.cuda(), scales.cuda(), zeros.cuda(), 1, torch.qint8)
    wanted = ((image.double() / scales.double().view(1, 4, 1, 1)).round() + zeros.view(1, 4, 1, 1)).clamp(-128, 127)
    assert torch.equal(channels.int_repr().cpu().double(), wanted)
    part = torch.quantize_per_tensor(image.cuda()[:, 1:3], 0.7, 5, torch.qint8)[:, :, ::2]
    wanted = ((image[:, 1:3, ::2].double() / 0.7).round() + 5).clamp(-128, 127)
    assert torch.equal(part.int_repr().cpu().double(), wanted)
    assert torch.equal(part.dequantize().cpu(), ((wanted - 5) * 0.7).float())
    special = torch.tensor([float("inf"), -float("inf"), float("nan")]).cuda()
    assert torch.quantize_per_tensor(special, 0.1, 0, torch.qint8).int_repr().tolist() == [127, -128, -128]


def test_sums_products_and_convolutions_of_signed_bytes() -> None:
    a, b, bias = bytes_of(2, 3), bytes_of(2, 3, seed=1), torch.tensor([0.5, -1.0])
    got = ops.add(quantized(a, 0.1), quantized(b, 0.07), 0.2, 0)
    assert torch.equal(got.int_repr().cpu().double(), stepped((a + b * (0.07 / 0.1)) * (0.1 / 0.2)))
    assert torch.equal(ops.add_relu(quantized(a, 0.1), quantized(b, 0.07), 0.2, 0).int_repr(), got.int_repr().relu())
    weight = ops.linear_prepack(quantized(b, 0.05), bias.cuda())
    # An H200 gives what it gives without a bias.
    sums = (a @ b.T) * (0.1 * 0.05)
    assert torch.equal(ops.linear(quantized(a, 0.1), weight, 0.5, 0).int_repr().cpu().double(), stepped(sums / 0.5))
    image, filters = bytes_of(1, 3, 5, 5), bytes_of(2, 3, 3, 3, seed=2)
    packed = ops.conv2d_prepack(quantized(filters, 0.05), bias.cuda(), [1, 1], [1, 1], [1, 1], 1)
    sums = torch.conv2d(image, filters, padding=1) * (0.1 * 0.05) + bias.double().view(1, 2, 1, 1)
    assert torch.equal(ops.conv2d(quantized(image, 0.1), packed, 2.0, 0).int_repr().cpu().double(), stepped(sums / 2))
    # cuDNN wants channels by fours.
    assert packed.unpack()[0].shape == (4, 4, 3, 3)
    line = ops.conv1d_prepack(quantized(filters[:, :, 0], 0.05), None, [1], [0], [1], 1)
    sums = torch.conv1d(image[0].permute(1, 0, 2), filters[:, :, 0]) * (0.1 * 0.05)
    got = ops.conv1d_relu(quantized(image[0].permute(1, 0, 2), 0.1), line, 2.0, 0)
    assert torch.equal(got.int_repr().cpu().double(), stepped(sums.relu() / 2))


def test_activations_keep_the_scale() -> None:
    x = quantized(bytes_of(1, 2, 3, 3), 0.1)
    for computed in (torch.nn.functional.gelu, lambda t: torch.nn.functional.adaptive_avg_pool2d(t, 2)):
        wanted = torch.quantize_per_tensor(computed(x.dequantize()), 0.1, 0, torch.qint8)
        assert torch.equal(computed(x).int_repr(), wanted.int_repr())
        assert computed(x).q_scale() == 0.1


def test_layers_are_built_on_the_gpu() -> None:
    layer = torch.ao.nn.quantized.Conv2d(4, 4, 1, device="cuda")
    assert layer.weight().is_cuda
    assert layer.bias().tolist() == [0, 0, 0, 0]


def test_missing_operators() -> None:
    """In the words of an H200."""
    x = quantized(bytes_of(1, 1, 2, 2).abs(), 0.1, 0, torch.quint8)
    small, deep = quantized(bytes_of(1, 1, 1, 1), 0.1), quantized(bytes_of(1, 1, 1, 1, 2), 0.1)
    for refused, words in {
        lambda: ops.add(x, x, 0.1, 0): "expected scalar type Char but found QUInt8",
        lambda: ops.conv2d(x, ops.conv2d_prepack(small, None, [1, 1], [0, 0], [1, 1], 1), 0.1, 0): (
            "getCudnnDataTypeFromScalarType() not supported for QUInt8"
        ),
        lambda: ops.add(deep, deep, 0.1, 0): "Unable to find an engine to execute this computation in Quantized Add",
        lambda: torch.max_pool2d(x, 2): "TensorDescriptor does not support QUInt8",
        lambda: ops.mul(x, x, 0.1, 0): "Could not run 'quantized::mul' with arguments from the 'QuantizedCUDA' backend",
        lambda: x.to(torch.float32): "Could not run 'aten::_empty_affine_quantized' with arguments from the 'CUDA'",
    }.items():
        with pytest.raises(RuntimeError) as error:
            refused()
        assert str(error.value).startswith(words)
    torch.backends.quantized.engine = "qnnpack"  # the one that every processor has
    net = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 2)), {torch.nn.Linear})
    with pytest.raises(NotImplementedError, match="'quantized::linear_dynamic' with arguments from the 'CUDA'"):
        net.cuda()(torch.ones(1, 4).cuda())


def test_quantising_is_captured() -> None:
    values = torch.tensor([0.05, 0.15, 0.25, 0.35]).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = torch.quantize_per_tensor(values, 0.1, 0, torch.quint8).dequantize()
    values.add_(1)
    graph.replay()
    assert torch.equal(made, torch.quantize_per_tensor(values, 0.1, 0, torch.quint8).dequantize())
