"""Quantised tensors and fake quantisation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import about, numbers, probe, raises, ramp


def q(dtype: torch.dtype = torch.quint8) -> torch.Tensor:
    return torch.quantize_per_tensor(ramp(6), 0.1, 10 if dtype is torch.quint8 else 0, dtype)


@probe()
def tensors() -> Any:
    x = q()
    return [
        str(x.device),
        str(x.dtype),
        x.q_scale(),
        x.q_zero_point(),
        numbers(x.int_repr()),
        numbers(x.dequantize()),
        str(x.qscheme()),
        x.is_quantized,
        raises(lambda: numbers(x.cpu())),
        raises(lambda: str(x.cpu().cuda().device)),
        raises(lambda: repr(x).splitlines()[-1][-60:]),
        numbers(q(torch.qint8).int_repr()),
        numbers(q(torch.qint32).int_repr()),
    ]


@probe()
def per_channel() -> Any:
    s, z = (
        torch.tensor([0.1, 0.5], device="cuda", dtype=torch.float64),
        torch.zeros(2, dtype=torch.int64, device="cuda"),
    )
    return [
        raises(
            lambda: (
                lambda x: [
                    str(x.device),
                    numbers(x.int_repr()),
                    x.q_per_channel_axis(),
                    about(x.q_per_channel_scales()),
                ]
            )(torch.quantize_per_channel(ramp(2, 3), s, z, 0, torch.qint8))
        ),
        raises(lambda: torch.quantize_per_channel(ramp(2, 3), s.cpu(), z.cpu(), 0, torch.qint8).device),
        raises(lambda: torch.quantize_per_tensor(ramp(3), 0.0, 0, torch.quint8)),
        raises(lambda: torch.quantize_per_tensor(ramp(3), 0.1, 999, torch.quint8)),
        raises(lambda: torch.quantize_per_tensor(ramp(3).half(), 0.1, 0, torch.quint8).dtype),
        raises(lambda: torch.quantize_per_tensor(ramp(3), 0.1, 0, torch.int8)),
        raises(lambda: torch.quantize_per_tensor_dynamic(ramp(3), torch.quint8, False).q_scale()),
    ]


@probe()
def arithmetic() -> Any:
    x = q()
    o = torch.ops.quantized
    return [
        raises(f)
        for f in (
            lambda: x + x,
            lambda: x * x,
            lambda: o.add(x, x, 0.2, 0),
            lambda: o.mul(x, x, 0.2, 0),
            lambda: o.add_relu(x, x, 0.2, 0),
            lambda: F.relu(x),
            lambda: x.max(),
            lambda: x.sort(),
            lambda: torch.cat([x, x]),
            lambda: x == x,
            lambda: x[1:3],
            lambda: x.view(2, 3).shape,
            lambda: x.clone().q_scale(),
            lambda: x.fill_(1.0),
            lambda: torch.empty_like(x).shape,
            lambda: x.copy_(ramp(6)),
            lambda: x.to(torch.float32),
            lambda: x.reshape(2, 3).t().contiguous().shape,
            lambda: F.interpolate(x.view(1, 1, 2, 3), 4),
            lambda: F.max_pool2d(x.view(1, 1, 2, 3), 2),
            lambda: o.linear_prepack(q(torch.qint8).view(2, 3), None),
            lambda: x.topk(2),
            lambda: x.mean(),
            lambda: x.sum(),
            lambda: torch.sigmoid(x),
        )
    ]


@probe()
def fake_quantisation() -> Any:
    x = ramp(6).requires_grad_()
    y = torch.fake_quantize_per_tensor_affine(x, 0.5, 1, 0, 15)
    y.sum().backward()
    s, z = torch.tensor(0.5, device="cuda"), torch.tensor(1, device="cuda", dtype=torch.int32)
    return [
        y,
        x.grad,
        torch.fake_quantize_per_tensor_affine(x, s, z, 0, 15),
        torch.fake_quantize_per_channel_affine(
            x.view(2, 3),
            torch.tensor([0.5, 1.0], device="cuda"),
            torch.zeros(2, dtype=torch.int32, device="cuda"),
            0,
            0,
            15,
        ),
        raises(lambda: torch.fake_quantize_per_tensor_affine(x, 0.5, 99, 0, 15)),
        raises(lambda: torch.fake_quantize_per_tensor_affine(x, s.cpu(), z, 0, 15)),
        raises(lambda: torch.fake_quantize_per_tensor_affine(x.double(), 0.5, 1, 0, 15).dtype),
        raises(lambda: torch.fake_quantize_per_tensor_affine(x.half(), 0.5, 1, 0, 15).dtype),
    ]


@probe()
def observers() -> Any:
    from torch.ao.quantization import FakeQuantize, HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver

    out = []
    for make in (MinMaxObserver, MovingAverageMinMaxObserver, HistogramObserver):
        o = make().cuda()
        o(ramp(32))
        scale, zero = o.calculate_qparams()
        out.append([make.__name__, about(scale), numbers(scale), numbers(zero), str(zero.device)])
    f = FakeQuantize().cuda()
    y = f(ramp(8))
    return [*out, y, f.scale, f.zero_point]


@probe()
def dynamic_layers() -> Any:
    net = torch.nn.Sequential(torch.nn.Linear(4, 2))
    made = torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear})
    return [
        type(made[0]).__module__,
        raises(lambda: made.cuda()(ramp(1, 4)).shape),
        raises(lambda: torch.ao.quantization.quantize_dynamic(net.cuda(), {torch.nn.Linear}) and None),
    ]


@probe()
def weights_of_four_bits() -> Any:
    w = torch.zeros(64, 64, dtype=torch.int32, device="cuda")
    return [
        raises(lambda: about(torch._convert_weight_to_int4pack(w.to(torch.uint8)[:, :32].contiguous(), 2))),
        raises(lambda: torch._convert_weight_to_int4pack(w, 2)),
        raises(
            lambda: torch._weight_int8pack_mm(
                ramp(4, 64).bfloat16(),
                torch.ones(8, 64, dtype=torch.int8, device="cuda"),
                torch.ones(8, device="cuda").bfloat16(),
            )[0, :2]
        ),
    ]
