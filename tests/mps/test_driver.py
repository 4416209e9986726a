"""torch.cuda over torch.mps: memory, streams, events, random state, properties."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, ChildConfig, child, in_every_order
from harness.mac import VARIABLE
from torch import nn

import torchdevice_cuda
from torchdevice_cuda._compat import torch_release

from .seeing import raised, real

on_mps = child(MPS_FAITHFUL)


@on_mps
def test_the_drivers_name() -> None:
    assert torchdevice_cuda.driver().name == "mps"


@on_mps
def test_there_is_one_device() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1


@on_mps
def test_the_devices_properties() -> None:
    properties = torch.cuda.get_device_properties(0)
    assert properties.name == "Emulated Apple GPU (CUDA compatible)"
    assert properties.total_memory == torch.mps.recommended_max_memory()
    assert torch.cuda.get_device_capability() == (7, 0)


@on_mps
def test_the_accelerator_is_cuda() -> None:
    assert torch.accelerator.current_accelerator().type == "cuda"


@child(MPS_FAITHFUL.within(**{VARIABLE: "1"}))
def test_the_driver_without_a_library_as_on_a_mac() -> None:
    assert torchdevice_cuda.driver().native is None
    storage = torch.ones(4, device="cuda").untyped_storage()
    storage.resize_(32)
    assert storage.nbytes() == 32
    generator = torch.Generator("cuda").manual_seed(3)
    assert torch.rand(2, device="cuda", generator=generator).tolist() != torch.rand(2, device="cuda").tolist()


@child(*in_every_order(MPS_FAITHFUL))
def test_tensors_in_every_order() -> None:
    x = torch.ones(3, device="cuda")
    assert str(x.device) == "cuda:0"
    assert (x + 1).tolist() == [2, 2, 2]


@child(*in_every_order(MPS_FAITHFUL))
def test_operators_the_gpu_lacks_in_every_order() -> None:
    assert torch.linalg.eigh(torch.eye(2, device="cuda"))[0].tolist() == [1, 1]


@on_mps
def test_memory_that_a_tensor_holds() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    assert torch.cuda.memory_allocated() == torch.mps.current_allocated_memory()
    del x
    assert torch.cuda.memory_allocated() == before


@on_mps
def test_the_peak_of_memory() -> None:
    before = torch.cuda.memory_allocated()
    kept = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.max_memory_allocated() - before == 5 << 20
    del kept


@on_mps
@pytest.mark.skipif(torch_release(torch.__version__) < (2, 9), reason="torch's allocator keeps no peaks")
def test_a_peak_inside_an_operator() -> None:
    """The peak comes from torch's allocator: nothing is sampled while the operator runs."""
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ((x + 1) * 2).sum()
    assert torch.cuda.max_memory_allocated() - before >= 8 << 20
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() - before < 1 << 20


@on_mps
@pytest.mark.parametrize("release", ["new", "old"])
def test_emptying_the_cache_empties_that_of_mlx(release: str) -> None:
    mlx, asked = types.ModuleType("mlx.core"), []
    holder = mlx if release == "new" else types.SimpleNamespace()
    holder.clear_cache = lambda: asked.append("cleared")
    mlx.metal = types.SimpleNamespace() if release == "new" else holder
    before, sys.modules["mlx.core"] = sys.modules.get("mlx.core"), mlx
    try:
        torch.cuda.empty_cache()
    finally:
        del sys.modules["mlx.core"]
        if before is not None:
            sys.modules["mlx.core"] = before
    assert asked == ["cleared"]
    torch.cuda.empty_cache()  # without MLX, or with the real one


@on_mps
def test_raw_memory() -> None:
    address = torch.cuda.caching_allocator_alloc(1024)
    assert address > 0
    torch.cuda.caching_allocator_delete(address)


@on_mps
def test_free_and_reserved_memory() -> None:
    free, total = torch.cuda.mem_get_info()
    assert free <= total
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_stats()["reserved_bytes.all.current"] == torch.mps.driver_allocated_memory()


#: Half of it may be used.
SMALL = MPS_FAITHFUL.with_settings(memory="64MiB")


@child(SMALL)
@pytest.mark.parametrize("request_", ["more than there is", "more than is allowed", "copied"])
def test_memory_runs_out(request_: str) -> None:
    torch.cuda.set_per_process_memory_fraction(0.5)
    source = torch.empty(40 << 20, dtype=torch.uint8)
    requests = {
        "more than there is": lambda: torch.empty(1 << 40, device="cuda"),
        "more than is allowed": lambda: torch.empty(40 << 20, dtype=torch.uint8, device="cuda"),
        "copied": source.cuda,
    }
    before = torch.cuda.memory_stats()["num_ooms"]
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"^CUDA out of memory\."):
        requests[request_]()
    assert torch.cuda.memory_stats()["num_ooms"] == before + 1


@child(SMALL)
def test_the_fraction_of_memory() -> None:
    torch.cuda.set_per_process_memory_fraction(0.5)
    assert torch.cuda.get_per_process_memory_fraction() == 0.5


@on_mps
def test_events_time_what_is_between_them() -> None:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        begin.record()
        x = torch.ones(256, 256, device="cuda")
        (x @ x).sum()
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    end.synchronize()
    assert 0 < begin.elapsed_time(end) < 5000
    assert stream.query()
    assert torch.cuda.current_stream() != stream


@on_mps
def test_a_stream_is_busy_while_the_gpu_sleeps() -> None:
    rate = torch.cuda.clock_rate() * 1_000_000
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    torch.cuda._sleep(int(rate * 0.2))
    end.record()
    assert not end.query()
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert end.query()
    assert 150 < begin.elapsed_time(end) < 2000


@child(MPS_FAITHFUL, CPU)
def test_backward_runs_in_the_stream_of_forward() -> None:
    stream, seen = torch.cuda.Stream(), []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            seen.append(torch.cuda.current_stream() == stream)
            return g * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.cuda.stream(stream):
        y = Twice.apply(x).sum()
    y.backward()
    Twice.apply(x).sum().backward()
    assert seen == [True, False]
    assert x.grad.tolist() == [4, 4, 4]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def _drawn() -> list[float]:
    return torch.rand(3, device="cuda").tolist()


@on_mps
def test_seeds_of_cuda_and_of_torch() -> None:
    torch.cuda.manual_seed(7)
    drawn = _drawn()
    torch.manual_seed(7)
    assert _drawn() == drawn


@on_mps
def test_random_state_is_kept_and_set() -> None:
    state = torch.cuda.get_rng_state()
    drawn = _drawn()
    torch.cuda.set_rng_state(state)
    assert _drawn() == drawn


@on_mps
def test_a_state_as_cuda_has_it() -> None:
    torch.cuda.manual_seed(7)
    drawn = _drawn()
    torch.cuda.set_rng_state(torch.tensor([7, 0], dtype=torch.int64).view(torch.uint8))
    assert _drawn() == drawn


@on_mps
def test_a_generator_draws_as_the_default_one() -> None:
    torch.cuda.manual_seed(7)
    drawn = _drawn()
    generator = torch.Generator("cuda").manual_seed(7)
    assert torch.rand(3, device="cuda", generator=generator).tolist() == drawn


@on_mps
def test_a_forked_random_state_is_put_back() -> None:
    state = torch.cuda.get_rng_state()
    with torch.random.fork_rng():
        _drawn()
        assert not torch.equal(torch.cuda.get_rng_state(), state)
    assert torch.equal(torch.cuda.get_rng_state(), state)


@on_mps
def test_copies_that_do_not_wait_are_made_to() -> None:
    source = torch.arange(1 << 16, dtype=torch.float32)
    x = source.to("cuda", non_blocking=True)
    source.zero_()
    assert x[-1].item() == 65535
    y = torch.empty(1 << 16, device="cuda").copy_(x, non_blocking=True)
    assert y.to("cpu", torch.float32, True)[-1].item() == 65535


@on_mps
def test_a_move_to_where_it_is_does_not_copy() -> None:
    x = torch.ones(2, device="cuda")
    assert x.cuda(non_blocking=True).data_ptr() == x.data_ptr()


@on_mps
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_training_with_autocast(dtype: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), 0.05), torch.amp.GradScaler("cuda")
    x = torch.randn(32, 8, device="cuda")
    y = (x.sum(1) > 0).long()
    losses = []
    for _ in range(20):
        with torch.autocast("cuda", getattr(torch, dtype)):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
        assert out.dtype is getattr(torch, dtype)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert model(x).dtype is torch.float32
    assert not torch.is_autocast_enabled("cuda")


@child(MPS_FAITHFUL.when("after"), alone=True)
def test_deactivation_lets_the_gpu_be_itself() -> None:
    x = torch.ones(2, device="cuda")
    torchdevice_cuda.deactivate()
    assert str(x.device) == "mps:0"
    assert x.is_mps
    assert not torch.cuda.is_available()
    assert raised(lambda: torch.linalg.eigh(torch.eye(2, device="mps")))[0] == "NotImplementedError"
    assert "device" not in vars(torch.Tensor)


def _scan() -> dict[tuple[str, ...], object]:
    """Every attribute of every module of torch, and of the classes in them."""
    found: dict[tuple[str, ...], object] = {}
    for name, module in list(sys.modules.items()):
        if module is not None and (name == "torch" or name.startswith("torch.")):
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = value
                if isinstance(value, type) and value.__module__.startswith("torch"):
                    found.update({(name, attribute, inner): held for inner, held in list(vars(value).items())})
    return found


def _train_a_little() -> None:
    x = torch.randn(4, 4, device="cuda", requires_grad=True)
    (x @ x).sum().backward()
    assert real(torch.linalg.eigh(x.detach())[0]) == "mps"
    nn.LSTM(4, 4).cuda()(x[None])


#: Nothing is activated in it, but the device is there if it is asked for.
UNUSED = ChildConfig("stock, emulated", environment={"TORCHDEVICE_EMULATE_MPS": "1"}, needs=("mps",))


@child(UNUSED, alone=True)
def test_deactivation_puts_every_attribute_back() -> None:
    from torchdevice_cuda.drivers.mps.driver import emulate

    for name in ("torch._dynamo", "torch._inductor.compile_fx", "torch.distributed"):
        importlib.import_module(name)
    emulate(1 << 30, True)  # which stays for as long as the process lives
    before = _scan()
    for policy in ("faithful", "accelerate"):
        torchdevice_cuda.activate(driver="mps", policy=policy, memory="1GiB")
        _train_a_little()
        torchdevice_cuda.deactivate()
        after = _scan()
        # A class counts its instances, say, in attributes of its own: only what is callable, or was, is compared.
        changed = [
            key for key, held in before.items() if after.get(key) is not held and (callable(held) or len(key) == 2)
        ]
        assert not changed, (policy, changed[:20])
