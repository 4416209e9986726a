"""Libraries beside torch whose compiled code does not fit: bitsandbytes, torchvision, warp. Small doubles of them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
import torch
from harness import CPU, MPS, VIRTUAL, child

import torchdevice_cuda

kept: list[tempfile.TemporaryDirectory[str]] = []


def write_package(files: dict[str, str]) -> None:
    """Have a library found first; the folder goes when the child process ends."""
    kept.append(tempfile.TemporaryDirectory())
    folder = Path(kept[-1].name)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.path.insert(0, str(folder))


OPERATORS = """
import torch
torch.library.define("bitsandbytes::update", "(Tensor(a!) p, Tensor g) -> ()")
torch.library.define("bitsandbytes::portable", "(Tensor p) -> Tensor")
@torch.library.register_kernel("bitsandbytes::update", "cpu")
def _(p, g):
    p.sub_(g)
@torch.library.register_kernel("bitsandbytes::portable", "default")
def _(p):
    return p + 1
"""


@child(VIRTUAL, MPS)
def test_cpu_kernels_of_bitsandbytes_take_tensors_of_the_gpu() -> None:
    write_package(
        {
            "bitsandbytes/__init__.py": "from .backends.default import ops",
            "bitsandbytes/backends/__init__.py": "",
            "bitsandbytes/backends/default/__init__.py": "",
            "bitsandbytes/backends/default/ops.py": OPERATORS,
        },
    )
    import bitsandbytes  # noqa: F401

    p = torch.full((4,), 3.0, device="cuda")
    torch.ops.bitsandbytes.update(p, torch.ones(4, device="cuda"))
    assert p.tolist() == [2.0] * 4
    made = torch.ops.bitsandbytes.portable(p)
    assert (made.device.type, made.tolist()) == ("cuda", [3.0] * 4)


@child(CPU, VIRTUAL)
def test_a_torchvision_for_another_torch_says_so() -> None:
    write_package(
        {
            "torchvision/__init__.py": "from . import extension\nimport torch\ntorch.ops.torchvision.nms",
            "torchvision/extension.py": "def _has_ops():\n    return False\n",
            "torchvision/_C.so": "no library",
        },
    )
    with pytest.raises(ImportError, match=r"torchvision was built for another torch .*download\.pytorch\.org/whl/cpu"):
        import torchvision  # noqa: F401


@child(CPU, VIRTUAL)
def test_warp_names_the_reason() -> None:
    runtime = (
        "class Runtime:\n    def get_device(self, ident=None):\n        return ['cpu'][{'cpu': 0}.get(ident, 1)]\n"
    )
    # What warp does with a device of torch's: it looks among the GPUs that it has found itself.
    from_torch = (
        "def device_from_torch(device):\n    return [][device.index] if device.type == 'cuda' else 'cpu'\n"
        "def from_torch(tensor):\n    return device_from_torch(tensor.device)\n"
    )
    write_package(
        {
            "warp/__init__.py": "from ._src import context\nfrom ._src.torch import device_from_torch, from_torch",
            "warp/_src/__init__.py": "",
            "warp/_src/context.py": runtime,
            "warp/_src/torch.py": from_torch,
        },
    )
    import warp

    assert warp.context.Runtime().get_device("cpu") == "cpu"
    with pytest.raises(RuntimeError, match="warp has no device 'cuda:0': it needs a real NVIDIA GPU"):
        warp.context.Runtime().get_device("cuda:0")
    with pytest.raises(IndexError):
        warp.context.Runtime().get_device("tpu")
    assert warp.from_torch(torch.zeros(1)) == "cpu"
    with pytest.raises(RuntimeError, match="warp has no device 'cuda:0': it needs a real NVIDIA GPU"):
        warp.device_from_torch(torch.device("cuda:0"))
    if torchdevice_cuda.activation.driver().name == "virtual":
        with pytest.raises(RuntimeError, match="warp has no device 'cuda:0': it needs a real NVIDIA GPU"):
            warp.from_torch(torch.zeros(1, device="cuda"))
