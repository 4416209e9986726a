"""Quantised tensors on a GPU on which torch makes none: the host's, under the GPU's name, with CUDA's refusals."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import MPS, MPS_FAITHFUL, child

import torchdevice_cuda
from torchdevice_cuda.report.departures import departures

from .seeing import left, raised

warnings.filterwarnings("ignore", "(?s).*quantized tensor creation functions")
on_mps = child(MPS_FAITHFUL)
CHANNELS = ([0.5, 0.25, 0.125], [0, 0, 0])


def _numbers() -> torch.Tensor:
    return torch.arange(-4.0, 5.0).reshape(3, 3)


def _whole(x: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)


def _by_channel(x: torch.Tensor) -> torch.Tensor:
    scales, zeros = (torch.tensor(each, device=x.device) for each in CHANNELS)
    return torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)


def _plain(value: Any) -> Any:
    """Convert a result to values that can be compared."""
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    assert type(value.cpu()) is torch.Tensor
    held = value.cpu()
    if not held.is_quantized:
        return [held.dtype, held.stride(), held.tolist()]
    return [held.dtype, held.stride(), held.qscheme(), held.int_repr().tolist(), held.dequantize().tolist()]


MADE: dict[str, Callable[[str], torch.Tensor]] = {
    "moved": lambda device: _whole(_numbers()).to(device),
    "quantised": lambda device: _whole(_numbers().to(device)),
    "by channel": lambda device: _by_channel(_numbers().to(device)),
    "dynamic": lambda device: torch.quantize_per_tensor_dynamic(_numbers().to(device), torch.quint8, False),
    "of integers": lambda device: torch._make_per_tensor_quantized_tensor(_numbers().char().to(device), 0.5, 0),
    "empty": lambda device: torch._empty_affine_quantized(
        [3, 3], scale=0.5, zero_point=0, dtype=torch.qint8, device=device
    ).copy_(_whole(_numbers())),
}


@on_mps
@pytest.mark.parametrize("made", MADE)
def test_made_and_moved(made: str) -> None:
    there, here = MADE[made]("cuda"), MADE[made]("cpu")
    assert there.is_cuda
    assert there.is_quantized
    assert str(there.device) == "cuda:0"
    assert repr(there).startswith("tensor(")
    assert "device='cuda:0'" in repr(there)
    assert _plain(there) == _plain(here)
    assert there.dequantize().is_cuda
    assert there.int_repr().is_cuda


#: What CUDA computes, too.
OPERATORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dequantize": lambda q: q.dequantize(),
    "int_repr": lambda q: q.int_repr(),
    "figures": lambda q: (q.q_scale(), q.q_zero_point(), str(q.qscheme())),
    "sizes": lambda q: (tuple(q.shape), q.t().stride(), q.numel(), len(q), q.dim(), q.is_contiguous()),
    "clone": lambda q: q.clone(),
    "view": lambda q: q.view(-1),
    "row": lambda q: q[1],
    "transposed": lambda q: q.t().contiguous(),
    "sorted": lambda q: q.sort(),
    "relu": lambda q: torch.relu(q),
    "filled": lambda q: q.clone().fill_(1.5),
    "in place": lambda q: q.clone().unsqueeze_(0),
    "pooled": lambda q: torch.nn.functional.max_pool2d(q.view(1, 1, 3, 3), 2),
    "added": lambda q: torch.ops.quantized.add(q, q, 1.0, 0),
    "deep copy": copy.deepcopy,
    "through float": lambda q: _whole(q.dequantize() * 2),
}


@on_mps
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: str) -> None:
    there, here = OPERATORS[operator](_whole(_numbers()).cuda()), OPERATORS[operator](_whole(_numbers()))
    assert _plain(there) == _plain(here)
    assert all(
        value.is_cuda for value in (there, *(there if isinstance(there, tuple) else ())) if hasattr(value, "is_cuda")
    )


@on_mps
def test_views_share_memory() -> None:
    q = _whole(_numbers()).cuda()
    q[0].copy_(q[2])
    q.view(-1)[4:5].fill_(3.0)
    assert q.dequantize().cpu().tolist() == [[2, 3, 4], [-1, 3, 1], [2, 3, 4]]
    home = q.cpu()
    home.fill_(0.0)
    assert q.dequantize().max().item() == 4


#: What CUDA has no kernel for, and the operator that it names. From a record of an H200.
REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "number": (lambda q: torch.ops.quantized.add_scalar(q, 2.0), "quantized::add_scalar"),
    "cat of the library": (lambda q: torch.ops.quantized.cat([q, q], 0, 1.0, 0), "quantized::cat"),
    "max": (lambda q: q.max(), "aten::max"),
    "equal": (lambda q: torch.equal(q, q), "aten::equal"),
    "cat": (lambda q: torch.cat([q, q]), "aten::cat.out"),
    "mask": (lambda q: q[torch.tensor([True, False, True], device=q.device)], "aten::index.Tensor_out"),
    "times": (lambda q: q * 2, "aten::mul.out"),
}


@on_mps
@pytest.mark.parametrize("call", REFUSED)
def test_refused_as_on_cuda(call: str) -> None:
    function, named = REFUSED[call]
    kind, words = raised(lambda: function(_whole(_numbers()).cuda())) or ("", "")
    assert kind == "NotImplementedError"
    assert words.startswith(f"Could not run '{named}' with arguments from the 'QuantizedCUDA' backend. This could be")


@on_mps
def test_saved_and_loaded() -> None:
    """Saved tensors can be read anywhere and are loaded to the device that the program names."""
    file = io.BytesIO()
    torch.save(_by_channel(_numbers().cuda()), file)
    file.seek(0)
    assert type(torch.load(file)) is torch.Tensor
    file.seek(0)
    again = torch.load(file, map_location="cuda")
    assert again.is_cuda
    assert _plain(again) == _plain(_by_channel(_numbers()))


@on_mps
def test_departures_are_counted() -> None:
    q = _whole(_numbers()).cuda()
    departures.clear()
    q.dequantize()
    assert left() == [[1, "aten::dequantize.self", "CPU", "the GPU's backend has no quantized tensors"]]


@child(MPS, alone=True)
def test_a_program_of_the_cpu_computes_what_the_cpu_does() -> None:
    """If requests for the CPU go to the GPU, too, no tensor that reports the CPU is refused."""
    q = _whole(_numbers())
    assert not q.is_cuda
    assert torch.ops.quantized.add_scalar(q, 2.0).dequantize().tolist() == (_numbers() + 2).tolist()
    assert torch.equal(q, q)
    torch.backends.quantized.engine = "qnnpack"  # the one that every processor has
    layer = torch.ao.nn.quantized.Linear(3, 2)
    assert layer(torch.quantize_per_tensor(torch.ones(1, 3), 0.1, 0, torch.quint8)).shape == (1, 2)


@child(MPS_FAITHFUL, alone=True)
def test_no_memory_is_left() -> None:
    """The double refuses as torch does, so that all of this shows what a Mac would; and does so again."""
    torchdevice_cuda.deactivate()
    kind, words = raised(lambda: _whole(_numbers()).to("mps")) or ("", "")
    assert kind == "NotImplementedError"
    assert "'QuantizedMPS'" in words


@on_mps
def test_one_can_be_assigned_to_another() -> None:
    one, other = _whole(_numbers()).cuda(), _by_channel(_numbers().cuda() * 2)
    one.data = other
    assert _plain(one) == _plain(other) == _plain(_by_channel(_numbers() * 2))
    assert one.data.is_quantized
    error = raised(lambda: setattr(one, "data", _whole(_numbers())))
    assert error is not None
    assert "incompatible tensor type" in error[1]


@on_mps
def test_tensors_of_the_cpu_are_refused() -> None:
    """By operators that iterate before they look for a kernel; and by cuDNN's, which would lose a GPU."""
    there, here = _whole(_numbers()).cuda(), _whole(_numbers())
    for call in (
        lambda: torch.ops.quantized.add(there, here, 0.5, 0),
        lambda: torch.ops.quantized.add(here, there, 0.5, 0),
        lambda: there == here,
        lambda: torch.max(there, here),
    ):
        error = raised(call)
        assert error == (
            "RuntimeError",
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        )
    error = raised(lambda: torch.cat([there, here]))
    assert error is not None
    assert "Could not run 'aten::cat.out' with arguments from the 'QuantizedCUDA' backend" in error[1]
