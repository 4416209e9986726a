"""Compiled code and CUDA graphs: captured, and in cudagraph trees of inductor's own."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, child

from .test_graphs import captured

pytestmark = [child(VIRTUAL, seconds=300), pytest.mark.slow]


@child(VIRTUAL, CPU, MPS_FAITHFUL, seconds=300)
def test_compiled_code_is_captured() -> None:
    """Read inputs and write results at the captured addresses at replay; the capture itself changes no tensor."""
    seen = torch.zeros(1, device="cuda")

    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        seen.add_(1)
        return torch.sin(x) * 2 + x.sum()

    x = torch.rand(8, device="cuda")
    function(x)
    seen.zero_()
    graph, y = captured(lambda: function(x) + 1)
    assert seen.item() == 0.0
    for i in range(2):
        x.fill_(i + 1.0)
        graph.replay()
        torch.testing.assert_close(y, torch.sin(x) * 2 + x.sum() + 1)
        assert seen.item() == i + 1.0


@child(VIRTUAL, CPU, MPS_FAITHFUL, seconds=300)
def test_random_compiled_code_draws_on() -> None:
    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)

    x = torch.zeros(8, device="cuda")
    function(x)
    graph, y = captured(lambda: function(x))
    torch.manual_seed(3)
    drawn = []
    for _ in range(2):
        graph.replay()
        drawn.append(y.clone())
    torch.manual_seed(3)
    assert [torch.equal(function(x), d) for d in drawn] == [True, True]


@child(VIRTUAL, CPU, MPS_FAITHFUL, seconds=300)
def test_a_compiled_model_is_trained_in_a_capture() -> None:
    """Forward and backward, which is computed by another thread where there is a GPU of its own."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).cuda()
    other, x = copy.deepcopy(model), torch.rand(4, 8, device="cuda")
    compiled = torch.compile(model)

    def step(network: Any) -> torch.Tensor:
        for parameter in network.parameters():
            parameter.grad = None
        loss: torch.Tensor = network(x).square().sum()
        loss.backward()
        return loss

    step(compiled)
    graph, loss = captured(lambda: step(compiled))
    for _ in range(2):
        x.copy_(torch.rand(4, 8, device="cuda"))
        graph.replay()
        torch.testing.assert_close(step(other), loss)
        for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)


@child(CPU, MPS_FAITHFUL, seconds=300)
def test_trees_are_for_cudas_own_graphs() -> None:
    """``reduce-overhead`` computes as ever where no graph of inductor's is one of CUDA's."""
    torch._dynamo.reset()
    weight = torch.randn(8, 8, device="cuda")
    compiled = torch.compile(lambda x: (x @ weight).relu() * 2, mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(4, 8, device="cuda")
        torch.testing.assert_close(compiled(x), (x @ weight).relu() * 2)
    graph, y = captured(lambda: compiled(x))
    x.fill_(2.0)
    graph.replay()
    torch.testing.assert_close(y, (x @ weight).relu() * 2)


class Told(logging.Handler):
    """Inductor's messages about CUDA graphs."""

    _log = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> list[str]:
        self._log.addHandler(self)
        return self.lines

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)


def _manager() -> Any:
    from torch._inductor.cudagraph_trees import get_manager

    return get_manager(0, create_if_none_exists=False)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_trees_record_once_and_replay(mode: str) -> None:
    """Results lie where they lay, who looks at an older one is told; with other static memory it is recorded anew."""
    torch._dynamo.reset()
    weight = torch.nn.Parameter(torch.randn(8, 8, device="cuda"))
    compiled = torch.compile(lambda x: (x @ weight).relu() * 2, mode=mode)
    before = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]

    def run() -> torch.Tensor:
        x = torch.randn(4, 8, device="cuda")
        y: torch.Tensor = compiled(x)
        torch.testing.assert_close(y, (x @ weight).relu() * 2)
        return y

    with torch.no_grad():
        older = run()
        made = [run().data_ptr()]
        with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
            older.sum()
        graphs = _manager().new_graph_id().id
        made += [run().data_ptr() for _ in range(4)]
        assert len(set(made)) == 1
        assert _manager().new_graph_id().id == graphs + 1, "none was recorded"
        weight.data = torch.randn(8, 8, device="cuda")
        for _ in range(3):
            run()
        assert _manager().new_graph_id().id == graphs + 3, "one was recorded"
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == before


def test_trees_train_as_eager_does() -> None:
    """Forward and backward are recorded and replayed; buffers that they change, too; two paths through one tree."""
    torch._dynamo.reset()
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    ).cuda()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, mode="reduce-overhead")
    ours, theirs = (torch.optim.SGD(m.parameters(), 0.1) for m in (model, other))
    before = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    for step in range(10):
        x = torch.randn(4 if step % 3 else 6, 8, device="cuda")
        losses = [m(x).pow(2).sum() for m in (compiled, other)]
        torch.testing.assert_close(losses[0], losses[1])
        for loss, optimizer in zip(losses, (ours, theirs), strict=True):
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(model.state_dict(), other.state_dict())
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == before
    assert _manager().new_graph_id().id >= 2, "forward and backward"


def test_trees_are_declined_in_cudas_words() -> None:
    with Told() as said:
        torch._dynamo.reset()
        x = torch.rand(8, device="cuda")
        compiled = torch.compile(lambda x, y: x * 2 + y.cuda(), mode="reduce-overhead")
        before = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
        results = [compiled(x, torch.ones(8)) for _ in range(3)]
        assert torch.equal(results[0], x * 2 + 1)
        assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == before + 1

        compiled = torch.compile(lambda x: x.add_(1), mode="reduce-overhead")
        changed = torch.zeros(3, device="cuda")
        for _ in range(3):
            compiled(changed)
        assert changed.tolist() == [3, 3, 3]
    assert said[0].startswith("skipping cudagraphs due to cpu device (")
    assert said[1].startswith("skipping cudagraphs due to mutated inputs (1 instances)")
