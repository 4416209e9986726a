"""Programs that use torch as they always do keep working while it is active, in every activation order."""

from __future__ import annotations

import io

import pytest
import torch
from harness import CPU, child, in_every_order
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

pytestmark = child(*in_every_order(CPU))


@pytest.mark.parametrize("name", ["Adam", "SGD", "AdamW", "RMSprop"])
def test_optimizer(name: str) -> None:
    import torch._dynamo

    model = torch.nn.Linear(3, 1)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 10
    assert losses[-1] != losses[0]


def test_seeds() -> None:
    torch.manual_seed(3)
    first = torch.rand(4)
    assert torch.cuda.initial_seed() == 3
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(4))


def test_fork_rng() -> None:
    torch.manual_seed(3)
    state, cuda = torch.get_rng_state(), torch.cuda.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(3)
        torch.cuda.manual_seed(99)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(cuda, torch.cuda.get_rng_state())


def test_data_loader() -> None:
    data = TensorDataset(torch.arange(12.0))
    seen = torch.cat([batch[0] for batch in DataLoader(data, batch_size=3, num_workers=2, shuffle=True)])
    assert sorted(seen.tolist()) == list(range(12))


def test_compile() -> None:
    @torch.compile(backend="aot_eager", fullgraph=True)
    def f(x: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_available():
            return torch.sin(x) + 1
        return x

    x = torch.ones(3)
    assert torch.allclose(f(x), torch.sin(x) + 1)


@pytest.mark.slow
def test_compile_with_inductor() -> None:
    f = torch.compile(lambda x, y: torch.relu(x) @ y)
    x = torch.randn(8, 8)
    assert torch.allclose(f(x, x), torch.relu(x) @ x, atol=1e-5)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_layers(reentrant: bool) -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    x = torch.ones(2, 4, requires_grad=True)
    checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
    assert x.grad is not None


ACTIVITIES = {
    "any": None,
    "CPU": [ProfilerActivity.CPU],
    "CPU and CUDA": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
}


@pytest.mark.parametrize("activities", ACTIVITIES)
def test_profiler(activities: str) -> None:
    with profile(activities=ACTIVITIES[activities]) as run:
        torch.ones(8, 8) @ torch.ones(8, 8)
    assert "aten::mm" in {event.key for event in run.key_averages()}


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def test_script() -> None:
    assert torch.jit.script(_doubled)(torch.ones(2)).tolist() == [3.0, 3.0]


def test_save_and_load() -> None:
    buffer = io.BytesIO()
    torch.save({"x": torch.arange(3), "s": torch.cuda.get_rng_state()}, buffer)
    buffer.seek(0)
    assert torch.load(buffer)["x"].tolist() == [0, 1, 2]
