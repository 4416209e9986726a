"""The redirection table's CUDA column through real tensors: on the virtual GPU, and on a machine with a real one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from harness import CUDA, CUDA_FAITHFUL, VIRTUAL, VIRTUAL_ACCELERATE, ChildConfig, child
from torch import nn

pytestmark = child(CUDA, CUDA_FAITHFUL, VIRTUAL_ACCELERATE, VIRTUAL)

#: What a program may write where a device is asked for, and where it goes: the GPU, or home.
REQUESTS: dict[str, tuple[Any, str]] = {
    "cpu": ("cpu", "home"),
    "cpu:0": ("cpu:0", "home"),
    "device cpu": (torch.device("cpu"), "home"),
    "mps": ("mps", "cuda"),
    "mps:0": ("mps:0", "cuda"),
    "device mps": (torch.device("mps"), "cuda"),
    "cuda": ("cuda", "cuda"),
    "cuda:0": ("cuda:0", "cuda"),
    "device cuda": (torch.device("cuda"), "cuda"),
    "device cuda:0": (torch.device("cuda", 0), "cuda"),
    "0": (0, "cuda"),
}


def on_the_cpu() -> torch.Tensor:
    """Return a tensor that is on the CPU whatever the policy."""
    return torch._C.TensorBase.cpu(torch.ones(2))


def kind(tensor: torch.Tensor) -> str:
    """Return a tensor's real device type."""
    return torch._C.TensorBase.device.__get__(tensor).type


def home(place: ChildConfig, override: bool) -> str:
    """Return the device to which requests for the CPU go."""
    return "cuda" if place.settings.get("policy") == "accelerate" and not override else "cpu"


@contextlib.contextmanager
def overridden(override: bool) -> Iterator[None]:
    """While the override is on, if it is to be: "cpu:-1" turns it over."""
    if override:
        torch.zeros(1, device="cpu:-1")
    yield
    if override:
        torch.zeros(1, device="cpu:-1")


def loaded(location: Any) -> torch.Tensor:
    saved = io.BytesIO()
    torch.save({"x": torch.ones(2)}, saved)
    saved.seek(0)
    return torch.load(saved, map_location=location)["x"]


def by_default(location: Any) -> torch.Tensor:
    torch.set_default_device(location)
    try:
        return torch.zeros(2)
    finally:
        torch.set_default_device(None)


def in_context(location: Any) -> torch.Tensor:
    with torch.device(location):
        return torch.zeros(2)


MAKERS: dict[str, Callable[[Any], torch.Tensor]] = {
    "zeros": lambda device: torch.zeros(2, device=device),
    "tensor": lambda device: torch.tensor([1.0], device=device),
    "rand": lambda device: torch.rand(2, device=device),
    "zeros_like": lambda device: torch.zeros_like(on_the_cpu(), device=device),
    "new_zeros": lambda device: on_the_cpu().new_zeros(2, device=device),
    "to": lambda device: on_the_cpu().to(device),
    "to by name": lambda device: torch.ones(2, device="cuda").to(device=device),
    "Module.to": lambda device: nn.Linear(1, 1).to(device).weight,
    "load": loaded,
    "default device": by_default,
    "context": in_context,
}
#: torch.device("cpu:-1") is an error of torch's own: the toggle exists only where a request is a string.
TOGGLING = ("zeros", "tensor", "rand", "zeros_like", "new_zeros", "to", "to by name")


@pytest.mark.parametrize("override", [False, True], ids=["", "override"])
@pytest.mark.parametrize("maker", MAKERS)
def test_row(place: ChildConfig, maker: str, override: bool) -> None:
    for request, goes in REQUESTS.values():
        if (maker, request) == ("load", 0):
            continue  # torch.load takes no integer for a location
        with overridden(override):
            assert kind(MAKERS[maker](request)) == (home(place, override) if goes == "home" else "cuda"), request


@pytest.mark.parametrize("maker", TOGGLING)
def test_the_toggle_itself_gives_the_cpu(maker: str) -> None:
    assert kind(MAKERS[maker]("cpu:-1")) == "cpu"
    assert kind(MAKERS[maker]("cpu:-1")) == "cpu"


@pytest.mark.parametrize("override", [False, True], ids=["", "override"])
def test_methods_that_name_a_device(place: ChildConfig, override: bool) -> None:
    with overridden(override):
        assert kind(torch.ones(2, device="cuda").cpu()) == home(place, override)
        assert kind(nn.Linear(1, 1, device="cuda").cpu().weight) == home(place, override)
        assert kind(on_the_cpu().cuda()) == "cuda"
        assert kind(nn.Linear(1, 1).cuda().weight) == "cuda"


UNASKED: dict[str, Callable[[], torch.Tensor]] = {
    "zeros": lambda: torch.zeros(2),
    "tensor": lambda: torch.tensor([1.0]),
    "rand": lambda: torch.rand(2),
    "arange": lambda: torch.arange(2),
    "normal": lambda: torch.normal(0.0, 1.0, (2,)),
    "as_tensor": lambda: torch.as_tensor([1.0]),
    "frombuffer": lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
    "Linear": lambda: nn.Linear(1, 1).weight,
}


@pytest.mark.parametrize("maker", UNASKED)
def test_without_a_device(place: ChildConfig, maker: str) -> None:
    assert kind(UNASKED[maker]()) == home(place, override=False)


def test_like_factories_use_their_models_device() -> None:
    assert kind(torch.zeros_like(on_the_cpu())) == "cpu"
    assert kind(torch.normal(on_the_cpu(), 1.0)) == "cpu"
    assert kind(torch.randperm(3, generator=torch.Generator())) == "cpu"


def test_other_devices_pass_through() -> None:
    assert kind(torch.zeros(2, device="meta")) == "meta"


def test_values_come_home() -> None:
    assert torch.zeros(2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("bad", ["cuda:99", "gpu", "cuda:x"])
def test_bad_requests(bad: str) -> None:
    with pytest.raises(RuntimeError):
        torch.zeros(1, device=bad)
