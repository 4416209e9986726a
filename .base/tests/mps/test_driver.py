"""torch.cuda over torch.mps: memory, streams, events, random state, properties."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import run_python


def test_the_device(on_mps: Callable) -> None:
    body = """
    import torchdevice_cuda
    p = torch.cuda.get_device_properties(0)
    result = [torchdevice_cuda.driver().name, torch.cuda.is_available(), torch.cuda.device_count(), p.name,
              p.total_memory == torch.mps.recommended_max_memory(), torch.cuda.get_device_capability(),
              torch.accelerator.current_accelerator().type]
    """
    name = "Emulated Apple GPU (CUDA compatible)"
    assert on_mps(body) == ["mps", True, 1, name, True, [7, 0], "cuda"]


def test_orders(on_mps: Callable, order: str) -> None:
    body = """
    x = torch.ones(3, device="cuda")
    result = [str(x.device), (x + 1).tolist(), torch.linalg.eigh(torch.eye(2, device="cuda"))[0].tolist()]
    """
    assert on_mps(body, order=order) == ["cuda:0", [2, 2, 2], [1, 1]]


def test_memory(on_mps: Callable) -> None:
    body = """
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    held = torch.cuda.memory_allocated() - before
    torch.cuda.reset_peak_memory_stats()
    y = torch.empty(4 << 20, dtype=torch.uint8, device="cuda"); del y
    peak = torch.cuda.max_memory_allocated() - before
    raw = torch.cuda.caching_allocator_alloc(1024)
    torch.cuda.caching_allocator_delete(raw)
    free, total = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    result = [held == torch.mps.current_allocated_memory() - before == 1 << 20, peak == 5 << 20, raw > 0,
              free <= total, torch.cuda.memory_reserved() >= torch.cuda.memory_allocated(),
              torch.cuda.memory_stats()["reserved_bytes.all.current"] == torch.mps.driver_allocated_memory()]
    """
    assert on_mps(body) == [True] * 6


def test_memory_runs_out(on_mps: Callable) -> None:
    body = """
    def refusal(make):
        try:
            make()
        except torch.cuda.OutOfMemoryError as error:
            return str(error).split(".")[0]
    torch.cuda.set_per_process_memory_fraction(0.5)
    source = torch.empty(40 << 20, dtype=torch.uint8)
    result = [refusal(lambda: torch.empty(1 << 40, device="cuda")),
              refusal(lambda: torch.empty(40 << 20, dtype=torch.uint8, device="cuda")),
              refusal(lambda: source.cuda()), torch.cuda.memory_stats()["num_ooms"],
              torch.cuda.get_per_process_memory_fraction()]
    """
    assert on_mps(body, memory="64MiB") == ["CUDA out of memory"] * 3 + [3, 0.5]


def test_streams_and_events(on_mps: Callable) -> None:
    body = """
    import time
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a.record(); x = torch.ones(256, 256, device="cuda"); (x @ x).sum(); b.record()
    torch.cuda.current_stream().wait_stream(stream)
    b.synchronize()
    timed = 0 < a.elapsed_time(b) < 5000
    rate = torch.cuda.clock_rate() * 1_000_000
    slow, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    slow.record(); torch.cuda._sleep(int(rate * 0.2)); end.record()
    busy = not end.query() and not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    result = [timed, busy, end.query(), 150 < slow.elapsed_time(end) < 2000, stream.query(),
              torch.cuda.current_stream() != stream]
    """
    assert on_mps(body) == [True] * 6


BACKWARD_STREAM = """
stream, seen = torch.cuda.Stream(), []
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a): return a * 2
    @staticmethod
    def backward(ctx, g): seen.append(torch.cuda.current_stream() == stream); return g * 2
x = torch.ones(3, device="cuda", requires_grad=True)
with torch.cuda.stream(stream):
    y = Twice.apply(x).sum()
y.backward()
Twice.apply(x).sum().backward()
result = [seen, x.grad.tolist(), torch.cuda.current_stream() == torch.cuda.default_stream()]
"""


def test_backward_runs_in_the_stream_of_forward(on_mps: Callable, answer: Callable) -> None:
    expected = [[True, False], [4, 4, 4], True]
    assert on_mps(BACKWARD_STREAM) == expected
    assert answer(BACKWARD_STREAM, driver="cpu") == expected


def test_random_state(on_mps: Callable) -> None:
    body = """
    torch.cuda.manual_seed(7); a = torch.rand(3, device="cuda")
    torch.manual_seed(7); b = torch.rand(3, device="cuda")
    state = torch.cuda.get_rng_state(); c = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state); d = torch.rand(3, device="cuda")
    cuda_state = torch.tensor([7, 0], dtype=torch.int64).view(torch.uint8)
    torch.cuda.set_rng_state(cuda_state); e = torch.rand(3, device="cuda")
    g = torch.Generator("cuda").manual_seed(7); f = torch.rand(3, device="cuda", generator=g)
    with torch.random.fork_rng():
        torch.rand(3, device="cuda")
    result = [torch.equal(a, b), torch.equal(c, d), torch.equal(a, e), torch.equal(a, f)]
    """
    assert on_mps(body) == [True] * 4


def test_copies_that_do_not_wait_are_made_to(on_mps: Callable) -> None:
    body = """
    source = torch.arange(1 << 16, dtype=torch.float32)
    x = source.to("cuda", non_blocking=True); source.zero_()
    y = torch.empty(1 << 16, device="cuda").copy_(x, non_blocking=True)
    home = y.to("cpu", torch.float32, True)
    result = [float(x[-1]), float(home[-1]), x.cuda(non_blocking=True).data_ptr() == x.data_ptr()]
    """
    assert on_mps(body) == [65535.0, 65535.0, True]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_training_with_autocast(on_mps: Callable, dtype: str) -> None:
    body = f"""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), 0.05), torch.amp.GradScaler("cuda")
    x = torch.randn(32, 8, device="cuda"); y = (x.sum(1) > 0).long()
    losses = []
    for _ in range(20):
        with torch.autocast("cuda", torch.{dtype}):
            out = model(x)
            loss = torch.nn.functional.cross_entropy(out, y)
        inside = str(out.dtype)
        scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update(); optimizer.zero_grad()
        losses.append(float(loss))
    result = [inside, str(model(x).dtype), torch.is_autocast_enabled("cuda"), losses[-1] < losses[0] / 2]
    """
    assert on_mps(body) == [f"torch.{dtype}", "torch.float32", False, True]


def test_deactivation_lets_the_gpu_be_itself(on_mps: Callable) -> None:
    body = """
    import torchdevice_cuda
    x = torch.ones(2, device="cuda")
    torchdevice_cuda.deactivate()
    try:
        torch.linalg.eigh(torch.eye(2, device="mps")); refused = False
    except NotImplementedError:
        refused = True
    result = [str(x.device), x.is_mps, torch.cuda.is_available(), refused, "device" in vars(torch.Tensor)]
    """
    assert on_mps(body, order="after") == ["mps:0", True, False, True, False]


SCAN = """
import sys, torch, torch._dynamo, torch._inductor.compile_fx, torch.distributed
import torchdevice_cuda
from torchdevice_cuda.drivers.mps import emulate
emulate(1 << 30, True)  # which stays for as long as the process lives

def scan():
    found = {}
    for name, module in list(sys.modules.items()):
        if module is not None and (name == "torch" or name.startswith("torch.")):
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = value
                if isinstance(value, type) and value.__module__.startswith("torch"):
                    found.update({(name, attribute, inner): held for inner, held in list(vars(value).items())})
    return found

before = scan()
for policy in ("faithful", "accelerate"):
    torchdevice_cuda.activate(driver="mps", policy=policy)
    x = torch.randn(4, 4, device="cuda", requires_grad=True)
    (x @ x).sum().backward(); torch.linalg.eigh(x.detach()); torch.nn.LSTM(4, 4).cuda()(x[None])
    del x
    torchdevice_cuda.deactivate()
    after = scan()
    # A class counts its instances, say, in attributes of its own: only what is callable, or was, is compared.
    changed = [key for key, held in before.items() if after.get(key) is not held and (callable(held) or len(key) == 2)]
    assert not changed, changed[:20]
"""


def test_deactivation_puts_every_attribute_back(emulated: dict[str, str]) -> None:
    run_python(SCAN, **emulated)
