"""Scoped state: default devices and dtypes, autocast, the state of random generators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, child
from torch import nn

from .asking import HOST, on_cuda

pytestmark = child(CPU, CPU.when("after"))


# ---------------------------------------------------------------------------- devices
@pytest.mark.parametrize("request_", ["cuda", "cuda:0", "device", "mps"])
def test_default_device(request_: str) -> None:
    torch.set_default_device(torch.device("cuda") if request_ == "device" else request_)
    try:
        made = [torch.zeros(2), torch.tensor([1.0]), torch.arange(2), nn.Linear(2, 2).weight, torch.rand(2)]
        assert [tensor.device for tensor in made] == [HOST] * 5
        assert on_cuda(torch.zeros(2))
    finally:
        torch.set_default_device(None)
    assert not on_cuda(torch.zeros(2))
    assert torch.get_default_device() == HOST


def test_device_contexts() -> None:
    with torch.device("cuda"):
        assert on_cuda(torch.zeros(2))
        assert on_cuda(torch.full((1,), 2.0))
        assert not on_cuda(torch.zeros(2, device="cpu"))
        assert nn.Linear(2, 2).weight.device == HOST
    assert not on_cuda(torch.zeros(2))


def test_device_contexts_in_device_contexts() -> None:
    with torch.device("cuda"):
        with torch.device("meta"):
            assert torch.zeros(2).is_meta
            assert torch.empty(3, device="cuda").device == HOST
        assert on_cuda(torch.zeros(2))
        with torch.device("cpu"):
            assert not on_cuda(torch.zeros(2))


def test_contexts_of_torch_cuda() -> None:
    with torch.cuda.device(0):
        assert torch.zeros(2, device="cuda").device == HOST


def test_default_tensor_type() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.set_default_tensor_type(torch.cuda.DoubleTensor)
            assert torch.zeros(1).dtype is torch.float64
            torch.set_default_tensor_type("torch.cuda.HalfTensor")
            assert torch.zeros(1, device="cuda").dtype is torch.float16
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)


def test_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(1, device="cuda").dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# ---------------------------------------------------------------------------- autocast
AUTOCASTS: dict[str, Callable[[], torch.autocast]] = {
    "cuda": lambda: torch.autocast("cuda"),
    "float16": lambda: torch.amp.autocast("cuda", dtype=torch.float16),
    "bfloat16": lambda: torch.autocast(device_type="cuda", dtype=torch.bfloat16),
}


@pytest.mark.parametrize("name", AUTOCASTS)
def test_autocast_says_so(name: str) -> None:
    with AUTOCASTS[name]():
        assert torch.is_autocast_enabled("cuda")
        assert torch.is_autocast_enabled()
        assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cuda")


@pytest.mark.parametrize("name", AUTOCASTS)
def test_autocast_computes_so(name: str) -> None:
    x = torch.ones(4, 4, device="cuda")
    with AUTOCASTS[name]():
        dtype = torch.get_autocast_dtype("cuda")
        assert (x @ x).dtype is dtype
        assert nn.functional.linear(x, x).dtype is dtype
        assert (x @ x).softmax(-1).dtype is torch.float32
        assert nn.functional.mse_loss(x @ x, x).dtype is torch.float32
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is dtype
    assert (x @ x).dtype is torch.float32


def test_autocast_of_the_cpu_is_its_own() -> None:
    x = torch.ones(4, 4, device="cuda")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled("cuda")
        assert (x @ x).dtype is torch.bfloat16


def test_autocast_as_decorator() -> None:
    @torch.autocast("cuda")
    def product() -> torch.Tensor:
        return torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")

    assert product().dtype is torch.float16


class _Custom(torch.autograd.Function):
    """Notes the dtype it is given, and whether autocast is on."""

    seen: list[tuple[torch.dtype, bool]] = []

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        _Custom.seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        _Custom.seen.append((grad.dtype, torch.is_autocast_enabled("cuda")))
        return grad * 2


def test_custom_forward_and_backward() -> None:
    _Custom.seen.clear()
    x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        _Custom.apply(x).sum().backward()
    assert _Custom.seen == [(torch.float32, False), (torch.float32, False)]
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


SCALERS: dict[str, Callable[..., torch.amp.GradScaler]] = {
    "torch.amp": lambda **options: torch.amp.GradScaler("cuda", **options),
    "torch.cuda.amp": lambda **options: torch.cuda.amp.GradScaler(**options),
}


@pytest.mark.parametrize("name", SCALERS)
def test_scalers(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = SCALERS[name](init_scale=8.0, growth_interval=2, growth_factor=2.0, backoff_factor=0.5)
    weight = nn.Parameter(torch.ones(2, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def step(factor: float) -> None:
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([weight], 1e9)
        scaler.step(optimizer)
        scaler.update()

    assert scaler.is_enabled()
    assert scaler.get_scale() == 8.0
    step(1.0)
    assert weight.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 8.0
    step(float("inf"))
    assert weight.tolist() == [0.5, 0.5], "a step with infinite gradients is skipped"
    assert scaler.get_scale() == 4.0, "and the scale backs off"
    step(1.0)
    step(1.0)
    assert weight.tolist() == [-0.5, -0.5]
    assert scaler.get_scale() == 8.0, "two good steps let it grow"
    other = torch.amp.GradScaler("cuda")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0


# ------------------------------------------------------------------------------ random
@pytest.mark.parametrize(
    "options", [{}, {"devices": [0]}, {"devices": ["cuda:0"]}, {"device_type": "cuda"}], ids=["", "0", "cuda:0", "cuda"]
)
def test_fork_rng(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    host, device = torch.get_rng_state(), torch.cuda.get_rng_state()
    with torch.random.fork_rng(**options):
        torch.rand(2)
        torch.rand(2, device="cuda")
        torch.cuda.manual_seed(5)
    assert torch.equal(host, torch.get_rng_state())
    assert torch.equal(device, torch.cuda.get_rng_state())


def test_states_of_all_devices() -> None:
    states = torch.cuda.get_rng_state_all()
    first = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(first, torch.rand(3, device="cuda"))


# ------------------------------------------------------------------------- accelerator
def test_the_accelerator_is_cuda() -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device("cuda")
    assert accelerator.device_count() == 1
    assert accelerator.current_device_index() == 0
    assert accelerator.set_device_index(0) is None
    assert accelerator.synchronize() is None
    assert accelerator.current_stream() is not None


def test_modules_of_devices() -> None:
    assert torch.get_device_module() is torch.cuda
    assert torch.get_device_module("cuda") is torch.cuda
    assert torch.get_device_module(torch.device("cuda:0")) is torch.cuda
    assert torch.get_device_module("cpu") is torch.cpu


def test_the_accelerator_is_a_device() -> None:
    assert torch.zeros(1, device=0).device == HOST
    assert torch.zeros(1, device=torch.accelerator.current_accelerator()).device == HOST
