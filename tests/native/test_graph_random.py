"""Random numbers of CUDA graphs: each replay draws as the program would have."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.utils.checkpoint
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, child
from torch import nn

from .test_graphs import captured

pytestmark = child(VIRTUAL, CPU, MPS_FAITHFUL)


def test_a_replay_moves_the_generator() -> None:
    torch.cuda.init()
    generator = torch.cuda.default_generators[0]
    torch.manual_seed(5)
    before = generator.get_state()
    graph, (a, b) = captured(lambda: (torch.rand(10, device="cuda"), torch.randn(1 << 20, device="cuda")))
    assert torch.equal(generator.get_state(), before)
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append((a.clone(), b.clone(), generator.get_state()))
    torch.manual_seed(5)
    for x, y, state in seen:
        assert torch.equal(torch.rand(10, device="cuda"), x)
        assert torch.equal(torch.randn(1 << 20, device="cuda"), y)
        assert torch.equal(generator.get_state(), state)


def test_a_generator_of_the_programs_own(place: ChildConfig) -> None:
    graph, own = torch.cuda.CUDAGraph(), torch.Generator("cuda").manual_seed(9)
    graph.register_generator_state(own)
    with torch.cuda.graph(graph):
        x = torch.rand(4, device="cuda", generator=own)
    graph.replay()
    first = x.clone()
    own.manual_seed(9)
    graph.replay()
    assert torch.equal(first, x)
    own.manual_seed(9)
    assert torch.equal(first, torch.rand(4, device="cuda", generator=own))
    if place == CPU:  # whose generators have no offset, and are all of the CPU
        return
    own.set_offset(400)
    graph.replay()
    assert own.get_offset() == 404
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        graph.register_generator_state(torch.Generator())


def test_a_state_that_is_set_back_in_the_capture() -> None:
    """As checkpoints do, which compute something a second time with the same random numbers."""
    x = torch.rand(64, device="cuda", requires_grad=True)

    def body() -> tuple[torch.Tensor, ...]:
        inner = functools.partial(nn.functional.dropout, p=0.5)
        y = torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False) + torch.rand(64, device="cuda")
        return y.detach(), *torch.autograd.grad(y.sum(), x), torch.rand(4, device="cuda")

    torch.manual_seed(4)
    expected = [body() for _ in range(2)]
    after = torch.cuda.get_rng_state()
    graph, results = captured(body)
    torch.manual_seed(4)
    for wanted in expected:
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(wanted, results, strict=True))
    assert torch.equal(torch.cuda.get_rng_state(), after)


@child(VIRTUAL)  # generators of other devices have no states that they share
def test_a_graph_draws_from_the_states_that_it_was_captured_with() -> None:
    generator, graph = torch.cuda.default_generators[0], torch.cuda.CUDAGraph()
    first = generator.graphsafe_get_state()
    second = generator.clone_state().manual_seed(11)
    for state in (first, second):
        graph.register_generator_state(state)
    with torch.cuda.graph(graph):
        a = torch.rand(4, device="cuda")
        generator.graphsafe_set_state(second)
        b = torch.rand(4, device="cuda")
        generator.graphsafe_set_state(first)
    first.manual_seed(10)
    graph.replay()
    assert (first.get_offset(), second.get_offset()) == (4, 4)
    for seed, got in ((10, a), (11, b)):
        torch.manual_seed(seed)
        assert torch.equal(torch.rand(4, device="cuda"), got)
