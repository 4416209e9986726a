"""Old names of types, and what still comes of them."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import about, kind, probe, raises, ramp, warned

C = torch.cuda


@probe()
def constructors() -> Any:
    return [
        raises(f)
        for f in (
            lambda: C.FloatTensor([1.0, 2.0]),
            lambda: about(C.FloatTensor(2, 3)),
            lambda: C.LongTensor([3]),
            lambda: C.HalfTensor([1]).dtype,
            lambda: C.BoolTensor([True]),
            lambda: C.DoubleTensor(),
            lambda: C.ByteTensor([1, 255]),
            lambda: C.IntTensor([1.7]),
            lambda: C.FloatTensor(torch.ones(2)),
            lambda: C.FloatTensor(ramp(2)),
            lambda: C.FloatTensor(ramp(2).double()),
            lambda: C.FloatTensor("x"),
            lambda: C.FloatTensor(torch.Size([2])).shape,
            lambda: C.FloatTensor([1.0], device="cpu"),
            lambda: C.FloatTensor([1.0], device="cuda").device,
            lambda: C.FloatTensor(2, device="cuda:0").shape,
            lambda: torch.FloatTensor([1.0], device="cuda"),
            lambda: torch.Tensor([1.0], device="cuda"),
            lambda: C.BFloat16Tensor([1]).dtype,
            lambda: C.ComplexFloatTensor,
            lambda: C.CharTensor([-1]),
            lambda: C.ShortTensor([9]).dtype,
        )
    ]


@probe()
def classes() -> Any:
    x = ramp(2)
    return [
        isinstance(x, C.FloatTensor),
        isinstance(x, torch.FloatTensor),
        isinstance(x, C.DoubleTensor),
        isinstance(torch.ones(1), C.FloatTensor),
        isinstance(torch.nn.Parameter(x), C.FloatTensor),
        isinstance(x.half(), C.HalfTensor),
        isinstance(x.to_sparse(), C.sparse.FloatTensor),
        isinstance(x.to_sparse(), C.FloatTensor),
        issubclass(C.FloatTensor, torch.Tensor),
        C.FloatTensor.__name__,
        C.FloatTensor.dtype,
        C.FloatTensor.is_cuda,
        str(C.FloatTensor.layout),
        C.FloatTensor.is_sparse,
        repr(C.FloatTensor),
        kind(lambda: type("T", (C.FloatTensor,), {})),
        C.FloatTensor is torch.cuda.FloatTensor,
    ]


@probe()
def names_of_types() -> Any:
    x = ramp(2)
    return [
        t.type()
        for t in (
            x,
            x.half(),
            x.double(),
            x.long(),
            x.int(),
            x.bool(),
            x.byte(),
            x.bfloat16(),
            x.to_sparse(),
            x.char(),
            x.short(),
            torch.complex(x, x),
        )
    ] + [
        raises(lambda: x.to(torch.float8_e4m3fn).type()),
        raises(lambda: x.to(torch.uint16).type()),
        raises(lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).type()),
        raises(lambda: x[None].to_sparse_csr().type()),
        torch.typename(x),
        torch.typename(C.FloatTensor),
    ]


@probe()
def conversions() -> Any:
    x = ramp(2)
    return [
        raises(f)
        for f in (
            lambda: about(x.type("torch.FloatTensor")),
            lambda: about(x.type("torch.cuda.HalfTensor")),
            lambda: about(x.type(torch.float64)),
            lambda: about(x.type(C.LongTensor)),
            lambda: about(x.type(torch.FloatTensor)),
            lambda: about(torch.ones(2).type("torch.cuda.FloatTensor")),
            lambda: x.type("bogus"),
            lambda: x.type("torch.cuda.BogusTensor"),
            lambda: x.type("torch.cuda.FloatTensor") is x,
            lambda: about(x.type_as(torch.ones(1))),
            lambda: about(torch.ones(1).type_as(x.half())),
            lambda: about(x.type("torch.cuda.sparse.FloatTensor")),
            lambda: x.type(3),
            lambda: about(x.new([1.0, 2.0])),
            lambda: about(x.new(2, 3)),
            lambda: x.new([1.0], device="cpu"),
            lambda: about(x.new_tensor([1])),
            lambda: about(x.new_zeros(2, device="cpu")),
            lambda: about(x.new_full((1,), 3, dtype=torch.int8)),
            lambda: about(x.new_empty_strided((2, 2), (1, 2))),
        )
    ]


@probe()
def default_types() -> Any:
    first = warned(lambda: torch.set_default_tensor_type("torch.cuda.FloatTensor"))
    out = [
        first,
        about(torch.ones(2)),
        about(torch.tensor([1])),
        about(torch.empty(1)),
        about(torch.nn.Linear(1, 1).weight),
        str(torch.get_default_device()),
        about(torch.rand(1)),
        about(torch.arange(2)),
        about(torch.Tensor(2)),
        about(torch.as_tensor([1.0])),
        str(torch.get_default_dtype()),
        raises(lambda: torch.randperm(3).device),
    ]
    torch.set_default_tensor_type(torch.cuda.HalfTensor)
    out += [about(torch.ones(2)), str(torch.get_default_dtype())]
    out += [
        raises(lambda: torch.set_default_tensor_type("torch.cuda.LongTensor")),
        raises(lambda: torch.set_default_tensor_type("bogus")),
        raises(lambda: torch.set_default_tensor_type(torch.float32)),
    ]
    torch.set_default_tensor_type(torch.FloatTensor)
    return [*out, about(torch.ones(2))]


@probe()
def default_devices() -> Any:
    torch.set_default_device("cuda")
    out = [
        about(torch.ones(1)),
        about(torch.tensor(3)),
        about(torch.Tensor([1.0])),
        about(torch.nn.Linear(1, 1).weight),
        str(torch.get_default_device()),
        about(torch.from_numpy(__import__("numpy").ones(1))),
        about(torch.rand(1)),
        raises(lambda: about(torch.randperm(3))),
        about(torch.ones(1, device="cpu")),
        about(torch.empty_like(torch.ones(1, device="cpu"))),
        raises(lambda: about(torch.FloatTensor([1.0]))),
        about(torch.as_tensor([1])),
        raises(lambda: about(torch.load(__import__("io").BytesIO()))),
        about(torch.fft.fftfreq(3)),
        about(torch.hann_window(3)),
        about(torch.eye(1)),
        raises(lambda: str(torch.Generator().device)),
        about(torch.sparse_coo_tensor([[0]], [1.0])),
        about(torch.asarray([1])),
    ]
    with torch.device("cpu"):
        out += [about(torch.ones(1)), str(torch.get_default_device())]
    out += [
        raises(lambda: torch.set_default_device("bogus")),
        raises(lambda: (torch.set_default_device("cuda:99"), torch.ones(1))),
        raises(lambda: torch.set_default_device(None)),
        about(torch.ones(1)),
    ]
    return out


@probe()
def device_objects() -> Any:
    d = torch.device
    return [
        str(d(0)),
        str(d("cuda", 0)),
        raises(lambda: d("cuda", -5)),
        raises(lambda: d(-1)),
        str(d(type="cuda")),
        d("cuda") == d("cuda:0"),
        d("cuda:1").index,
        hash(d("cuda:0")) == hash(d("cuda", 0)),
        repr(d("cuda")),
        raises(lambda: d("gpu")),
        raises(lambda: d("CUDA")),
        raises(lambda: d("cuda:0:1")),
        raises(lambda: d("cuda 0")),
        raises(lambda: d()),
        raises(lambda: d(1.5)),
        raises(lambda: d("")),
        str(d(3)),
        str(d(d("cuda:2"))),
        raises(lambda: d("cuda:256")),
        raises(lambda: d("cuda:1000")),
        str(torch.ones(1, device=0).device),
        str(torch.ones(1).to(0).device),
        raises(lambda: torch.ones(1, device=99)),
        str(torch.ones(1, device=d("cuda")).device),
        kind(lambda: torch.ones(1).to(99)),
        __import__("copy").deepcopy(d("cuda:0")) == d("cuda:0"),
        str(__import__("pickle").loads(__import__("pickle").dumps(d("cuda")))),
    ]


@probe()
def movers() -> Any:
    x = torch.ones(2)
    return [
        raises(f)
        for f in (
            lambda: x.cuda().device,
            lambda: x.cuda(0).device,
            lambda: x.cuda("cuda:0").device,
            lambda: x.cuda(device=None).device,
            lambda: x.cuda(-1).device,
            lambda: x.cuda(99),
            lambda: x.cuda("cpu"),
            lambda: x.cuda(torch.device("cpu")),
            lambda: x.cuda("x"),
            lambda: x.cuda(1.5),
            lambda: x.cuda(0, True).device,
            lambda: x.cuda(non_blocking=True).device,
            lambda: x.cuda(memory_format=torch.channels_last),
            lambda: x.to("cuda", torch.float16).dtype,
            lambda: x.to(torch.float16, "cuda"),
            lambda: x.to(device="cuda", dtype=torch.int64).dtype,
            lambda: x.to(x.cuda()).device,
            lambda: x.to("cuda", copy=True).device,
            lambda: x.to("cuda:99"),
            lambda: x.to("bogus"),
            lambda: x.to("cuda", bogus=1),
            lambda: x.to(None),
            lambda: x.to(),
            lambda: x.cuda().cpu().device,
            lambda: x.cuda().to("meta").device,
            lambda: x.to("meta").cuda(),
            lambda: x.cuda().get_device(),
            lambda: x.get_device(),
            lambda: x.xpu(),
            lambda: x.to("mps"),
            lambda: x.to("xpu"),
            lambda: x.cuda().is_meta,
            lambda: x.ipu(),
            lambda: x.to("hpu"),
            lambda: x.to("vulkan"),
        )
    ]
