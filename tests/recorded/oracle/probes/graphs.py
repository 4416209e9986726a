"""CUDA graphs: what may be captured, what is refused, what a replay does."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import kind, numbers, probe, raises, warned
from recorded.oracle.scenes import captured, during


@probe()
def replays_follow_inputs() -> Any:
    x = torch.zeros(4, device="cuda")
    graph, y = captured(lambda: (x * 2 + 1).cumsum(0))
    out = [numbers(torch.zeros(1))]
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        out.append(numbers(y))
    return out


@probe()
def nothing_runs_in_a_capture() -> Any:
    x = torch.zeros(2, device="cuda")
    graph, _ = captured(lambda: x.add_(1))
    before = numbers(x)
    graph.replay()
    graph.replay()
    return [before, numbers(x)]


@probe()
def an_empty_capture() -> Any:
    return warned(lambda: raises(lambda: captured(lambda: None)[0].replay()))


@probe(alone=True)
def synchronising_in_a_capture_item() -> Any:
    x = torch.ones(2, device="cuda")
    return [during(lambda: x[0].item()), torch.cuda.is_current_stream_capturing(), raises(lambda: float((x + 1).sum()))]


@probe(alone=True)
def synchronising_in_a_capture_synchronize() -> Any:
    return [during(torch.cuda.synchronize), raises(lambda: float(torch.ones(2, device="cuda").sum()))]


@probe(alone=True)
def copying_home_in_a_capture() -> Any:
    x = torch.ones(2, device="cuda")
    return [during(lambda: x.cpu()), raises(lambda: float(torch.ones(2, device="cuda").sum()))]


@probe(alone=True)
def copying_there_in_a_capture() -> Any:
    return [during(lambda: torch.ones(2).cuda()), raises(lambda: float(torch.ones(2, device="cuda").sum()))]


@probe(alone=True)
def nonzero_in_a_capture() -> Any:
    x = torch.ones(2, device="cuda")
    return [during(lambda: x.nonzero()), during(lambda: x[x > 0])]


@probe(alone=True)
def event_query_in_a_capture() -> Any:
    e = torch.cuda.Event()
    e.record()
    return during(e.query)


@probe(alone=True)
def stream_query_in_a_capture() -> Any:
    return during(lambda: torch.cuda.current_stream().query())


@probe(alone=True)
def empty_cache_and_stats_in_a_capture() -> Any:
    return [during(torch.cuda.empty_cache), during(torch.cuda.memory_stats)]


@probe(alone=True)
def seeding_in_a_capture() -> Any:
    return [during(lambda: torch.cuda.manual_seed(3)), during(lambda: torch.cuda.get_rng_state())]


@probe(alone=True)
def a_generator_that_is_not_registered() -> Any:
    g = torch.Generator("cuda")
    return during(lambda: torch.rand(3, device="cuda", generator=g))


@probe(alone=True)
def random_numbers_in_graphs() -> Any:
    torch.cuda.manual_seed(7)
    graph, x = captured(lambda: torch.rand(4, device="cuda"))
    out = []
    for _ in range(2):
        graph.replay()
        out.append(numbers(x))
    after = numbers(torch.rand(4, device="cuda"))
    torch.cuda.manual_seed(7)
    eager = [numbers(torch.rand(4, device="cuda")) for _ in range(3)]
    return [out, after, eager]


@probe(alone=True)
def a_registered_generator() -> Any:
    g = torch.Generator("cuda").manual_seed(11)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(g)
    with torch.cuda.graph(graph):
        x = torch.rand(3, device="cuda", generator=g)
    graph.replay()
    a = numbers(x)
    graph.replay()
    return [a, numbers(x), g.get_offset(), g.initial_seed()]


@probe(alone=True)
def dropout_in_graphs() -> Any:
    torch.cuda.manual_seed(5)
    x = torch.ones(64, device="cuda")
    graph, y = captured(lambda: F.dropout(x, 0.5))
    graph.replay()
    a = numbers(y)
    graph.replay()
    return [a, numbers(y)]


@probe(alone=True)
def capture_twice() -> Any:
    graph = torch.cuda.CUDAGraph()
    x = torch.zeros(2, device="cuda")
    with torch.cuda.graph(graph):
        x.add_(1)

    def again() -> None:
        with torch.cuda.graph(graph):
            x.add_(2)

    return raises(again)


@probe(alone=True)
def capture_in_a_capture() -> Any:
    return during(lambda: captured(lambda: torch.ones(2, device="cuda")))


@probe(alone=True)
def capture_on_the_default_stream() -> Any:
    return raises(lambda: captured(lambda: torch.ones(2, device="cuda"), stream=torch.cuda.default_stream()))


@probe(alone=True)
def capture_error_modes() -> Any:
    return [
        raises(lambda m=m: captured(lambda: torch.ones(2, device="cuda") + 1, capture_error_mode=m)[0].replay())
        for m in ("global", "thread_local", "relaxed", "bogus")
    ]


@probe(alone=True)
def an_error_of_python_in_a_capture() -> Any:
    def fail() -> None:
        torch.ones(2, device="cuda")
        raise KeyError("mine")

    return [during(fail), torch.cuda.is_current_stream_capturing(), numbers(torch.ones(2, device="cuda") + 1)]


@probe()
def pools() -> Any:
    x = torch.ones(4, device="cuda")
    g1, y1 = captured(lambda: x * 2)
    g2, y2 = captured(lambda: y1 + 1, pool=g1.pool())
    g1.replay()
    g2.replay()
    handle = torch.cuda.graph_pool_handle()
    g3, _ = captured(lambda: x + 3, pool=handle)
    return [
        g1.pool() == g2.pool(),
        g3.pool() == handle,
        len(handle),
        numbers(y2),
        raises(lambda: captured(lambda: x + 1, pool=3)),
        g1.pool() == g3.pool(),
    ]


@probe()
def memory_of_a_graph() -> Any:
    gc.collect()
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated()
    x = torch.ones(1 << 20, device="cuda")
    graph, y = captured(lambda: x * 2)
    held = torch.cuda.memory_allocated() - base
    del y
    after = torch.cuda.memory_allocated() - base
    graph.reset()
    del graph
    gc.collect()
    return [held >= 2 << 22, after >= 1 << 22]


@probe()
def attributes() -> Any:
    g = torch.cuda.CUDAGraph()
    return [
        sorted(n for n in dir(g) if not n.startswith("_")),
        raises(lambda: torch.cuda.CUDAGraph(keep_graph=True).replay()),
        raises(lambda: torch.cuda.CUDAGraph(3).reset()),
        raises(lambda: g.debug_dump("/nowhere/x.dot")),
        [c.__name__ for c in torch.cuda.CUDAGraph.__mro__],
    ]


@probe()
def keeping_the_graph() -> Any:
    x = torch.zeros(2, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        x.add_(1)
    raw = type(g.raw_cuda_graph()).__name__
    g.instantiate()
    g.replay()
    return [raw, numbers(x), type(g.raw_cuda_graph_exec()).__name__]


@probe()
def warnings_of_debug_mode() -> Any:
    g = torch.cuda.CUDAGraph()
    return [warned(g.enable_debug_mode), kind(lambda: g.debug_dump("/tmp/none.dot"))]


@probe()
def conditions_of_the_stream() -> Any:
    s = torch.cuda.Stream()
    seen = []

    def work() -> Any:
        seen.append(
            [
                torch.cuda.is_current_stream_capturing(),
                torch.cuda.current_stream() == torch.cuda.default_stream(),
                torch._C._cuda_isCurrentStreamCapturing(),
            ]
        )
        return torch.ones(2, device="cuda")

    captured(work)
    captured(lambda: [work(), seen.append(torch.cuda.current_stream() == s)], stream=s)
    return seen


@probe()
def forked_streams() -> Any:
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")

    def work() -> Any:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            a = x * 3
        torch.cuda.current_stream().wait_stream(side)
        return a + 1

    graph, y = captured(work)
    graph.replay()
    return numbers(y)


@probe(alone=True)
def unjoined_streams() -> Any:
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")

    def work() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.mul(3)

    return during(work)


@probe(alone=True)
def events_with_timing_in_a_capture() -> Any:
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def work() -> None:
        a.record()
        torch.ones(2, device="cuda")
        b.record()

    out = during(work)
    return [out, raises(lambda: a.elapsed_time(b))]


@probe(alone=True)
def another_stream_is_refused_in_a_capture() -> Any:
    x = torch.ones(4, device="cuda")
    side = torch.cuda.Stream()

    def work() -> None:
        y = x + 1
        with torch.cuda.stream(side):
            y + 1
            side.synchronize()

    return during(work)
