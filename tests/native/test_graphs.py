"""CUDA graphs: nothing is computed when they are captured, everything when they are replayed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, child
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from torchdevice_cuda._compat import torch_release

pytestmark = child(VIRTUAL, CPU, MPS_FAITHFUL)

IN_PARTS = torch_release(torch.__version__) >= (2, 14)


def captured(body: Callable[[], object], **options: object) -> tuple[torch.cuda.CUDAGraph, object]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        result = body()
    return graph, result


def test_values_change_at_the_replay(place: ChildConfig) -> None:
    x, written = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")

    def body() -> tuple[torch.Tensor, torch.Tensor]:
        written.copy_(x)
        x.add_(1)
        return x * 2, torch.full((4,), 3.0, device="cuda")

    graph, (double, full) = captured(body)
    assert (x.tolist(), written.tolist()) == ([1.0] * 3, [0.0] * 3)
    assert double.tolist() == [0.0] * 3, "the memory is new, and nobody wrote to it"
    # Nothing tells what the cpu driver's program made for the GPU from what it made for the host.
    assert full.tolist() == ([3.0] * 4 if place == CPU else [0.0] * 4)
    places = double.data_ptr(), full.data_ptr()
    for i in range(2):
        assert graph.replay() is None
        assert (x.tolist(), written.tolist()) == ([2.0 + i] * 3, [1.0 + i] * 3)
        assert (double.tolist(), full.tolist()) == ([4.0 + 2 * i] * 3, [3.0] * 4)
    assert (double.data_ptr(), full.data_ptr()) == places


def test_host_code_runs_once() -> None:
    ran, x = [], torch.zeros(1, device="cuda")

    def body() -> None:
        ran.append(1)
        x.add_(len(ran))

    graph, _ = captured(body)
    for _ in range(3):
        graph.replay()
    assert (ran, x.item()) == ([1], 3.0)


def test_numbers_are_kept_by_value_and_pinned_memory_by_address(place: ChildConfig) -> None:
    number, pinned = torch.tensor(2.0), torch.zeros(2).pin_memory()
    back, x = torch.zeros(2).pin_memory(), torch.ones(2, device="cuda")

    def body() -> torch.Tensor:
        x.copy_(pinned, non_blocking=True)
        y = x * number + 1
        back.copy_(y, non_blocking=True)
        assert back.tolist() == [0.0, 0.0], "the host may look at it meanwhile"
        return y

    graph, _ = captured(body)
    if place != CPU:  # where a number may be the GPU's
        number.fill_(100.0)
    pinned.fill_(5.0)
    graph.replay()
    torch.cuda.synchronize()
    assert back.tolist() == [11.0, 11.0]


def test_only_what_is_captured_is_replayed() -> None:
    """On a stream that takes no part, an operator is computed at once."""
    x, beside = torch.zeros(1, device="cuda"), torch.cuda.Stream()

    def body() -> None:
        with torch.cuda.stream(beside):
            assert not torch.cuda.is_current_stream_capturing()
            x.add_(1)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        graph, _ = captured(body)
    assert ["The CUDA Graph is empty" in str(one.message) for one in seen] == [True]
    graph.replay()
    beside.synchronize()
    assert x.item() == 1.0


def test_streams_fork_and_join() -> None:
    x, side = torch.ones(2, device="cuda"), torch.cuda.Stream()

    def body() -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            assert torch.cuda.is_current_stream_capturing()
            there = x * 3
        here = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return here + there

    graph, total = captured(body)
    assert not side.is_capturing() if hasattr(side, "is_capturing") else True
    graph.replay()
    assert total.tolist() == [5.0, 5.0]
    with torch.cuda.stream(side):
        x.add_(1)
    side.synchronize()
    assert x.tolist() == [2.0, 2.0]


def test_a_program_that_sleeps() -> None:
    x = torch.zeros(1, device="cuda")

    def body() -> None:
        torch.cuda._sleep(150_000_000)
        x.add_(1)

    graph, _ = captured(body)
    assert torch.cuda.current_stream().query()
    graph.replay()
    assert not torch.cuda.current_stream().query()
    assert x.item() == 1.0


def test_events_that_are_the_programs() -> None:
    """``external`` ones are recorded whenever the graph is replayed, and can be asked afterwards."""
    x = torch.zeros(1, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))

    def body() -> None:
        begin.record()
        torch.cuda._sleep(15_000_000)
        x.add_(1)
        end.record()

    graph, _ = captured(body)
    assert end.query(), "it was not recorded yet"
    for _ in range(2):
        graph.replay()
        end.synchronize()
        assert 3 < begin.elapsed_time(end) < 60


def test_torch_knows_of_the_capture() -> None:
    """Optimizers refuse to be captured unless they were made for it."""
    weight = torch.ones(2, device="cuda", requires_grad=True)
    weight.grad = torch.ones(2, device="cuda")
    optimizer = torch.optim.Adam([weight], capturable=False)
    optimizer.step()
    with pytest.raises(RuntimeError, match="Attempting CUDA graph capture of step"):
        captured(optimizer.step)
    assert not torch.cuda.is_current_stream_capturing()


class Counting(TorchDispatchMode):
    """A mode of the program's."""

    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_programs_over_the_end() -> None:
    """Leave the program's mode entered; it sees no operators of replays."""
    x, mode, graph = torch.ones(3, device="cuda"), Counting(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        with mode:
            x.add_(1)
            graph.capture_end()
            seen = mode.calls
            x.mul_(1)
            assert mode.calls == seen + 1
    torch.cuda.synchronize()
    assert torch._C._len_torch_dispatch_stack() == 0
    with mode:
        graph.replay()
    assert (mode.calls, x.tolist()) == (seen + 1, [2.0] * 3)


def test_a_backward_pass_takes_part() -> None:
    """On whatever thread autograd computes it."""
    x, seen = torch.full((2,), 3.0, device="cuda", requires_grad=True), []

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        seen.append((torch.cuda.is_current_stream_capturing(), torch.cuda.current_stream() == stream))
        return gradient * 2

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = x * x
        y.register_hook(hook)
        (gradient,) = torch.autograd.grad(y.sum(), x)
    assert seen == [(True, True)]
    assert gradient.tolist() == [0.0, 0.0]
    graph.replay()
    assert gradient.tolist() == [12.0, 12.0]


# ------------------------------------------------------------------------ operators
def _operators() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    functional = nn.functional
    torch.manual_seed(0)
    conv, norm, embedding = nn.Conv2d(3, 4, 3).cuda(), nn.BatchNorm2d(3).cuda(), nn.Embedding(10, 4).cuda()
    lstm, gru = nn.LSTM(8, 8, batch_first=True).cuda(), nn.GRU(8, 8, batch_first=True).cuda()
    attention = functional.scaled_dot_product_attention
    step = torch.tensor(3.0, device="cuda")
    return {
        "conv": conv,
        "batch norm": norm,
        "max pool": lambda x: functional.max_pool2d(x, 2),
        "embedding": lambda x: embedding((x * 9).long()) * x.sum(),
        "lstm": lambda x: lstm(x[:, 0])[0],
        "gru": lambda x: gru(x[:, 0])[0],
        "attention": lambda x: attention(x, x, x, is_causal=True),
        "attention with dropout": lambda x: attention(x, x, x, dropout_p=0.2),
        "attention of halves": lambda x: attention(x.half(), x.half(), x.half()).float(),
        "halves with dropout": lambda x: attention(x.half(), x.half(), x.half(), dropout_p=0.2).float(),
        "dropout": lambda x: functional.dropout(x, 0.3),
        "fft": lambda x: torch.fft.rfft2(x).abs(),
        "half": lambda x: (x.half() @ x.half()).float(),
        "bfloat16": lambda x: (x.bfloat16() @ x.bfloat16()).float(),
        "sort": lambda x: x.cumsum(1).sort(-1)[0],
        "index": lambda x: x[:, torch.arange(2, device="cuda")],
        "where": lambda x: torch.where(x > 0.5, x, x * 2),
        "cat": lambda x: torch.cat([x, x * 2, x * 3]),
        "interpolate": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        "draws": lambda x: x * torch.randn_like(x) + torch.rand(8, device="cuda"),
        "whole numbers": lambda x: x + torch.randint(5, (8,), device="cuda") + torch.randperm(8, device="cuda"),
        "multinomial": lambda x: x.flatten()[torch.multinomial(x.detach().flatten(), 3)],
        "poisson": lambda x: x * torch.poisson(x.detach() * 5),
        "einsum": lambda x: torch.einsum("bcij,bdij->cd", x, x),
        "one number": lambda x: x * (1e-3 / (1 - 0.9**step)).sqrt(),
        "integers divided": lambda x: x * ((x * 9).long() // 2),
        "foreach": lambda x: sum(torch._foreach_mul([x, x + 1], 2.0)),
        "out": lambda x: torch.add(x.detach(), 1, out=torch.empty(0, device="cuda")) * x,
        "triangles": lambda x: torch.linalg.cholesky_ex(x[0, 0] @ x[0, 0].T + torch.eye(8, device="cuda"))[0],
    }


def _computed(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    y = function(x)
    return [y.detach(), *torch.autograd.grad(y.sum(), x)]


def test_operators_forward_and_backward() -> None:
    """Every replay gives the bits and the random numbers of a run without a graph."""
    torch.manual_seed(1)
    start = torch.rand(2, 3, 8, 8, device="cuda")
    differing = []
    for name, function in _operators().items():
        x = start.clone().requires_grad_()
        torch.manual_seed(2)
        expected = [[t.clone() for t in _computed(function, x)] for _ in range(3)]
        after = torch.cuda.get_rng_state()
        torch.manual_seed(2)
        fresh = _operators()[name]
        graph, results = captured(functools.partial(_computed, fresh, x))
        torch.manual_seed(2)
        for wanted in expected:
            graph.replay()
            if not all(torch.equal(a, b) for a, b in zip(wanted, results, strict=True)):
                differing.append(name)
        if not torch.equal(torch.cuda.get_rng_state(), after):
            differing.append(f"{name}: state")
    assert differing == []


def test_elements_are_looked_at_when_a_graph_is_replayed() -> None:
    """Indices that are none yet are no error of the capture: a GPU has not seen them."""
    table, where = torch.rand(4, 3, device="cuda"), torch.full((2,), 77, device="cuda")
    scores, target = torch.rand(2, 5, device="cuda"), torch.full((2,), 99, device="cuda")

    def body() -> tuple[torch.Tensor, ...]:
        chosen = table[where]
        found = nn.functional.embedding(where, table)
        return chosen, found * 2, table.index_select(0, where), nn.functional.nll_loss(scores, target)

    graph, results = captured(body)
    where.copy_(torch.tensor([2, 1]))
    target.zero_()
    graph.replay()
    chosen, found, selected, loss = results
    assert torch.equal(chosen, table[where])
    assert torch.equal(found, table[where] * 2)
    assert torch.equal(selected, table[where])
    assert torch.equal(loss, nn.functional.nll_loss(scores, target))


# --------------------------------------------------------------------------- states
def test_a_graph_that_is_kept() -> None:
    x = torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        x.add_(1)
    assert isinstance(graph.raw_cuda_graph(), int)
    with pytest.raises(RuntimeError, match="until instantiate"):
        graph.raw_cuda_graph_exec()
    graph.instantiate()
    graph.instantiate()
    assert isinstance(graph.raw_cuda_graph_exec(), int)
    graph.replay()
    assert x.item() == 1.0
    graph.reset()
    for gone in (graph.raw_cuda_graph, graph.raw_cuda_graph_exec, graph.replay, graph.pool):
        with pytest.raises(RuntimeError):
            gone()


def test_a_graph_that_is_not_kept() -> None:
    x = torch.zeros(1, device="cuda")
    graph, _ = captured(lambda: x.add_(1))
    assert isinstance(graph.raw_cuda_graph_exec(), int)
    with pytest.raises(RuntimeError, match="keep_graph"):
        graph.raw_cuda_graph()
    with pytest.raises(RuntimeError, match="intended to be called by the user only when keep_graph=true"):
        graph.instantiate()
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        graph.capture_begin()


@child(VIRTUAL, CPU, alone=True)
@pytest.mark.skipif(
    not hasattr(torch._C, "_CUDAGraph") or torch.__version__ >= "2.14", reason="dumps differ since 2.14"
)
def test_a_dump() -> None:
    x, path = torch.zeros(1, device="cuda"), Path("graph.dot")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        x.add_(1).mul_(2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        graph.debug_dump(str(path))
    assert [str(one.message) for one in seen] == [
        "DEBUG: calling debug_dump()",
        f"DEBUG: calling cudaGraphDebugDotPrint() with {path}",
    ]
    text = path.read_text()
    path.unlink()
    assert text.startswith("digraph dot {")
    assert text.index("aten::add_") < text.index("aten::mul_") < text.index("->")


@child(VIRTUAL)
def test_a_capture_leaves_memory_that_it_frees() -> None:
    """Inductor's graphs free their inputs as they go: the first replay reads them."""
    first, second, x = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph(), torch.ones(1000, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    with torch.cuda.graph(first, pool=pool):
        y = x + 1
    first.replay()
    address = y.data_ptr()
    with torch.cuda.graph(second, pool=pool):
        doubled = y * 2
        del y
        more = doubled + 1
    assert more.data_ptr() == address
    second.replay()
    assert doubled.eq(4).all()
    assert more.eq(5).all()
