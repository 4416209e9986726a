"""The virtual GPU through the whole product: identity, memory, several devices, errors, compilation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.cuda.comm
from harness import CPU, VIRTUAL, child, in_every_order, run_forked
from harness.places import must_be_ready
from harness.processes import ROOT
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchdevice_cuda

FOUR = VIRTUAL.with_settings(devices=4)
SMALL = VIRTUAL.with_settings(memory="64MiB")


# ----------------------------------------------------------------------------- identity
@child(*in_every_order(VIRTUAL))
def test_tensors_say_cuda() -> None:
    x = torch.ones(2, 3, device="cuda")
    y = (x @ x.T).relu()
    assert str(x.device) == "cuda:0"
    assert str(y.device) == "cuda:0"
    assert x.is_cuda
    assert x.get_device() == 0
    assert x.type() == "torch.cuda.FloatTensor"
    assert repr(y).endswith("device='cuda:0')")


@child(*in_every_order(VIRTUAL))
def test_tensors_are_cuda_down_to_the_dispatcher() -> None:
    x = torch.ones(2, 3, device="cuda")
    assert torch._C._dispatch_keys(x).has(torch._C.DispatchKey.CUDA)
    assert str(x.cpu().device) == "cpu"
    assert (x @ x.T).relu().tolist() == [[3.0] * 2] * 2


# ----------------------------------------------------------------------------- training
def losses(device: str) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 36, 16),
        nn.LayerNorm(16),
        nn.Linear(16, 4),
    ).to(device)
    data, target = torch.randn(16, 3, 8, 8).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@child(VIRTUAL)
def test_training_agrees_with_the_cpu() -> None:
    there = losses("cuda")
    assert there == pytest.approx(losses("cpu"), rel=1e-5)
    assert there[-1] < there[0]


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lstm": (lambda: nn.LSTM(4, 5, 2, batch_first=True), (2, 3, 4)),
    "gru": (lambda: nn.GRU(4, 5, batch_first=True), (2, 3, 4)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 3, 8)),
}


def first(result: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


@child(VIRTUAL)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_and_fused_optimizers(layer: str) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[layer]
    module, x = make(), torch.randn(shape)
    want = first(module(x))
    want.sum().backward()
    gradients = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    module.zero_grad()
    module.cuda()
    optimizer = torch.optim.Adam(module.parameters(), fused=True, capturable=True)
    got = first(module(x.cuda()))
    got.sum().backward()
    assert got.is_cuda
    assert torch.allclose(want, got.cpu(), atol=1e-5)
    for gradient, parameter in zip(gradients, module.parameters(), strict=True):
        assert parameter.grad is not None
        assert torch.allclose(gradient, parameter.grad.cpu(), atol=1e-4)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer.step()
    assert not all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))


@pytest.mark.slow
@child(VIRTUAL, alone=True, seconds=600)
def test_compile_really_compiles() -> None:
    from torch._inductor import metrics

    x = torch.randn(8, 8, device="cuda", requires_grad=True)
    out = torch.compile(lambda x, y: torch.relu(x) @ y + torch.sin(y).sum())(x, x)
    out.sum().backward()
    assert torch.allclose(out, torch.relu(x) @ x + torch.sin(x).sum(), atol=1e-4)
    assert out.is_cuda
    assert metrics.generated_kernel_count > 0


# ------------------------------------------------------------------------------- memory
@child(SMALL)
def test_memory_is_exact() -> None:
    start = torch.cuda.memory_allocated()
    x = torch.empty(1000, device="cuda")
    y = x * 2
    assert torch.cuda.memory_allocated() - start == 8192
    del y
    assert torch.cuda.memory_allocated() - start == 4096


@child(SMALL)
def test_memory_is_limited() -> None:
    assert torch.cuda.get_device_properties(0).total_memory == 64 << 20
    assert torch.cuda.mem_get_info()[1] == 64 << 20


@child(SMALL, alone=True)
def test_a_tensor_too_large_is_refused_and_the_program_goes_on() -> None:
    words = r"^CUDA out of memory\. Tried to allocate 200\.00 MiB\. GPU 0 has a total capacit"
    with pytest.raises(torch.cuda.OutOfMemoryError, match=words):
        torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    assert int(torch.ones(1 << 20, device="cuda").sum()) == 1 << 20


def make_a_tensor() -> torch.Tensor:
    return torch.ones(1 << 20, device="cuda")


@child(VIRTUAL, alone=True)
def test_history_is_what_the_viewer_reads() -> None:
    torch.cuda.memory._record_memory_history(max_entries=1000)
    made = make_a_tensor()
    del made
    shot = torch.cuda.memory._snapshot()
    trace = shot["device_traces"][0]
    frames = [frame["name"] for entry in trace if entry["action"] == "alloc" for frame in entry["frames"]]
    assert {"alloc", "free_completed"} <= {entry["action"] for entry in trace}
    assert "make_a_tensor" in frames
    assert "<script" in torch.cuda._memory_viz.trace_plot(shot)


# ---------------------------------------------------------------------- several devices
@child(VIRTUAL)
def test_snapshots_as_the_oldest_releases_ask_for_them() -> None:
    """With no argument: of the pool that is active, of everything where none is."""
    held, pool = torch.ones(1000, device="cuda"), torch.cuda.MemPool()
    active = torch._C._MemPoolContext(pool)
    assert torch._C._cuda_memorySnapshot()["segments"] == []
    del active
    assert torch._C._cuda_memorySnapshot()["segments"] == torch.cuda.memory_snapshot()
    assert torch.cuda.memory_snapshot()
    assert held.is_cuda


@child(FOUR)
def test_tensors_are_on_the_device_they_name() -> None:
    assert torch.cuda.device_count() == 4
    assert str(torch.ones(2, device="cuda:1").to("cuda:2").device) == "cuda:2"
    with torch.cuda.device(3):
        assert torch.zeros(1, device="cuda").get_device() == 3


@child(FOUR)
def test_tensors_of_two_devices_do_not_meet() -> None:
    words = "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:2!"
    with pytest.raises(RuntimeError, match=words):
        torch.ones(2, device="cuda:1") + torch.ones(2, device="cuda:2")


@child(FOUR)
def test_data_parallel_uses_all() -> None:
    module = nn.Linear(2, 3).cuda()
    out = nn.DataParallel(module)(torch.ones(8, 2, device="cuda"))
    out.sum().backward()
    assert out.shape == (8, 3)
    assert module.weight.grad is not None
    assert module.weight.grad.tolist() == [[8.0] * 2] * 3


@child(FOUR)
def test_collectives_over_all() -> None:
    parts = torch.cuda.comm.scatter(torch.arange(8.0, device="cuda"), [0, 1, 2, 3])
    total = torch.cuda.comm.reduce_add(list(parts), destination=2)
    assert [str(part.device) for part in parts] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert total.tolist() == [12.0, 16.0]
    assert str(total.device) == "cuda:2"


@child(FOUR)
def test_each_has_memory_of_its_own() -> None:
    before = [torch.cuda.memory_allocated(index) for index in range(4)]
    kept = torch.ones(1000, device="cuda:2")
    grown = [torch.cuda.memory_allocated(index) - before[index] for index in range(4)]
    assert grown == [0, 0, 4096, 0]
    assert kept.get_device() == 2


@child(FOUR.within(CUDA_VISIBLE_DEVICES="2,0"))
def test_some_devices_are_visible() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2


#: Texts that leave no device, as CUDA reads them.
HIDING = ("", "-1", "7", "abc")


@child(*(place.within(CUDA_VISIBLE_DEVICES=text) for place in (CPU, VIRTUAL) for text in HIDING))
def test_no_device_is_visible() -> None:
    """As on a machine with CUDA whose devices are hidden, and not as with a torch that was built without it."""
    assert torchdevice_cuda.is_active()
    assert "torchdevice_cuda" in str(torch.cuda.__file__)
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        torch.zeros(1, device="cuda")
    assert torch.zeros(1).device.type == "cpu"


# ------------------------------------------------------------------------------ programs
@child(VIRTUAL)
def test_data_loader_workers_and_pinned_memory() -> None:
    torch.zeros(1, device="cuda")
    data = TensorDataset(torch.arange(8.0))
    batches = [batch[0] for batch in DataLoader(data, batch_size=2, num_workers=2, pin_memory=True)]
    moved = [batch.to("cuda", non_blocking=True) for batch in batches]
    assert all(batch.is_pinned() for batch in batches)
    assert all(batch.is_cuda for batch in moved)
    assert float(sum(batch.sum() for batch in moved)) == 28.0


@child(VIRTUAL, alone=True)
def test_deactivation_gives_torch_without_cuda() -> None:
    torch.ones(2, device="cuda")
    torchdevice_cuda.deactivate()
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert (torch.ones(2) * 2).tolist() == [2.0, 2.0]


@pytest.mark.native
def test_command_line_informs() -> None:
    must_be_ready(VIRTUAL)
    options = ("--driver", "virtual", "--devices", "2", "--memory", "1GiB")
    done = run_forked("-m", "torchdevice_cuda", *options, "--info")
    assert "virtual" in done.out
    assert done.out.count("1.00 GiB") == 2


@pytest.mark.native
def test_command_line_builds() -> None:
    must_be_ready(VIRTUAL)
    done = run_forked("-m", "torchdevice_cuda", "--build")
    assert done.out.strip().endswith(".so")


# ----------------------------------------------------------------------------- random numbers
def test_documented_program_prints_the_numbers_of_an_h200() -> None:
    must_be_ready(VIRTUAL)
    text = (ROOT / "docs" / "random-numbers.md").read_text(encoding="utf-8")
    lines = [line[4:] for line in text[text.index("    torch.manual_seed(42)") :].split("\n\n")[0].splitlines()]
    code = ["import torch", *(line for line in lines if not line.startswith("#"))]
    done = run_forked("-m", "torchdevice_cuda", "--driver", "virtual", "-c", "\n".join(code))
    assert done.out.splitlines() == [line[2:] for line in lines if line.startswith("#")]
