"""Training from CUDA graphs: the same bits as without."""

from __future__ import annotations

import warnings

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, child
from torch import nn

from .test_graphs import captured

#: `cpu` and `mps` record and replay by the same code.
pytestmark = child(VIRTUAL, CPU.rarely(), MPS_FAITHFUL.rarely())


def test_graphed_callables() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(5, 3, device="cuda", requires_grad=True),))
    plain.load_state_dict(model.state_dict())
    for _ in range(3):
        x = torch.randn(5, 3, device="cuda")
        results = []
        for network in (graphed, plain):
            network.zero_grad()
            given = x.clone().requires_grad_()
            y = network(given)
            y.square().sum().backward()
            results.append([y.detach().clone(), given.grad, *(p.grad.clone() for p in network.parameters())])
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), plain.buffers(), strict=True))


class _Training:
    """A model in training, of which every step can be captured."""

    def __init__(self, amp: bool) -> None:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
        self.model = nn.Sequential(
            nn.Conv1d(3, 16, 3, padding=1), nn.BatchNorm1d(16), nn.Flatten(2), layer_of(layer), nn.Linear(128, 5)
        ).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2, capturable=True, fused=amp)
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp, init_scale=1024.0)
        self.amp = amp
        self.x, self.y = torch.rand(4, 3, 8, device="cuda"), torch.randint(5, (4,), device="cuda")

    def step(self) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.amp, cache_enabled=False):
            loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def state(self) -> list[torch.Tensor]:
        return [*self.model.parameters(), *self.model.buffers(), self.optimizer.state_dict()["state"][0]["step"]]


def layer_of(layer: nn.Module) -> nn.Module:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.transpose(1, 2)).flatten(1)

    return Turned()


@pytest.mark.parametrize("amp", [False, True])
def test_a_captured_training_step_is_the_eager_one(amp: bool, place: ChildConfig) -> None:
    """Bit for bit over fifty steps, with dropout; memory does not grow."""
    eager, captive = _Training(amp), _Training(amp)
    torch.manual_seed(1)
    losses = [eager.step().detach().clone() for _ in range(53)]
    torch.manual_seed(1)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            captive.step()
    torch.cuda.current_stream().wait_stream(side)
    graph, loss = captured(captive.step)
    books = []
    for i, expected in enumerate(losses[3:]):
        graph.replay()
        assert torch.equal(loss, expected), i
        books.append(torch.cuda.memory_allocated())
    assert all(torch.equal(a, b) for a, b in zip(eager.state(), captive.state(), strict=True))
    assert max(books) == books[0] or place == CPU, "there it is all of the process's memory"


@child(VIRTUAL, MPS_FAITHFUL)
def test_results_that_only_the_graph_has_share_memory() -> None:
    """Thirty results of one MiB; what the program holds has a place of its own."""
    x = torch.rand(1 << 18, device="cuda")

    def body() -> list[torch.Tensor]:
        kept, y = [], x
        for i in range(30):
            y = y + i
            if i % 10 == 5:
                kept.append(y)
        return [*kept, y]

    before = torch.cuda.memory_allocated()
    graph, results = captured(body)
    assert torch.cuda.memory_allocated() - before <= 7 << 20
    for _ in range(2):
        x.uniform_()
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(results, body(), strict=True))


# ----------------------------------------------------------- what is computed elsewhere
def _elsewhere(x: torch.Tensor) -> list[torch.Tensor]:
    """Without a kernel on the Apple GPU; with one that refuses the dtype; in a dtype that the GPU has not."""
    matrix = x @ x.T + torch.eye(4, device="cuda")
    solved, _ = torch.linalg.solve_ex(torch.complex(matrix, x), torch.complex(x, x))
    return [torch.heaviside(x - 0.5, x), torch.view_as_real(solved), torch.sum(x, dtype=torch.float64).float()]


@child(VIRTUAL, MPS_FAITHFUL)
def test_a_replay_goes_the_way_that_the_call_went() -> None:
    x = torch.rand(4, 4, device="cuda")
    graph, results = captured(lambda: _elsewhere(x))
    for _ in range(2):
        x.uniform_()
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(results, _elsewhere(x), strict=True))


ADDED = "template <typename T> T added(T x, T y) { return x + 2 * y; }"
FILLED = 'extern "C" __global__ void filled(float* x) { x[threadIdx.x] = 3; }'


def test_functions_of_one_element_are_captured() -> None:
    function, x = torch.cuda.jiterator._create_jit_fn(ADDED), torch.ones(4, device="cuda")
    graph, y = captured(lambda: function(x, x) * 2)
    assert y.tolist() == [0.0] * 4
    x.fill_(2.0)
    graph.replay()
    assert y.tolist() == [12.0] * 4


@child(CPU, MPS_FAITHFUL)  # on virtual with all that is launched there
@pytest.mark.skipif(not hasattr(torch.cuda, "_compile_kernel"), reason="the release has no such function")
def test_kernels_of_the_programs_own_are_captured() -> None:
    kernel, x = torch.cuda._compile_kernel(FILLED, "filled"), torch.zeros(4, device="cuda")
    graph, y = captured(lambda: (kernel((1, 1, 1), (4, 1, 1), (x,)), x + 1)[1])
    assert (x.tolist(), y.tolist()) == ([0.0] * 4, [0.0] * 4)
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([3.0] * 4, [4.0] * 4)


@child(CPU, MPS_FAITHFUL)
def test_tensors_without_one_place_are_refused() -> None:
    weight = torch.nn.Embedding(10, 4, sparse=True).cuda()
    chosen = torch.tensor([1, 2], device="cuda")
    with pytest.raises(NotImplementedError, match="layout torch.sparse_coo, which a CUDA graph cannot keep"):
        captured(lambda: weight(chosen).sum().backward())
    assert not torch.cuda.is_current_stream_capturing()
