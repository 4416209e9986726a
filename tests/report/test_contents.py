"""Contents of a report of the virtual GPU: operators, lines, copies, waits, memory; against torch's own figures."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from harness import VIRTUAL, in_child

from torchdevice_cuda.report import page, text
from torchdevice_cuda.report.advice import advice
from torchdevice_cuda.report.document import COPY, GRAPH, KERNEL, STREAM_WAIT, WAIT, Document, Site, Work, from_json
from torchdevice_cuda.report.graphics import stories
from torchdevice_cuda.report.verdict import verdict

from .reading import Shape, read

pytestmark = pytest.mark.native


def train() -> dict[str, int]:
    """A program that does each thing on a line of its own; what torch itself says of it."""
    model = torch.nn.Linear(64, 64).cuda()
    x = torch.ones(32, 64, device="cuda", requires_grad=True)
    y = model(x).relu()
    loss = (y * 2).sum()
    loss.backward()
    big = torch.zeros(512, 512, device="cuda")
    if loss > 0:
        del big
    torch.cuda.synchronize()
    torch.nonzero(x[0])
    x[x > 0]
    x[torch.zeros(3, dtype=torch.long, device="cuda")]
    x.detach().cpu()
    graph, fixed = torch.cuda.CUDAGraph(), torch.zeros(8, device="cuda")
    with torch.cuda.graph(graph):
        fixed.add_(1)
    for _ in range(3):
        graph.replay()
    return {"peak": torch.cuda.max_memory_allocated(), "line": train.__code__.co_firstlineno}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Document, dict[str, int]]:
    file = tmp_path_factory.mktemp("report") / "report.json"
    said = in_child(train, VIRTUAL.with_settings(report=str(file)))
    return read(file), said


Trained = tuple[Document, dict[str, int]]


def on_lines(trained: Trained, kind: str) -> dict[int, Counter[str]]:
    """By line of ``train``: calls by name."""
    document, said = trained
    found: dict[int, Counter[str]] = {}
    for row in document.work:
        if row.kind == kind and row.site.file == __file__:
            found.setdefault(row.site.line - said["line"], Counter())[row.name] += row.calls
    return found


def test_operators_by_line(trained: Trained) -> None:
    kernels = on_lines(trained, KERNEL)
    assert kernels[5]["aten::mul"] == 2, "forward, and backward on the line that it goes back to"
    assert kernels[4]["aten::mm"] == 2 and kernels[4]["aten::threshold_backward"] == 1
    assert kernels[7] == {"aten::zero_": 1}
    assert kernels[19] == {"aten::add_": 3}, "what a graph replays is on the line that replays it"
    assert 18 not in kernels, "what is captured does not run"


def test_copies_by_line(trained: Trained) -> None:
    copies = on_lines(trained, COPY)
    assert copies[2] == {"Memcpy HtoD (Pageable -> Device)": 2}
    assert copies[14] == {"Memcpy DtoH (Device -> Pageable)": 1}
    moved = {row.site.line - trained[1]["line"]: row.bytes for row in trained[0].work if row.kind == COPY}
    assert (moved[2], moved[14]) == (4 * (64 * 64 + 64), 4 * 32 * 64)


def test_waits_by_line(trained: Trained) -> None:
    waits = {line: dict(names) for line, names in on_lines(trained, WAIT).items() if line not in (16, 17)}
    assert waits == {
        2: {"aten::copy_": 2},
        8: {"aten::_local_scalar_dense": 1},
        10: {"cudaDeviceSynchronize": 1},
        11: {"aten::nonzero": 1},
        12: {"aten::index": 1},  # a mask's elements are counted; numbers that are on the GPU, on line 13, are not
        14: {"aten::copy_": 1},
    }


def test_memory(trained: Trained) -> None:
    document, said = trained
    (memory,) = document.memory
    assert memory.peak == said["peak"]
    assert sum(holder.bytes for holder in memory.held_at_peak) == memory.peak
    assert max(step[1] for step in memory.curve) == memory.peak
    first = memory.held_at_peak[0]
    assert (first.site.line - said["line"], first.bytes) == (7, 4 * 512 * 512)


def test_the_curve_and_the_timeline_are_bounded() -> None:
    steps, spans, calls = in_child(allocate_for_long, VIRTUAL)
    assert 500 <= steps <= 1024
    assert 1 << 12 <= spans <= 1 << 14
    assert calls == 20_000, "what is merged is counted"


def allocate_for_long() -> tuple[int, int, int]:
    import time

    import torchdevice_cuda

    native = torchdevice_cuda.driver().native
    assert native is not None and not native.is_counted()
    native.start_counting([])
    end = time.thread_time() + 2.5
    while time.thread_time() < end:
        torch.empty(1000, device="cuda")
    fixed = torch.zeros(1, device="cuda")
    for _ in range(20_000):
        fixed.add_(1)
    counts = native.read_counts()
    calls = sum(row[8] for row in counts["spans"] if row[3] == "aten::add_")
    return len(counts["memory"][0]["steps"]), len(counts["spans"]), calls


def threads_and_forks() -> list[int]:
    """Threads that count while others read, and a fork in the middle: nobody waits for ever, no call is lost."""
    import os
    import threading

    import torchdevice_cuda

    native = torchdevice_cuda.driver().native
    assert native is not None

    def work() -> None:
        for _ in range(500):
            torch.empty(4, device="cuda").fill_(1.0)

    native.read_counts(clear=True)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(20):
        native.read_counts()
        child = os.fork()
        if not child:
            native.read_counts()
            os._exit(0)
        os.waitpid(child, 0)
    for worker in workers:
        worker.join()
    return [row[3] for row in native.read_counts()["rows"] if row[1] == "aten::fill_"]


def test_deferred_work_counts_at_the_line_of_its_call(trained: Trained, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    in_child(train, VIRTUAL.with_settings(report=str(file), streams=0))
    both = read(file), trained[0]
    later, eager = ({(w.name, w.site.line): w.calls for w in one.work if w.kind == KERNEL} for one in both)
    assert later == eager


def test_threads_lose_no_call(tmp_path: Path) -> None:
    assert in_child(threads_and_forks, VIRTUAL.with_settings(report=str(tmp_path / "report.txt"))) == [2000]


def test_the_timeline_has_every_call(trained: Trained) -> None:
    document, said = trained
    (timeline,) = document.timelines
    found: dict[tuple[str, str, Site], int] = {}
    for span in timeline.spans:
        key = (span.kind, span.name, span.site)
        found[key] = found.get(key, 0) + span.calls
    counted = {(row.kind, row.name, row.site): row.calls for row in document.work}
    assert {key: calls for key, calls in found.items() if key[0] in (KERNEL, COPY, WAIT)} == counted
    replays = [span for span in timeline.spans if span.kind == GRAPH]
    assert [span.site.line - said["line"] for span in replays] == [19] * 3
    nodes = [span for span in timeline.spans if span.in_graph]
    assert [span.name for span in nodes] == ["aten::add_"] * 3
    for replay, node in zip(replays, nodes, strict=True):
        assert replay.start <= node.start and node.start + node.time <= replay.start + replay.time + 1


def wait_and_run_short() -> int:
    """Order two streams, cast at every step, read at every step, and ask for more memory than there is."""
    x, side = torch.ones(64, 64, device="cuda"), torch.cuda.Stream()
    for _ in range(6):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x.half()
        if y[0, 0] > 0:
            torch.ones(8).to("cuda")
    held = torch.empty(700 << 20, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
    del held
    return wait_and_run_short.__code__.co_firstlineno


def test_streams_shortages_and_advice(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    first = in_child(wait_and_run_short, VIRTUAL.with_settings(report=str(file), memory=1 << 30))
    document = read(file)
    (timeline,) = document.timelines
    waits = [span for span in timeline.spans if span.kind == STREAM_WAIT]
    casts = {span.stream for span in timeline.spans if span.kind == KERNEL and span.name == "aten::copy_"}
    assert {span.stream for span in waits} == casts and 0 not in casts
    assert [span.site.line - first for span in waits] == [4] * 6

    (shortage,) = document.shortages
    assert (shortage.site.line - first, shortage.requested, shortage.total) == (11, 400 << 20, 1 << 30)
    assert (shortage.holders[0].site.line - first, shortage.holders[0].bytes) == (9, 700 << 20)
    assert sum(holder.bytes for holder in shortage.holders) == shortage.allocated
    assert shortage.fits() == shortage.allowed - shortage.reserved

    found = verdict(document)
    assert found.tone == "bad" and "400.0 MiB" in found.text
    advised = {(each.title, each.site.line - first) for each in advice(document)}
    assert advised == {
        ("Convert once, not at every step", 6),
        ("Read values from the GPU less often", 7),
        ("Create tensors on the GPU", 8),
    }
    assert all(each.reason and each.cost and each.change for each in advice(document))
    (story,) = stories(document)
    assert "A request for 320.0 MiB would have fitted" in " ".join(story.sentences)


# ----------------------------------------------------------------------------- renderings
def test_a_document_is_read_as_it_was_written(trained: Trained) -> None:
    document, _ = trained
    assert from_json(document.to_json()) == document
    assert json.loads(document.to_json())["schema"] == "torchdevice_cuda/report/1"
    with pytest.raises(ValueError, match="no report"):
        from_json("{}")


def test_texts_say_what_the_data_says(trained: Trained) -> None:
    document, said = trained
    calls = sum(row.calls for row in document.work if row.kind != WAIT)
    for shown in (text.plain(document), page.page(document)):
        assert f"What ran on the GPU: {calls:,} calls" in shown
        assert f"{Path(__file__).name}:{said['line'] + 7}" in shown
    assert f"{calls:,} calls" in text.for_terminal(document, colours=True, width=160)


def test_a_page_shows_the_source(trained: Trained) -> None:
    shown = page.page(trained[0])
    assert "big = torch.zeros(512, 512, device=&#34;cuda&#34;)" in shown
    assert "color-scheme: light dark" in shown
    names = {name for _, attributes in Shape(shown).found for name in attributes}
    assert not names & {"src", "srcset", "data", "action"}, "a page that needs nothing from anywhere"
    links = set(re.findall(r'href="([^"#]*?)[^/"]*"', shown))
    assert {link.split("/", 1)[0] for link in links if link} == {"vscode:"}, "only an editor is opened"


def test_rows_of_one_line_are_one(trained: Trained) -> None:
    keys = Counter((row.kind, row.name, row.site) for row in trained[0].work)
    assert max(keys.values()) == 1
    assert all(isinstance(row, Work) and row.calls > 0 for row in trained[0].work)
