"""Tools of torch that look at what a program does on the GPU: snapshots that memory_viz draws, counted operations."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import torch
from harness import CPU, VIRTUAL, child


def _weights(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="cuda")


@child(VIRTUAL)
def test_memory_viz_reads_a_snapshot() -> None:
    from torch.cuda import _memory_viz as viz

    torch.cuda.memory._record_memory_history("all", stacks="python")
    torch.cuda.memory._set_memory_metadata("the weights")
    kept = [_weights(64, 64), _weights(2048, 1024)]
    torch.cuda.memory._set_memory_metadata("")
    before = torch.cuda.memory._snapshot()
    dropped = _weights(3000)
    side = torch.cuda.Stream()
    dropped.record_stream(side)
    del dropped, kept[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = kept[0] * 2
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(str(path))
        data = pickle.loads(path.read_bytes())
    torch.cuda.memory._record_memory_history(None)

    def as_lines(text: str, script: object = None) -> str:
        return text

    for draw in (viz.segments, viz.memory):
        lines = draw(data, format_flamegraph=as_lines).splitlines()
        assert any("_weights" in line for line in lines), draw
        assert all(line.rpartition(" ")[2].isdigit() for line in lines), draw
    assert viz.compare(before["segments"], data["segments"], format_flamegraph=as_lines)
    assert "total_reserved" in viz.segsum(data)
    assert viz.trace(data).startswith("Device 0")
    assert {"alloc", "free_requested", "free_completed", "segment_alloc"} <= {
        entry["action"] for trace in data["device_traces"] for entry in trace
    }
    for page in (viz.trace_plot(data), viz.trace_plot(data, plot_segments=True), viz.segment_plot(data)):
        assert "<script" in page
        assert len(page) > 500
    texts = [e.get("user_metadata") for trace in data["device_traces"] for e in trace if e["action"] == "alloc"]
    assert texts.count("the weights") == 2
    assert made.numel() == kept[0].numel()


@child(VIRTUAL, CPU)
def test_operations_are_counted() -> None:
    """As many as the shapes have, forward and backward, in the same operators' names as for the CPU's own tensors."""
    from torch.utils.flop_counter import FlopCounterMode

    def counted(device: str) -> dict[str, int]:
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5))
        model.to(device)
        with FlopCounterMode(display=False) as counter:
            model(torch.rand(2, 3, 8, 8, device=device)).sum().backward()
            torch.bmm(torch.rand(2, 3, 4, device=device), torch.rand(2, 4, 5, device=device))
        assert counter.get_total_flops() == sum(counter.get_flop_counts()["Global"].values())
        return {str(name): count for name, count in counter.get_flop_counts()["Global"].items()}

    found = counted("cuda")
    assert found == counted("cpu")
    assert found["aten.bmm"] == 2 * 2 * 3 * 4 * 5
    assert found["aten.convolution"] == 2 * 2 * 4 * 36 * 27


@child(VIRTUAL, CPU)
def test_attentions_operations_are_counted() -> None:
    """CUDA's attention has a formula in torch; the CPU's, which computes it here, has none."""
    from torch.utils.flop_counter import FlopCounterMode

    query = torch.rand(2, 4, 16, 8, device="cuda", requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    # Two products forward, and five of the same size backward: the scores are computed again.
    assert counter.get_total_flops() == 2 * (2 * 4 * 16 * 16 * 8) * 7
