"""The program sees CUDA: the devices that tensors, modules, storages, generators, files and errors report."""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..asking import Finding, NotHereError, Wrong, expect, main, question


def _plain(text: str) -> None:
    expect("mps" not in text.lower(), f"names the Apple GPU: {text}")


def _only_disguised() -> None:
    from torchdevice_cuda.activation import current_settings

    if current_settings().identity != "cuda":
        raise NotHereError("--identity native: tensors say what they are")


def _raised(call: Callable[[], object]) -> str:
    try:
        call()
    except (RuntimeError, TypeError, AssertionError, IndexError) as error:
        return str(error)
    raise Wrong("nothing is refused")


@question
def a_tensor() -> Finding:
    _only_disguised()
    x = torch.ones(2, device="cuda")
    expect(str(x.device) == "cuda:0", f"x.device is {x.device}")
    expect(x.device.type == "cuda" and x.is_cuda and not x.is_cpu, "x is not of CUDA")
    expect(x.get_device() == 0, f"x.get_device() is {x.get_device()}")
    expect(x.type() == "torch.cuda.FloatTensor", f"x.type() is {x.type()}")
    expect(not x.is_mps, "x.is_mps is true")
    return None


@question
def texts() -> Finding:
    _only_disguised()
    x, model = torch.ones(2, device="cuda"), nn.Linear(2, 2).cuda()
    for text in (repr(x), str(x), repr(model.weight), repr(model), repr(x.storage()), repr(x.requires_grad_() + 1)):
        _plain(text)
    expect("device='cuda:0'" in repr(torch.ones(2, device="cuda")), f"repr is {x!r}")
    return None


@question
def modules_and_results() -> Finding:
    _only_disguised()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).cuda()
    out = model(torch.ones(1, 4, device="cuda"))
    out.sum().backward()
    tensors = [out, *model.parameters(), *(parameter.grad for parameter in model.parameters())]
    devices = {str(tensor.device) for tensor in tensors if tensor is not None}
    expect(devices == {"cuda:0"}, f"parameters, gradients and results are on {sorted(devices)}")
    return None


@question
def storages_and_generators() -> Finding:
    _only_disguised()
    x = torch.ones(2, device="cuda")
    devices = [
        x.untyped_storage().device,
        torch.Generator(device="cuda").device,
        torch.cuda.default_generators[0].device,
    ]
    expect({device.type for device in devices} == {"cuda"}, f"a storage and generators are on {devices}")
    return None


@question
def files() -> Finding:
    _only_disguised()
    file, tagged = io.BytesIO(), []
    torch.save(torch.ones(2, device="cuda"), file)
    file.seek(0)

    def place(storage: Any, location: str) -> Any:
        tagged.append(location)
        return storage

    torch.load(file, map_location=place, weights_only=False)
    expect(tagged == ["cuda:0"], f"a saved tensor is tagged {tagged}")
    return None


@question
def errors() -> Finding:
    _only_disguised()
    x = torch.ones(2, device="cuda")
    said = {
        "another GPU": _raised(lambda: torch.ones(1, device=f"cuda:{torch.cuda.device_count()}")),
        "as an array": _raised(x.numpy) if _has_numpy() and not _brings_home() else "",
        "shapes": _raised(lambda: x @ torch.ones(3, device="cuda")),
        "an index": _raised(lambda: x[7]),
    }
    for text in said.values():
        _plain(text)
    return {**said, "seen as they are raised": sys.version_info >= (3, 12)}


def _has_numpy() -> bool:
    """Return whether NumPy is installed: without it torch refuses for another reason."""
    return importlib.util.find_spec("numpy") is not None


def _brings_home() -> bool:
    """Return whether NumPy gets a copy of a tensor: under ``accelerate``, if the tensor reports the CPU."""
    try:
        torch.ones(1, device="cuda").numpy()
    except TypeError:
        return False
    return True


@question
def apple_is_not_seen() -> Finding:
    _only_disguised()
    expect(not torch.backends.mps.is_available(), "torch.backends.mps.is_available() is true")
    expect(torch.version.cuda, "torch.version.cuda is not there")
    return None


if __name__ == "__main__":
    main()
