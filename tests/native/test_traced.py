"""``torch.jit.trace`` on the device: what it records is what was called, with the tensors that it was called with."""

from __future__ import annotations

import io

import pytest
import torch
from harness import VIRTUAL, child
from torch import nn

pytestmark = child(VIRTUAL)
IMAGE, SEQUENCE = (2, 4, 8, 8), (5, 2, 4)
MODULES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "convolution": (nn.Conv2d(4, 6, 3), IMAGE),
    "of a sequence": (nn.Conv1d(4, 6, 3), (2, 4, 8)),
    "of a volume": (nn.Conv3d(4, 6, 3), (2, 4, 5, 5, 5)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, stride=2), IMAGE),
    "of groups": (nn.Conv2d(4, 8, 3, groups=4, padding="same"), IMAGE),
    "normalised": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)), IMAGE),
    "upsampled": (nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2)), IMAGE),
    "padded": (nn.Sequential(nn.ReflectionPad2d(2), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Softmax(1)), IMAGE),
    "attention": (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), SEQUENCE),
    "recurrent": (nn.LSTM(4, 6), SEQUENCE),
    "linear": (nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2)), SEQUENCE),
    "unfolded": (nn.Unfold(3), IMAGE),
}


def _first(result: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_a_trace_is_of_its_inputs(name: str, gradients: bool) -> None:
    module, size = MODULES[name]
    module = module.cuda().eval()
    with torch.set_grad_enabled(gradients):
        # It compares the trace with the module itself, with the inputs that it was traced with.
        traced = torch.jit.trace(module, torch.randn(size, device="cuda"))
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        other = torch.randn(size, device="cuda")
        for program in (traced, torch.jit.load(file)):
            made = _first(program(other))
            assert made.is_cuda
            torch.testing.assert_close(made, _first(module(other)))
    assert not [line for line in str(traced.inlined_graph).splitlines() if "Float" in line and "device=cpu" in line]
