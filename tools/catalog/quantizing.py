"""Calls of quantized modules, and of those for quantization-aware training: each from its float module."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable
from typing import Any

import torch
import values
from values import Given, numbers

Call = Callable[[str], Any]
Q = torch.ao.nn.quantized
QAT = torch.ao.nn.qat
FUSED = torch.ao.nn.intrinsic
AO = torch.ao.quantization
if platform.machine() in ("aarch64", "arm64"):
    # Some wheels choose FBGEMM, whose kernels need AVX2: "unknown architecure" (pytorch/pytorch#180679).
    torch.backends.quantized.engine = "onednn"
#: What a quantised module stands for: the arguments of its module of floats, and the shape that it takes.
FLOATS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    **{f"Conv{n}d": ((3, 3, 1), (1, 3, *[4] * n)) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": ((3, 3, 1), (1, 3, *[4] * n)) for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": ((3,), (2, 3, *[4] * n)) for n in (2, 3)},
    **{f"InstanceNorm{n}d": ((3, 1e-5, 0.1, True), (2, 3, *[4] * n)) for n in (1, 2, 3)},
    "GroupNorm": ((1, 3), (2, 3, 4)), "LayerNorm": ((3,), (3, 3)), "Linear": ((3, 3), (3, 3)),
    "Dropout": ((0.5,), (3, 3)), "ELU": ((), (3, 3)), "Hardswish": ((), (3, 3)), "LeakyReLU": ((), (3, 3)),
    "PReLU": ((), (3, 3)), "ReLU6": ((), (3, 3)), "Sigmoid": ((), (3, 3)), "Softmax": ((1,), (3, 3)),
    "Embedding": ((4, 12), (3,)), "EmbeddingBag": ((4, 12), (3, 3)),
}  # fmt: skip
EMBEDS = ("Embedding", "EmbeddingBag")
#: Those that have weights of their own to be quantised, and so a module of reference.
WEIGHED = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", *EMBEDS)


def plain(kind: Any, *args: Any, device: str = "cpu") -> Any:
    """Return a module with weights that are the same everywhere, of which none is drawn."""
    takes = "device" in inspect.signature(kind).parameters
    made = torch.nn.utils.skip_init(kind, *args) if takes else kind(*args)
    for name, buffer in made.named_buffers():
        buffer.fill_(0 if "mean" in name or "tracked" in name else 1)  # what a new one has
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(numbers("cpu", *p.shape))
    return made.to(device)


def scheme(name: str) -> Any:
    if name in EMBEDS:
        return AO.float_qparams_weight_only_qconfig
    # Their weights have one scale for all.
    whole = name.startswith("ConvTranspose") or name == "PReLU"
    return AO.default_qconfig if whole else AO.get_default_qconfig("fbgemm")


def floats(name: str, d: str) -> Any:
    """Return the module of floats that a quantised one stands for, with what its numbers were seen to be."""
    kind = getattr(torch.nn, name)
    args, shape = FLOATS[name]
    extra = ("sum",) if name == "EmbeddingBag" else ()
    made = plain(kind, *args, *((None, 2.0, False, *extra) if extra else ()), device=d)
    if name in ("BatchNorm2d", "BatchNorm3d"):
        made.eval()
    made.qconfig = scheme(name)
    made.activation_post_process = AO.MinMaxObserver(dtype=torch.quint8).to(d)
    made.activation_post_process(numbers(d, *shape) * (8 if name in WEIGHED else 1))  # weights make them larger
    return made


def quantised(name: str, d: str) -> Any:
    return getattr(Q, name).from_float(floats(name, d))


def taken(name: str, d: str) -> Any:
    """Return the argument of a quantized module."""
    shape = FLOATS[name][1]
    if name in EMBEDS:
        return values.indices(*shape)(d)
    return torch.quantize_per_tensor(numbers(d, *shape), 0.25, 2, torch.quint8)


def reference(name: str, d: str) -> Any:
    kind = getattr(torch.ao.nn.quantized.reference, name)
    given: dict[str, Any] = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.25, "zero_point": 0}
    if name in EMBEDS:
        given = {
            "qscheme": torch.per_channel_affine_float_qparams, "dtype": torch.quint8, "axis": 0,
            "scale": torch.full((4,), 0.25), "zero_point": torch.zeros(4),
        }  # fmt: skip
    return kind.from_float(floats(name, d), given)


def referred(name: str) -> Call:
    def call(d: str) -> Any:
        kind = getattr(Q, name)
        if name in EMBEDS:
            return kind.from_reference(reference(name, d))
        scales = (torch.tensor(0.5), torch.tensor(2)) if name.startswith("BatchNorm") else (0.5, 2)
        return kind.from_reference(reference(name, d) if name in WEIGHED else floats(name, d), *scales)

    return call


def trains(name: str, d: str) -> Any:
    """Return a module that trains for quantising."""
    made = floats(name, d)
    made.qconfig = AO.default_embedding_qat_qconfig if name in EMBEDS else AO.get_default_qat_qconfig("fbgemm")
    return getattr(QAT, name).from_float(made).to(d)


def trained_with(name: str, d: str) -> Any:
    return values.indices(*FLOATS[name][1])(d) if name in EMBEDS else numbers(d, *FLOATS[name][1])


#: The parts of modules that are several in one.
PARTS: dict[str, tuple[tuple[Any, tuple[Any, ...]], ...]] = {
    **{f"ConvReLU{n}d": ((getattr(torch.nn, f"Conv{n}d"), (3, 3, 1)), (torch.nn.ReLU, ())) for n in (1, 2, 3)},
    **{f"ConvBn{n}d": ((getattr(torch.nn, f"Conv{n}d"), (3, 3, 1)), (getattr(torch.nn, f"BatchNorm{n}d"), (3,)))
        for n in (1, 2, 3)},
    **{f"ConvBnReLU{n}d": ((getattr(torch.nn, f"Conv{n}d"), (3, 3, 1)), (getattr(torch.nn, f"BatchNorm{n}d"), (3,)),
        (torch.nn.ReLU, ())) for n in (1, 2, 3)},
    **{f"BNReLU{n}d": ((getattr(torch.nn, f"BatchNorm{n}d"), (3,)), (torch.nn.ReLU, ())) for n in (2, 3)},
    "LinearReLU": ((torch.nn.Linear, (3, 3)), (torch.nn.ReLU, ())),
    "LinearBn1d": ((torch.nn.Linear, (3, 3)), (torch.nn.BatchNorm1d, (3,))),
    "LinearLeakyReLU": ((torch.nn.Linear, (3, 3)), (torch.nn.LeakyReLU, ())),
    "LinearTanh": ((torch.nn.Linear, (3, 3)), (torch.nn.Tanh, ())),
}  # fmt: skip


def fused(name: str) -> Call:
    """Return a module of several, run: its parts are numbered by how many dimensions they take."""

    def call(d: str) -> Any:
        made = getattr(FUSED, name)(*(plain(kind, *args, device=d) for kind, args in PARTS[name])).eval()
        count = next((int(n) for n in "123" if n in name and not name.startswith("Linear")), 0)
        return made(numbers(d, 2, 3, *[4] * count) if count else numbers(d, 3, 3))

    return call


def added(name: str) -> Call:
    def call(d: str) -> Any:
        parts = [plain(torch.nn.Conv2d, 3, 3, 1, device=d), torch.add, *([torch.nn.ReLU()] if "ReLU" in name else [])]
        return getattr(FUSED, name)(*parts)(numbers(d, 1, 3, 4, 4), numbers(d, 1, 3, 4, 4))

    return call


def pair(d: str, kind: str = "Conv2d", norm: str = "BatchNorm2d") -> tuple[Any, Any]:
    args = (3, 3) if kind == "Linear" else (3, 3, 1)
    return plain(getattr(torch.nn, kind), *args, device=d).eval(), plain(getattr(torch.nn, norm), 3, device=d).eval()


class Whole(torch.nn.Module):
    """A module that the quantising of TorchScript takes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = pair("cpu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


def scripted(d: str) -> Any:
    return torch.jit.script(Whole().to(d).eval())


def linear(d: str) -> Any:
    return torch.jit.script(values.sequence(d).eval())


BY_NAME = {"": AO.default_qconfig}
DYNAMIC = {"": AO.default_dynamic_qconfig}


def seen(d: str) -> Any:
    """Return a module of TorchScript whose numbers were looked at."""
    made = AO.prepare_jit(linear(d), BY_NAME)
    made(numbers(d, 3, 3))
    return made


def attention(d: str) -> Any:
    """Return an attention whose numbers were looked at, that can be quantised."""
    made = plain(torch.nn.MultiheadAttention, 4, 2, device=d).eval()
    made.qconfig = AO.get_default_qconfig("fbgemm")
    found = torch.ao.nn.quantizable.MultiheadAttention.from_float(made)
    found = AO.prepare(found.eval().to(d)).to(d)
    x = numbers(d, 3, 1, 4)
    found(x, x, x)
    return found


def functional(d: str) -> Any:
    made = Q.FloatFunctional()
    made.activation_post_process = AO.MinMaxObserver().to(d)
    made.activation_post_process(numbers(d, 3, 3))
    return Q.QFunctional.from_float(made)


def quantiser(d: str) -> Any:
    made = torch.ao.quantization.QuantStub(AO.get_default_qconfig("fbgemm"))
    made.activation_post_process = AO.MinMaxObserver(dtype=torch.quint8).to(d)
    made.activation_post_process(numbers(d, 3, 3))
    return Q.Quantize.from_float(made)


OBJECTS: dict[str, values.Maker] = {}
GIVEN: dict[str, Given] = {}
CALLS: dict[str, Call] = {
    **{f"torch.ao.nn.quantized.{name}.from_float": lambda d, name=name: getattr(Q, name).from_float(floats(name, d))
        for name in FLOATS},
    **{f"torch.ao.nn.quantized.{name}.from_reference": referred(name) for name in FLOATS
        if hasattr(getattr(Q, name), "from_reference")},
    **{f"torch.ao.nn.quantized.{name}.forward": lambda d, name=name: quantised(name, d)(taken(name, d))
        for name in FLOATS},
    **{f"torch.ao.nn.quantized.{name}.weight": lambda d, name=name: quantised(name, d).weight() for name in WEIGHED},
    **{f"torch.ao.nn.quantized.{name}.set_weight_bias": lambda d, name=name: (lambda m: (
        m.set_weight_bias(m.weight(), None), m.weight())[1])(quantised(name, d)) for name in WEIGHED
        if name not in EMBEDS},
    **{f"torch.ao.nn.quantized.{name}.set_weight": lambda d, name=name: (lambda m: (
        m.set_weight(m.weight()), m.weight())[1])(quantised(name, d)) for name in EMBEDS},
    "torch.ao.nn.quantized.GroupNorm": lambda d: Q.GroupNorm(1, 3, *(torch.nn.Parameter(numbers(d, 3)) for _ in "wb"),
        0.5, 2),
    "torch.ao.nn.quantized.MultiheadAttention.from_observed": lambda d: Q.MultiheadAttention.from_observed(
        attention(d)),
    "torch.ao.nn.quantized.QFunctional.from_float": functional,
    "torch.ao.nn.quantized.QFunctional.cat": lambda d: functional(d).cat([values.quantized(3, 3)(d)] * 2),
    "torch.ao.nn.quantized.Quantize.from_float": quantiser,
    **{f"torch.ao.nn.qat.{name}": lambda d, name=name: trains(name, d) for name in EMBEDS},
    **{f"torch.ao.nn.qat.{name}.from_float": lambda d, name=name: trains(name, d) for name in WEIGHED
        if hasattr(QAT, name)},
    **{f"torch.ao.nn.qat.{name}.forward": lambda d, name=name: trains(name, d)(trained_with(name, d))
        for name in WEIGHED if hasattr(QAT, name)},
    **{f"torch.ao.nn.qat.{name}.to_float": lambda d, name=name: trains(name, d).to_float() for name in WEIGHED
        if hasattr(QAT, name)},
    **{f"torch.ao.nn.intrinsic.{name}": fused(name) for name in PARTS},
    **{f"torch.ao.nn.intrinsic.{name}.forward": added(name) for name in ("ConvAdd2d", "ConvAddReLU2d")},
    "torch.ao.quantization.fuse_conv_bn": lambda d: AO.fuse_conv_bn(False, *pair(d)),
    "torch.ao.quantization.fuse_conv_bn_relu": lambda d: AO.fuse_conv_bn_relu(False, *pair(d), torch.nn.ReLU().eval()),
    "torch.ao.quantization.fuse_convtranspose_bn": lambda d: AO.fuse_convtranspose_bn(False, *pair(d,
        "ConvTranspose2d")),
    "torch.ao.quantization.fuse_linear_bn": lambda d: AO.fuse_linear_bn(False, *pair(d, "Linear", "BatchNorm1d")),
    "torch.ao.quantization.fuse_conv_bn_jit": lambda d: AO.fuse_conv_bn_jit(scripted(d))(numbers(d, 1, 3, 4, 4)),
    "torch.ao.quantization.fuse_modules": lambda d: AO.fuse_modules(values.folded(d), [["0", "1", "2"]]),
    "torch.ao.quantization.fuse_modules_qat": lambda d: AO.fuse_modules_qat(values.folded(d).train(),
        [["0", "1", "2"]]),
    "torch.ao.quantization.get_block_size": lambda d: AO.get_block_size((3, 3), AO.PerTensor()),
    "torch.ao.quantization.get_dynamic_quant_module_class": lambda d: AO.get_dynamic_quant_module_class(
        torch.nn.Linear).__name__,
    "torch.ao.quantization.get_static_quant_module_class": lambda d: AO.get_static_quant_module_class(
        torch.nn.Linear).__name__,
    "torch.ao.quantization.get_quantized_operator": lambda d: str(AO.get_quantized_operator(
        torch.nn.functional.hardswish)),
    "torch.ao.quantization.get_fuser_method": lambda d: AO.get_fuser_method((torch.nn.Conv2d,
        torch.nn.BatchNorm2d)).__name__,
    "torch.ao.quantization.get_fuser_method_new": lambda d: AO.get_fuser_method_new((torch.nn.Conv2d,
        torch.nn.BatchNorm2d), {(torch.nn.Conv2d, torch.nn.BatchNorm2d): AO.fuse_conv_bn}).__name__,
    "torch.ao.quantization.prepare_jit": lambda d: AO.prepare_jit(linear(d), BY_NAME)(numbers(d, 3, 3)),
    "torch.ao.quantization.convert_jit": lambda d: AO.convert_jit(seen(d))(numbers(d, 3, 3)),
    "torch.ao.quantization.quantize_jit": lambda d: AO.quantize_jit(linear(d), BY_NAME, lambda m, x: m(x),
        [numbers(d, 3, 3)])(numbers(d, 3, 3)),
    "torch.ao.quantization.prepare_dynamic_jit": lambda d: AO.prepare_dynamic_jit(linear(d), DYNAMIC)(numbers(d, 3,
        3)),
    "torch.ao.quantization.convert_dynamic_jit": lambda d: AO.convert_dynamic_jit(AO.prepare_dynamic_jit(linear(d),
        DYNAMIC))(numbers(d, 3, 3)),
    "torch.ao.quantization.quantize_dynamic_jit": lambda d: AO.quantize_dynamic_jit(linear(d), DYNAMIC)(numbers(d, 3,
        3)),
}  # fmt: skip
