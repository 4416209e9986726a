"""The memory of CUDA graphs on the virtual GPU: whose it is, and how it is counted."""

from __future__ import annotations

import gc

import pytest
import torch
from harness import VIRTUAL, child

from torchdevice_cuda._compat import torch_release

from .test_graphs import captured

pytestmark = child(VIRTUAL)


def _books() -> tuple[int, int]:
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def _segments() -> list[tuple[object, int, int]]:
    found = [(tuple(s["segment_pool_id"]), s["total_size"], s["allocated_size"]) for s in torch.cuda.memory_snapshot()]
    return sorted(s for s in found if s[0] != (0, 0))


MIB = 1 << 20


@child(VIRTUAL, alone=True)
def test_memory_is_counted_as_cuda_counts_it() -> None:
    """Segment by segment what an H200 had, with pools named as there."""
    x = torch.ones(3, device="cuda")

    def body() -> tuple[torch.Tensor, ...]:
        a, b = torch.ones(1000, device="cuda"), torch.ones(MIB, device="cuda")
        return b, a * 2, b * 2

    graph, made = captured(body)
    assert graph.pool() == (1, 0)
    assert _segments() == [((1, 0), 2 * MIB, 4096), ((1, 0), 20 * MIB, 8 * MIB)]
    # Beside the tensor, the generator's seed and offset are kept where a replay finds them: since torch 2.13 in memory
    # of the default stream.
    kept = 0 if torch_release(torch.__version__) >= (2, 13) else 2
    assert _books() == (512 + 1024 + 4096 + 8 * MIB, (2 + kept + 2 + 20) * MIB)
    asked = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(3):
        graph.replay()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == asked
    del made
    torch.cuda.empty_cache()
    assert _segments() == [((1, 0), 2 * MIB, 0), ((1, 0), 20 * MIB, 0)]
    other, y = captured(lambda: torch.ones(MIB, device="cuda") + 1, pool=graph.pool())
    assert other.pool() == (1, 0)
    assert _segments() == [((1, 0), 2 * MIB, 0), ((1, 0), 20 * MIB, 4 * MIB)]
    graph.reset()
    other.reset()
    torch.cuda.empty_cache()
    assert _segments() == [((1, 0), 20 * MIB, 4 * MIB)]
    del y
    torch.cuda.empty_cache()
    assert _segments() == []
    third, _ = captured(lambda: torch.ones(5, device="cuda"))
    assert third.pool() == (2, 0)
    del x


def test_a_pool_of_the_programs_own() -> None:
    pool = torch.cuda.MemPool()
    graph, x = captured(lambda: torch.ones(5, device="cuda"), pool=pool.id)
    assert graph.pool() == pool.id
    assert pool.use_count() == 2
    assert [tuple(s["segment_pool_id"]) for s in pool.snapshot()] == [pool.id]
    graph.replay()
    assert x.tolist() == [1.0] * 5


def test_memory_that_another_stream_uses_is_not_used_again() -> None:
    side = torch.cuda.Stream()

    def body() -> list[int]:
        main = torch.cuda.current_stream()
        x = torch.empty(8, device="cuda")
        addresses = [x.data_ptr()]
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = x + 2
            x.record_stream(side)
        del x
        addresses.append(torch.empty(8, device="cuda").data_ptr())
        main.wait_stream(side)
        del y
        return addresses

    graph, (first, second) = captured(body)
    assert first != second
    graph.replay()


def test_memory_that_is_gone_is_an_illegal_access() -> None:
    """The graph does not hold what it reads."""
    torch.cuda.empty_cache()
    read = [torch.ones(MIB, device="cuda")]
    graph, _ = captured(lambda: read[0] * 2)
    held = torch.cuda.memory_allocated()
    read.clear()
    gc.collect()
    assert held - torch.cuda.memory_allocated() == 4 * MIB
    torch.cuda.empty_cache()
    with pytest.raises(torch.AcceleratorError, match="an illegal memory access was encountered") as raised:
        graph.replay()
    assert raised.value.error_code == 700


def test_a_graphs_memory_is_freed() -> None:
    """Seeds and offsets of its generators, too, which in later releases every graph has for itself."""
    torch.cuda.init()
    generator = torch.cuda.default_generators[0]
    gc.collect()
    before = torch.cuda.memory_stats()["active.all.current"]
    for graphs, states in ((1, 1), (3, 2)):
        others = [generator.clone_state() for _ in range(1, states)]
        made = []
        for _ in range(graphs):
            made.append(torch.cuda.CUDAGraph())
            for state in others:
                made[-1].register_generator_state(state)
            with torch.cuda.graph(made[-1]):
                torch.rand(1, device="cuda")
        pairs = states * (graphs if torch_release(torch.__version__) >= (2, 13) else 1)
        assert torch.cuda.memory_stats()["active.all.current"] == before + 2 * pairs
        made.clear()
        gc.collect()
        assert torch.cuda.memory_stats()["active.all.current"] == before
