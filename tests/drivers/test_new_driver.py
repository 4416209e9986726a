"""A driver is a file and a line: one that only the tests know of runs programs like those of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import ORDERS, STOCK, in_child

TOY = Path(__file__).with_name("toy.py")


def use_toy() -> Any:
    """Add the one line that a new driver takes, and activate it."""
    import torchdevice_cuda
    from torchdevice_cuda import settings

    settings.DRIVERS["toy"] = "drivers.toy"
    torchdevice_cuda.activate(driver="toy")
    return torchdevice_cuda.driver()


def describe() -> list[Any]:
    driver = use_toy()
    import torch

    return [driver.name, torch.cuda.device_count(), torch.cuda.get_device_name(2), torch.cuda.mem_get_info(1)[1]]


@pytest.mark.parametrize("order", ORDERS)
def test_torch_cuda_asks_the_driver(order: str) -> None:
    assert in_child(describe, STOCK.when(order)) == ["toy", 3, "Toy 2", 1 << 30]


def train() -> list[float]:
    """Train as programs do: streams, events, amp, a checkpoint."""
    import io

    import torch

    use_toy()
    torch.cuda.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), 0.05), torch.amp.GradScaler("cuda")
    x = torch.randn(32, 4, device="cuda:1")
    y, losses = x.sum(1, keepdim=True), []
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(30):
        with torch.cuda.stream(torch.cuda.Stream()), torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location="cuda"))
    return [losses[0], losses[-1]]


def test_a_program_trains_on_it() -> None:
    first, last = in_child(train, STOCK.when("after"))
    assert last < first / 2


def run_out_of_memory() -> list[Any]:
    import torch

    use_toy()
    block = torch.cuda.caching_allocator_alloc(1 << 20)
    held = torch.cuda.memory_allocated()
    torch.cuda.caching_allocator_delete(block)
    try:
        torch.cuda.caching_allocator_alloc(1 << 40)
    except torch.cuda.OutOfMemoryError as error:
        return [held, torch.cuda.memory_allocated(), str(error)]
    return [held]


def test_its_own_memory_answers() -> None:
    assert in_child(run_out_of_memory, STOCK.when("after")) == [
        1 << 20,
        0,
        f"CUDA out of memory. Tried to allocate {1 << 40} bytes.",
    ]


def deactivated() -> list[bool]:
    """Return whether CUDA is available before activation, during it and after it."""
    import torch

    import torchdevice_cuda

    before = torch.cuda.is_available()
    use_toy()
    meanwhile = torch.cuda.is_available()
    torchdevice_cuda.deactivate()
    return [before, meanwhile, torch.cuda.is_available()]


def test_it_goes_again() -> None:
    before, meanwhile, after = in_child(deactivated, STOCK.when("after"))
    assert meanwhile
    assert after == before


def test_it_is_a_small_file_that_nothing_else_knows_of() -> None:
    package = TOY.parents[2] / "torchdevice_cuda"
    assert len(TOY.read_text(encoding="utf-8").splitlines()) < 150
    assert [path for path in package.rglob("*.py") if "toy" in path.read_text(encoding="utf-8").lower().split()] == []
