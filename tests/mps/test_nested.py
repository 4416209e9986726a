"""Nested tensors on a GPU on which torch makes none of layout strided: they compute as the CPU's do."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from harness import CPU, MPS, MPS_FAITHFUL, child
from torch.nn import functional

import torchdevice_cuda
from torchdevice_cuda.report.departures import departures

from .seeing import left, raised

warnings.filterwarnings("ignore", "(?s).*prototype stage")
on_mps = child(MPS_FAITHFUL)
Function = Callable[[Any], Any]


def _parts(device: str) -> list[torch.Tensor]:
    return [(torch.arange(n * 3.0).reshape(n, 3) / 7 - 0.4 * n).to(device) for n in (2, 4)]


def _nested(device: str, requires_grad: bool = False) -> torch.Tensor:
    return torch.nested.nested_tensor(_parts(device), requires_grad=requires_grad)


def _dense(like: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.linspace(-0.3, 0.7, torch.Size(shape).numel()).reshape(shape).to(like.device)


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(2).transpose(1, 2).contiguous()


def _other(x: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device=x.device)


#: What the CPU and CUDA compute with a nested tensor, and what both refuse.
OPERATIONS: dict[str, Function] = {
    "neg": lambda x: -x,
    "add": lambda x: x + x * 2,
    "div": lambda x: x / (x + 10),
    "number": lambda x: x * _dense(x, 2)[1],
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "sin": torch.sin,
    "linear": lambda x: functional.linear(x, _dense(x, 5, 3), _dense(x, 5)),
    "layer_norm": lambda x: functional.layer_norm(x, (3,), _dense(x, 3), _dense(x, 3)),
    "softmax": lambda x: functional.softmax(x, -1),
    "transpose": lambda x: x.transpose(1, 2).contiguous(),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "attention": lambda x: functional.scaled_dot_product_attention(_heads(x), _heads(x), _heads(x)),
    "unbind": lambda x: x.unbind(),
    "unbind one": lambda x: x.unbind()[1],
    "select": lambda x: x[0],
    "select last": lambda x: x[:, :, 1] if not x.is_nested else x.select(0, -1),
    "padded": lambda x: x.to_padded_tensor(-1.0),
    "padded to": lambda x: x.to_padded_tensor(0.5, (2, 5, 4)),
    "values": lambda x: x.values(),
    "chunk": lambda x: x.chunk(3, -1),
    "split": lambda x: x.detach().split([1, 2], -1),
    "reshape": lambda x: x.reshape(2, -1, 3, 1),
    "reshape_as": lambda x: x.reshape_as(x),
    "view": lambda x: x.view(2, -1, 1, 3),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(-1),
    "clone": torch.clone,
    "half": lambda x: x.half(),
    "to cpu": lambda x: x.cpu(),
    "to another dtype": lambda x: x.to(torch.float16).float(),
    "masked_fill": lambda x: x.masked_fill(x.detach() > 0, 0.0),
    "where": lambda x: torch.where(x.detach() > 0, x, -x),
    "compared": lambda x: [x == x, x >= 0, torch.isnan(x)],
    "like": lambda x: [torch.zeros_like(x), torch.ones_like(x)],
    "cat": lambda x: torch.cat([x, x]),
    "no dropout": lambda x: functional.dropout(x, 0.5, False),
    "in place": lambda x: x.clone().add_(1.0).mul_(_other(x)).relu_(),
    "copy_": lambda x: x.detach().clone().copy_(_other(x)),
    "in parts": lambda x: [x.clone().unbind()[0].fill_(7.0)],
    "exp": torch.exp,
    "sum": torch.sum,
    "conv_tbc": lambda x: torch.conv_tbc(x, _dense(x, 2, 3, 3), _dense(x, 3)),
    "flatten": lambda x: x.flatten(1),
    "size": lambda x: x.size(),
    "shape": lambda x: x.shape,
    "stride": lambda x: x.stride(),
    "size of the regular": lambda x: [x.size(0), x.size(2), x.dim(), x.numel(), len(x._nested_tensor_size())],
    "size of the irregular": lambda x: x.size(1),
    "sizes": lambda x: [
        x._nested_tensor_size(),
        x.transpose(1, 2)._nested_tensor_strides(),
        x._nested_tensor_storage_offsets(),
    ],
    "facts": lambda x: [x.is_nested, x.is_contiguous(), x.transpose(1, 2).is_contiguous(), str(x.layout), x.is_leaf],
}
#: What the gradient of the CPU refuses: it says so in words of its own, or it has no kernel.
_WITHOUT_GRADIENT = frozenset({"cat", "where", "tanh", "split", "chunk", "size of the regular", "facts"})


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, torch.Tensor):
        yield value


def _plain(value: Any) -> Any:
    """Convert a result to values that can be compared."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_nested:
        return ["nested", value.dtype, *(_plain(part) for part in value.detach().unbind())]
    held = value.detach().cpu()
    return [held.dtype, held.shape, held.double().mul(1e4).round().tolist()]


def _answer(function: Function, *args: Any) -> Any:
    """Return a function's result, or its error with the CPU's name replaced by the GPU's."""
    try:
        return _plain(function(*args))
    except (RuntimeError, NotImplementedError) as error:
        return [type(error).__name__, str(error).partition("\n")[0][:60].replace("TensorCPU", "TensorCUDA")]


@on_mps
@pytest.mark.parametrize("name", OPERATIONS)
def test_computes_as_the_cpu_does(name: str) -> None:
    assert _answer(OPERATIONS[name], _nested("cuda")) == _answer(OPERATIONS[name], _nested("cpu"))


def _gradient(function: Function, device: str) -> Any:
    x = _nested(device, requires_grad=True)
    given = [one for one in _tensors(function(x)) if one.requires_grad]
    padded = [(one.contiguous().to_padded_tensor(0.0) if one.is_nested else one).cpu() for one in given]
    torch.stack([(one.float() ** 2).sum() for one in padded]).sum().backward()
    assert x.grad is not None
    assert x.grad.is_nested
    assert str(x.grad.device) == str(x.device)
    return x.grad


@on_mps
@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - _WITHOUT_GRADIENT))
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    assert _answer(_gradient, OPERATIONS[name], "cuda") == _answer(_gradient, OPERATIONS[name], "cpu")


MADE: dict[str, Callable[[], torch.Tensor]] = {
    "of the GPU's": lambda: _nested("cuda"),
    "of the CPU's": lambda: torch.nested.nested_tensor(_parts("cpu"), device="cuda"),
    "moved": lambda: _nested("cpu").cuda(),
    "moved by name": lambda: _nested("cpu").to(device="cuda", dtype=torch.float32),
    "as": lambda: torch.nested.as_nested_tensor(_parts("cuda")),
    "as, by name": lambda: torch.nested.as_nested_tensor(_parts("cpu"), device="cuda"),
    "as, by place": lambda: torch.nested.as_nested_tensor(tuple(_parts("cpu")), torch.float32, torch.device("cuda", 0)),
    "as, of one": lambda: torch.nested.as_nested_tensor(_nested("cpu"), device="cuda", layout=torch.strided),
    "copied": lambda: copy.deepcopy(_nested("cuda")),
    "pickled": lambda: pickle.loads(pickle.dumps(_nested("cuda"))),
    "padded": lambda: torch._nested_from_padded(_nested("cuda").to_padded_tensor(0.0), torch.tensor([[2, 3], [4, 3]])),
    "masked": lambda: torch._nested_tensor_from_mask(
        _nested("cuda").to_padded_tensor(0.0), torch.tensor([[True, True, False, False], [True] * 4], device="cuda")
    ),
}


@on_mps
@pytest.mark.parametrize("made", MADE)
def test_made_on_the_gpu(made: str) -> None:
    there = MADE[made]()
    assert there.is_cuda
    assert there.is_nested
    assert str(there.device) == "cuda:0"
    assert there.layout is torch.strided
    assert repr(there).startswith("nested_tensor([\n  tensor([[")
    assert repr(there).endswith("device='cuda:0')")
    assert _plain(there) == _plain(_nested("cpu"))


@on_mps
def test_parts_are_views() -> None:
    x = _nested("cuda")
    x.unbind()[0].fill_(7.0)
    x[1][0].fill_(9.0)
    x.values()[-1] = 5.0
    x.transpose(1, 2).unbind()[1][1].fill_(3.0)
    assert x.unbind()[0].tolist() == [[7.0] * 3] * 2
    assert x.cpu().unbind()[1][:, 1].tolist() == [3.0] * 4
    assert x.to_padded_tensor(0.0)[1, 0].tolist() == [9.0, 3.0, 9.0]
    assert x.to_padded_tensor(0.0)[1, 3, 2].item() == 5.0


@on_mps
def test_one_can_be_assigned_to_another() -> None:
    one, other = _nested("cuda"), torch.nested.nested_tensor([torch.ones(4), torch.ones(3)], device="cuda") * 2
    one.data = other
    assert _plain(one) == _plain(other)
    assert (one.dim(), one.numel(), one.values().tolist()) == (2, 7, [2.0] * 7)
    one.values().fill_(3.0)
    assert other.values().tolist() == [3.0] * 7


@on_mps
def test_history_crosses_devices() -> None:
    parts = [part.requires_grad_() for part in _parts("cpu")]
    (torch.nested.as_nested_tensor(parts, device="cuda") * 2).to_padded_tensor(0.0).sum().backward()
    assert [part.grad.tolist() for part in parts if part.grad is not None] == [[[2.0] * 3] * 2, [[2.0] * 3] * 4]
    there = _nested("cpu", requires_grad=True)
    (there.cuda() * 3).cpu().to_padded_tensor(0.0).sum().backward()
    assert there.grad is not None
    assert there.grad.values().tolist() == [3.0] * 18


@on_mps
def test_saved_and_loaded() -> None:
    file = io.BytesIO()
    torch.save(_nested("cuda"), file)
    file.seek(0)
    loaded = torch.load(file, map_location="cuda", weights_only=False)
    assert loaded.is_cuda
    assert _plain(loaded) == _plain(_nested("cpu"))


@on_mps
def test_drops_by_the_gpus_seed() -> None:
    def dropped() -> list[float]:
        values: list[float] = functional.dropout(
            torch.nested.nested_tensor([torch.ones(40), torch.ones(60)], device="cuda"), 0.5
        )
        return values.values().tolist()  # type: ignore[attr-defined, no-any-return]

    before = torch.get_rng_state()
    torch.cuda.manual_seed(3)
    first, second = dropped(), dropped()
    torch.cuda.manual_seed(3)
    assert dropped() == first != second
    assert 20 < first.count(0.0) < 80
    assert torch.equal(torch.get_rng_state(), before)


@on_mps
def test_calls_that_cuda_refuses() -> None:
    x = _nested("cuda")
    for call, words in (
        (lambda: x.sum(-1, True), "'aten::sum.dim_IntList' with arguments from the 'NestedTensorCUDA'"),
        (lambda: x + _nested("cpu"), "Expected all tensors to be on the same device"),
        (lambda: functional.linear(x, torch.ones(5, 3)), "weight is on cpu, different from other tensors on cuda:0"),
        (lambda: functional.linear(x, torch.ones(5, 3)), "in method wrapper_NestedTensorCUDA__linear)"),
        (lambda: x.transpose(1, 2).cpu(), "NestedTensor must be contiguous to get buffer."),
        # The gradient of a tensor of C++ is computed; ours would be taken for one.
        (lambda: _nested("cuda", True).split([1, 2], -1), "layout=torch.jagged"),
    ):
        error = raised(call)
        assert error is not None
        assert words in error[1]


@on_mps
def test_departures_are_counted() -> None:
    x = _nested("cuda")
    departures.clear()
    x.relu()
    assert left() == [[1, "aten::relu", "CPU", "the GPU's backend has no nested tensors"]]


@on_mps
def test_empty_and_irregular() -> None:
    empty = torch.nested.nested_tensor([], device="cuda")
    assert (empty.is_nested, empty.is_cuda, empty.numel(), empty.dim()) == (True, True, 0, 1)
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 5)], device="cuda") * 2
    assert [part.tolist() for part in ragged.unbind()] == [[[2.0] * 3] * 2, [[2.0] * 5]]
    with torch.inference_mode():
        assert _nested("cuda").reshape(2, -1, 3, 1).size(3) == 1


def _jagged(device: str, requires_grad: bool = False) -> torch.Tensor:
    return torch.nested.nested_tensor(_parts(device), layout=torch.jagged, requires_grad=requires_grad)


def _trained(device: str) -> Any:
    x = _jagged("cpu").to(device).requires_grad_()
    weight = _dense(x, 8, 3).requires_grad_()
    y = functional.layer_norm(functional.gelu(functional.linear(x, weight)), (8,))
    heads = y.unflatten(-1, (2, 4)).transpose(1, 2)
    attended = functional.scaled_dot_product_attention(heads, heads, heads)
    out = attended.transpose(1, 2).flatten(-2)
    out.values().pow(2).sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    assert out.is_cuda == weight.grad.is_cuda == (device == "cuda")
    return [out.unbind(), out.to_padded_tensor(0.0), weight.grad, x.grad.values()]


@on_mps
def test_jagged_ones_train_and_attend() -> None:
    assert torch.allclose(
        *(
            torch.cat([one.detach().cpu().flatten() for one in _tensors(_trained(device))])
            for device in ("cuda", "cpu")
        ),
        atol=1e-4,
    )


@on_mps
def test_jagged_ones_are_made_anywhere() -> None:
    for made in (
        _jagged("cuda"),
        _jagged("cpu").cuda(),
        torch.nested.as_nested_tensor(_parts("cpu"), device="cuda", layout=torch.jagged),
        torch.nested.as_nested_tensor(torch.ones(2, 3, 4), device="cuda", layout=torch.jagged),
        torch.nested.nested_tensor_from_jagged(torch.ones(6, 3, device="cuda"), torch.tensor([0, 2, 6], device="cuda")),
    ):
        assert made.is_cuda
        assert made.unbind()[0].is_cuda
        assert not made.cpu().is_cuda


@pytest.mark.slow
@child(CPU, MPS)
def test_as_nested_tensor_is_asked_for_cuda_everywhere() -> None:
    made = torch.nested.as_nested_tensor(_parts("cpu"), device="cuda")
    assert _plain(made) == _plain(_nested("cpu"))
    assert made.to("cuda") is made


@pytest.mark.slow
@child(MPS_FAITHFUL, alone=True)
def test_deactivation() -> None:
    before = torch.nested.as_nested_tensor.__wrapped__  # type: ignore[attr-defined]
    assert _nested("cuda").is_nested
    torchdevice_cuda.deactivate()
    assert torch.nested.as_nested_tensor is before
    assert torch.nested.nested_tensor(_parts("cpu")).is_nested
