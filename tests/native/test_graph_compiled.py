"""Compiled code and CUDA graphs on the virtual GPU."""

from __future__ import annotations

import logging

import pytest
import torch
from harness import VIRTUAL, child

from .test_graphs import captured

pytestmark = [child(VIRTUAL, seconds=300), pytest.mark.slow]


def test_compiled_code_is_captured() -> None:
    """It computes with what is in memory then, into the same memory; what it changes stays as it was until then."""
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


def test_trees_are_declined_in_the_logs() -> None:
    from torch._dynamo.utils import counters

    said: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    log = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    log.addHandler(handler := Keeping())
    try:
        x = torch.rand(8, device="cuda")
        for mode in ("reduce-overhead", "max-autotune"):
            torch._dynamo.reset()
            before = counters["inductor"]["cudagraph_skips"]
            compiled = torch.compile(lambda x: (x * 2).relu(), mode=mode)
            results = [compiled(x), compiled(x)]
            assert torch.equal(results[0], x * 2)
            assert results[0].data_ptr() != results[1].data_ptr(), "nobody takes it back"
            assert counters["inductor"]["cudagraph_skips"] == before + 1
    finally:
        log.removeHandler(handler)
    assert [text.startswith("skipping cudagraphs due to the virtual GPU") for text in said] == [True, True]
