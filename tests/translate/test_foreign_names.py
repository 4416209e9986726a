"""``mps`` and the toggle ``cpu:-1`` on every driver: they mean the accelerator and the CPU, whatever torch says."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import ACCELERATING, CPU, FAITHFUL, STOCK, VIRTUAL, ChildConfig, child, in_child
from torch import nn

EVERY = (*ACCELERATING, *FAITHFUL, CPU, CPU.with_settings(policy="accelerate"))
everywhere = child(*EVERY)


def real(x: torch.Tensor | torch.UntypedStorage) -> str:
    """Return the type of the device that really holds a tensor or a storage."""
    owner: Any = torch._C.TensorBase if isinstance(x, torch.Tensor) else torch._C.StorageBase
    return vars(owner)["device"].__get__(x).type


def gpu(place: ChildConfig) -> str:
    """Return the type of the accelerator's tensors; on the ``cpu`` driver the CPU's."""
    return {"virtual": "cuda"}.get(place.driver or "", place.driver or "")


def home() -> torch.Tensor:
    """Return a tensor that is on the CPU whatever the policy."""
    return torch._C._VariableFunctions.ones(2)


def loaded(location: Any) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(home(), file)
    file.seek(0)
    return torch.load(file, map_location=location)


def by_default(device: Any) -> torch.Tensor:
    torch.set_default_device(device)
    try:
        return torch.zeros(2)
    finally:
        torch.set_default_device(None)


def in_context(device: Any) -> torch.Tensor:
    with torch.device(device):
        return torch.zeros(2)


def bound(device: Any) -> torch.Tensor:
    move = home().to
    return move(device)


#: Ways of asking that take text, the toggle too.
WAYS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda device: torch.zeros(2, device=device),
    "zeros by name": lambda device: torch.zeros(size=(2,), device=device),
    "tensor": lambda device: torch.tensor([1.0], device=device),
    "as_tensor": lambda device: torch.as_tensor([1.0], device=device),
    "asarray": lambda device: torch.asarray([1.0], device=device),
    "rand": lambda device: torch.rand(2, device=device),
    "randperm": lambda device: torch.randperm(2, device=device),
    "arange": lambda device: torch.arange(2, device=device),
    "full": lambda device: torch.full((2,), 1.0, device=device),
    "tril_indices": lambda device: torch.tril_indices(2, 2, device=device),
    "fftfreq": lambda device: torch.fft.fftfreq(4, device=device),
    "sparse": lambda device: torch.sparse_coo_tensor([[0]], [1.0], (2,), device=device),
    "zeros_like": lambda device: torch.zeros_like(home(), device=device),
    "rand_like": lambda device: torch.rand_like(home(), device=device),
    "new_zeros": lambda device: home().new_zeros(2, device=device),
    "new_tensor": lambda device: home().new_tensor([1.0], device=device),
    "to": lambda device: home().to(device),
    "to with dtype": lambda device: home().to(device, torch.float16),
    "to by name": lambda device: home().to(device=device, non_blocking=True),
    "to bound": bound,
    "to on the GPU": lambda device: torch.ones(2, device="cuda").to(device),
    "Linear": lambda device: nn.Linear(1, 1, device=device).weight,
    "Module.to": lambda device: nn.Linear(1, 1).to(device).weight,
    "Module.to by name": lambda device: nn.Linear(1, 1, device="cuda").to(device=device).bias,
    "load": loaded,
    "default device": by_default,
    "Generator": lambda device: torch.rand(2, generator=torch.Generator(device), device=device),
    "storage": lambda device: torch.UntypedStorage(4, device=device),
    "storage to": lambda device: home().untyped_storage().to(device=device),
}
#: Ways that take what torch.device takes, which the toggle is not.
DEVICES: dict[str, Callable[[Any], Any]] = {
    "context": in_context,
    "load by a dictionary": lambda device: loaded({"cpu": str(device)}),
    "load by a function": lambda device: loaded(lambda storage, _: storage.mps()),
    "storage mps": lambda device: home().untyped_storage().mps(),
    "to_empty": lambda device: nn.Linear(1, 1, device="meta").to_empty(device=device).weight,
    "new by the GPU's": lambda device: torch.ones(1, device=device).new_zeros(1),
    "like the GPU's": lambda device: torch.zeros_like(torch.ones(1, device=device)),
}
FORMS: tuple[Any, ...] = ("mps", "mps:0", torch.device("mps"), torch.device("mps", 0))


@everywhere
@pytest.mark.parametrize("way", [*WAYS, *DEVICES])
def test_mps_is_the_accelerator(place: ChildConfig, way: str) -> None:
    for form in FORMS:
        assert real({**WAYS, **DEVICES}[way](form)) == gpu(place), form


@everywhere
@pytest.mark.parametrize("way", [way for way in WAYS if way != "Generator"])
def test_the_toggle_gives_the_cpu_and_turns_over(place: ChildConfig, way: str) -> None:
    redirects = place.settings.get("policy") == "accelerate"
    first = WAYS[way]("cpu:-1")
    overridden = torch.zeros(1, device="cpu")
    second = WAYS[way]("cpu:-1")
    # What sets a default device to the CPU is followed by a request for the CPU, which is redirected again then.
    after = gpu(place) if redirects and way == "default device" else "cpu"
    assert [real(first), real(overridden), real(second)] == ["cpu", "cpu", after]
    assert real(torch.zeros(1, device="cpu")) == (gpu(place) if redirects else "cpu")


@everywhere
def test_generators_on_the_cpu_by_the_toggle() -> None:
    for _ in range(2):
        assert torch.Generator("cpu:-1").device.type == "cpu"


@everywhere
def test_draws_of_both_names_are_the_same() -> None:
    drawn = [torch.rand(3, generator=torch.Generator(name).manual_seed(1), device=name) for name in ("mps", "cuda")]
    assert torch.equal(*drawn)


@everywhere
def test_tensors_on_the_device_are_not_moved() -> None:
    x = torch.ones(2, device="cuda")
    assert x.to("mps") is x


@everywhere
def test_autocast() -> None:
    a = torch.ones(2, 2, device="mps")
    with torch.autocast("mps", dtype=torch.float16):
        assert (a @ a).dtype is torch.float16
        assert torch.is_autocast_enabled("cuda")
    assert (a @ a).dtype is torch.float32


@everywhere
def test_scalers() -> None:
    scaler = torch.amp.GradScaler("mps", init_scale=4.0)
    weight = nn.Parameter(torch.ones(2, device="mps"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(weight.sum()).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0, 4.0]
    scaler.step(optimizer)
    assert weight.tolist() == [0.0, 0.0]


@everywhere
def test_functions_of_torch_mps() -> None:
    torch.mps.synchronize()
    torch.mps.empty_cache()
    torch.mps.manual_seed(3)
    state = torch.mps.get_rng_state()
    drawn = torch.rand(4, device="mps").tolist()
    torch.mps.set_rng_state(state)
    assert torch.rand(4, device="mps").tolist() == drawn
    torch.cuda.manual_seed(3)
    assert torch.rand(4, device="cuda").tolist() == drawn
    start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) >= 0  # which waits; after end.synchronize() it may wait for ever on a Mac


@child(CPU, VIRTUAL)
@pytest.mark.parametrize("name", ["current_allocated_memory", "driver_allocated_memory", "recommended_max_memory"])
def test_memory_queries_of_other_accelerators_raise_as_in_stock_torch(name: str) -> None:
    """DeepSpeed takes torch.mps for the accelerator if `torch.mps.current_allocated_memory()` returns."""
    with pytest.raises(RuntimeError, match="without MPS backend"):
        getattr(torch.mps, name)()
    assert not torch.xpu.is_available()
    assert not torch.mtia.is_available()
    assert not hasattr(torch, "hpu")


@everywhere
def test_a_machine_with_cuda_has_no_apple_gpu() -> None:
    """Programs ask for it first, and would do without CUDA's features."""
    assert torch.cuda.is_available()
    assert not torch.backends.mps.is_available()


@everywhere
def test_devices_are_what_they_say() -> None:
    """``torch.device`` is left alone: it prints, compares and pickles as ever."""
    device = torch.device("mps")
    assert (str(device), device.type, repr(device)) == ("mps", "mps", "device(type='mps')")
    assert device != torch.device("cuda")
    assert pickle.loads(pickle.dumps(device)) == device
    with pytest.raises(RuntimeError, match="Invalid device string: 'cpu:-1'"):
        torch.device("cpu:-1")


@everywhere
def test_a_training_program_of_a_mac() -> None:
    device = torch.device("mps")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        x, y = torch.rand(4, 4).to(device), torch.zeros(4, 1, device=device)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    assert {p.device.type for p in model.parameters()} == {torch.ones(1, device="cuda").device.type}


# ------------------------------------------------------------- a move between the CPU and the GPU copies
@child(*ACCELERATING)
def test_tensors_redirected_to_the_gpu_are_copied_to_it(place: ChildConfig) -> None:
    for move in (lambda x: x.cuda(), lambda x: x.to("cuda"), lambda x: x.to("mps"), lambda x: x.to(device=0)):
        x = torch.zeros(2)
        y = move(x)
        y += 1
        assert (real(x), x.tolist(), y.tolist()) == (gpu(place), [0.0, 0.0], [1.0, 1.0])
        back = y.cpu()
        back += 1
        assert (y.tolist(), back.tolist()) == ([1.0, 1.0], [2.0, 2.0])
        assert move(y) is y


@child(*ACCELERATING)
def test_float64_that_the_gpu_has_stays_what_it_is(place: ChildConfig) -> None:
    wanted = torch.float32 if place.driver == "mps" else torch.float64
    batch = next(iter(torch.utils.data.DataLoader([0.5, 1.5], 2)))
    assert (batch.dtype, real(batch)) == (wanted, gpu(place))


# ------------------------------------------------------------------------------ errors stay torch's
BAD: dict[str, Callable[[], object]] = {
    "no device": lambda: torch.zeros(2, device="gpu"),
    "no such index": lambda: torch.zeros(2, device="mps:x"),
    "size": lambda: torch.zeros(-1, device="mps"),
    "dtype": lambda: torch.zeros(2, device="mps", dtype="f"),
    "argument": lambda: torch.zeros(2, device="mps", colour=1),
    "to nothing": lambda: torch.ones(2).to("mps", colour=1),
    "data": lambda: torch.tensor("mps"),
    "cuda": lambda: torch.ones(2).cuda("mps"),
    "generator": lambda: torch.Generator("gpu"),
}


def error_of(bad: str, name: str) -> list[str]:
    """Return the error of a call, its words as they are where ``mps`` is ``name``."""
    with pytest.raises(Exception) as raised:  # noqa: PT011  (its type is compared)
        BAD[bad]()
    return [type(raised.value).__name__, str(raised.value).splitlines()[0].replace(name, "GPU")]


@child(VIRTUAL, as_in=STOCK)
@pytest.mark.parametrize("bad", [bad for bad in BAD if bad not in ("size", "cuda")])
def test_errors_are_torchs(bad: str) -> list[str]:
    return error_of(bad, "mps")


@child(VIRTUAL)
def test_errors_are_those_of_the_device_that_was_meant() -> None:
    assert "size must be non-negative" in error_of("size", "mps")[1]
    assert error_of("cuda", "mps") == ["RuntimeError", "Invalid device, must be cuda device"]


# -------------------------------------------------------- nothing of torch's is another object for it
LEFT_ALONE = ("zeros", "ones", "empty", "rand", "randn", "tensor", "as_tensor", "zeros_like", "arange", "Generator")


def changed_objects() -> list[str]:
    """List functions that activation on the virtual GPU replaces or hashes differently; then those after undoing it."""
    import torchdevice_cuda

    before = {name: (getattr(torch, name), hash(getattr(torch, name))) for name in LEFT_ALONE}
    before["to"] = (torch.Tensor.to, hash(torch.Tensor.to))
    bound_before = torch.ones(2).to
    torchdevice_cuda.activate(driver="virtual")
    assert torch.zeros(2, device="mps").is_cuda
    assert bound_before("cpu").tolist() == [1.0, 1.0]
    bound_meanwhile = torch.ones(2).to

    def changed() -> list[str]:
        now = {name: getattr(torch, name) for name in LEFT_ALONE} | {"to": torch.Tensor.to}
        return [name for name, (value, number) in before.items() if now[name] is not value or hash(value) != number]

    found = changed()
    torchdevice_cuda.deactivate()
    for refused in (
        lambda: torch.zeros(2, device="mps"),
        lambda: torch.ones(2).to("mps"),
        lambda: bound_meanwhile("mps"),
    ):
        with pytest.raises((NotImplementedError, RuntimeError), match="(?i)mps"):
            refused()
    return found + changed()


@pytest.mark.native
def test_functions_that_are_given_a_second_try_are_themselves() -> None:
    place = ChildConfig("stock", order="after", needs=VIRTUAL.native)
    assert in_child(changed_objects, place) == []
