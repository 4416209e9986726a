"""``torch.profiler`` on the virtual GPU: what the device did, when, on which stream, and what had it do so."""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

from native import trace_format

pytestmark = child(VIRTUAL.with_settings(devices=2))

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def _exported(run: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        run.export_chrome_trace(str(path))
        return trace_format.read(path)


def _on_device(run: Any) -> list[Any]:
    return [e for e in run.events() if e.device_type == DeviceType.CUDA]


@functools.cache
def _step() -> tuple[Any, dict[str, Any]]:
    """Return a step of training with all that goes with it, profiled; and its trace."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    host, side = torch.randn(32, 64), torch.cuda.Stream()
    pinned = host.pin_memory()
    # The first range in a profile imports what it needs. PyTorch keeps pointers to the names of code that runs, and an
    # imported module's is gone at the end, so that its name may be anything, which cannot be decoded now and then.
    with profile(activities=BOTH, with_stack=True), record_function("before"):
        pass
    with profile(activities=BOTH, profile_memory=True, record_shapes=True, with_stack=True) as run:
        with record_function("forward"):
            x = pinned.to("cuda", non_blocking=True)
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.cuda.nvtx.range("metrics"):
            seen = (x * 2).sum()
        torch.cuda.current_stream().wait_stream(side)
        seen.item(), x.cpu(), x.clone(), host.to("cuda:1")
        side.synchronize()
        torch.cuda.synchronize()
    return run, _exported(run)


def test_a_trace_can_be_drawn() -> None:
    _, trace = _step()
    assert trace_format.flaws(trace) == []
    assert {e["cat"] for e in trace["traceEvents"] if e["ph"] == "X"} >= {
        "cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_user_annotation", "user_annotation", "python_function"
    }  # fmt: skip
    assert {e["cat"] for e in trace["traceEvents"] if e["ph"] == "s"} == {"ac2g", "fwdbwd"}


def test_torchs_own_rules_hold() -> None:
    rules = pytest.importorskip("torch.profiler._trace_validator", reason="torch has had these since 2.13")
    x, side = torch.ones(8, device="cuda"), torch.cuda.Stream()
    with profile(
        activities=BOTH, experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    ) as run:
        y = (x + 1).requires_grad_()
        y.square().sum().backward()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.mul(2)
        event = side.record_event()
        event.synchronize(), side.synchronize(), torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "trace.json")
        run.export_chrome_trace(path)
        assert rules.validate_trace(path) == (True, [])
        trace = trace_format.read(path)
    kinds = {e["args"]["cuda_sync_kind"] for e in trace_format.of(trace, "cuda_sync")}
    assert kinds == {"Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"}


def test_a_trace_says_which_devices_it_is_of() -> None:
    _, trace = _step()
    shown = [(d["id"], d["name"], d["totalGlobalMem"]) for d in trace["deviceProperties"]]
    asked = [torch.cuda.get_device_properties(i) for i in range(2)]
    assert shown == [(i, p.name, p.total_memory) for i, p in enumerate(asked)]
    labels = {e["pid"]: e["args"]["labels"] for e in trace["traceEvents"] if e["name"] == "process_labels"}
    assert labels[0] == "GPU 0" and labels[1] == "GPU 1" and list(labels.values()).count("CPU") == 1


def test_operators_have_their_kernels() -> None:
    run, _ = _step()
    events = {e.name: e for e in run.events() if e.device_type == DeviceType.CPU}
    addmm = events["aten::addmm"]
    assert [k.name for k in addmm.kernels] == ["virtual aten::addmm"]
    assert 0 < addmm.device_time_total <= addmm.cpu_time_total
    # What an operator calls is counted in it.
    assert events["aten::linear"].device_time_total == addmm.device_time_total
    assert events["aten::linear"].self_device_time_total == 0
    # Each kernel is one operator's: no call of the runtime has a share in it.
    assert [e.name for e in run.events() if e.name.startswith("cuda") and e.kernels] == []
    launched = sum(len(e.kernels) for e in run.events() if e.device_type == DeviceType.CPU)
    assert launched == sum(not e.is_user_annotation for e in _on_device(run))
    assert events["forward"].device_time_total >= addmm.device_time_total
    assert events["autograd::engine::evaluate_function: AddmmBackward0"].device_time_total > 0


def test_kernels_have_the_time_the_operator_took() -> None:
    x = torch.randn(600, 600, device="cuda")
    with profile(activities=BOTH) as run:
        for _ in range(5):
            x @ x
    mm, kernel = ({e.key: e for e in run.key_averages()}[name] for name in ("aten::mm", "virtual aten::mm"))
    assert mm.count == kernel.count == 5
    assert mm.self_device_time_total == kernel.self_device_time_total
    assert 0.8 < kernel.self_device_time_total / mm.cpu_time_total <= 1


def test_tables_have_numbers() -> None:
    run, _ = _step()
    for sort in ("cuda_time_total", "self_cuda_time_total", "device_time_total", "self_device_time_total"):
        table = run.key_averages().table(sort_by=sort, row_limit=5)
        assert "Self CUDA" in table and "CUDA Mem" in table and "CUDA time avg" in table
        total = table.split("Self CUDA time total: ")[1]
        assert float(total.rstrip().removesuffix("us").removesuffix("ms").removesuffix("s").removesuffix("u")) > 0
    shapes = run.key_averages(group_by_input_shape=True)
    by_shape = {str(e.input_shapes): e.device_time_total for e in shapes if e.key == "aten::addmm"}
    assert set(by_shape) == {"[[64], [32, 64], [64, 64], [], []]", "[[8], [32, 64], [64, 8], [], []]"}
    assert all(time > 0 for time in by_shape.values())
    if torch.__version__ >= "2.13":  # before, tables on an H200 have no stacks, either
        assert "test_profiler.py" in run.key_averages(group_by_stack_n=5).table(sort_by="cuda_time_total")


def test_a_kernel_belongs_to_the_call_that_launched_it() -> None:
    """The tree that PyTorch's own tests expect of a GPU: operator, call, kernel."""
    x, y = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
    with profile(activities=BOTH) as run:
        torch.add(x, x)
        x.copy_(y)
    lines: list[str] = []

    def walk(events: Any, depth: int) -> None:
        for event in events:
            lines.append("  " * depth + event.name)
            walk(event.children, depth + 1)

    walk(run.profiler.kineto_results.experimental_event_tree(), 0)
    assert lines == [
        "aten::add",
        "  cudaLaunchKernel",
        "    virtual aten::add",
        "aten::copy_",
        "  cudaMemcpyAsync",
        "    Memcpy DtoD (Device -> Device)",
        "cudaDeviceSynchronize",
    ]


def test_copies_say_which_way_and_how_much() -> None:
    x, h = torch.ones(1000, device="cuda"), torch.ones(1000)
    pinned = h.pin_memory()
    with profile(activities=BOTH) as run:
        h.cuda(), pinned.cuda(non_blocking=True), x.cpu(), pinned.copy_(x), x.clone(), torch.empty_like(x).copy_(x)
        x[0].item(), x.to("cuda:1"), x.double(), x.new_empty(0).copy_(h[:0])
    copies = trace_format.of(_exported(run), "gpu_memcpy")
    assert [(e["name"], e["args"]["bytes"]) for e in copies] == [
        ("Memcpy HtoD (Pageable -> Device)", 4000),
        ("Memcpy HtoD (Pinned -> Device)", 4000),
        ("Memcpy DtoH (Device -> Pageable)", 4000),
        ("Memcpy DtoH (Device -> Pinned)", 4000),
        ("Memcpy DtoD (Device -> Device)", 4000),
        ("Memcpy DtoD (Device -> Device)", 4000),
        ("Memcpy DtoH (Device -> Pinned)", 4),
        ("Memcpy PtoP (Device -> Device)", 4000),
    ]
    # One that converts is a kernel's; the host waits for those that do not say otherwise.
    kernels = [e.name for e in _on_device(run) if not e.name.startswith("Memcpy")]
    assert kernels == ["virtual aten::copy_"]
    assert Counter(e.name for e in run.events())["cudaStreamSynchronize"] == 4


def test_waiting_and_events_are_calls() -> None:
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    event = torch.cuda.Event(enable_timing=True)
    with profile(activities=BOTH) as run:
        event.record(), event.query(), event.synchronize(), side.wait_event(event)
        side.query(), side.synchronize(), torch.cuda.synchronize(), x.nonzero()
    calls = [e.name for e in run.events() if e.name.startswith("cuda")]
    assert calls == [
        "cudaEventRecord", "cudaEventQuery", "cudaEventSynchronize", "cudaStreamWaitEvent", "cudaStreamQuery",
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaLaunchKernel", "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
    ]  # fmt: skip


def test_memory_of_segments_is_asked_for() -> None:
    torch.cuda.empty_cache()
    with profile(activities=BOTH) as run:
        x = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        del x
        torch.cuda.empty_cache()
        torch.empty(3 << 20, dtype=torch.uint8, pin_memory=True)
    assert {"cudaMalloc", "cudaFree", "cudaHostAlloc"} <= {e.name for e in run.events()}


def test_streams_are_rows() -> None:
    x, side, other = torch.ones(3, device="cuda"), torch.cuda.Stream(), torch.ones(3, device="cuda:1")
    with profile(activities=BOTH) as run:
        x.add(1)
        with torch.cuda.stream(side):
            x.add(1)
        other.add(1)
    rows = [(e["pid"], e["tid"]) for e in trace_format.of(_exported(run), "kernel")]
    assert [pid for pid, _ in rows] == [0, 0, 1]
    assert rows[0][1] == rows[2][1] == 7 != rows[1][1]
    assert [e.device_index for e in _on_device(run)] == [0, 0, 1]


def test_a_stream_does_one_thing_after_the_other() -> None:
    """Work after a sleep begins later, also if several threads submit to one stream."""
    x = torch.ones(200_000, device="cuda")

    def compute() -> None:
        for _ in range(20):
            x.sin()

    with profile(activities=BOTH) as run:
        torch.cuda._sleep(30_000_000)
        x.add(1)
        threads = [threading.Thread(target=compute) for _ in range(2)]
        [t.start() for t in threads], [t.join() for t in threads]
    trace = _exported(run)
    assert trace_format.flaws(trace) == []
    slept, *rest = trace_format.of(trace, "kernel")
    assert (slept["name"], len(rest)) == ("virtual sleep", 41)
    assert slept["dur"] == pytest.approx(20_000, rel=0.01)
    assert min(e["ts"] for e in rest) >= slept["ts"] + slept["dur"] - 0.01


def test_ranges_reach_the_device() -> None:
    _, trace = _step()
    ranges = {(e["name"], e["tid"]) for e in trace_format.of(trace, "gpu_user_annotation")}
    (side,) = {e["tid"] for e in trace_format.of(trace, "kernel") if e["tid"] != 7}
    assert ranges >= {("forward", 7), ("metrics", side)}
    assert {"forward", "metrics"} <= {e["name"] for e in trace_format.of(trace, "user_annotation")}


def test_a_graph_is_one_call_and_its_kernels() -> None:
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with profile(activities=BOTH) as capture, torch.cuda.graph(graph):
        y = x.add(1).mul(2)
        x.copy_(y)
    assert not [e for e in _on_device(capture) if "aten" in e.name or "Memcpy" in e.name], "nothing ran"
    assert [e.name for e in capture.events()].count("cudaLaunchKernel") == 3
    with profile(activities=BOTH) as run:
        for _ in range(2):
            graph.replay()
    trace = _exported(run)
    assert trace_format.flaws(trace) == []
    launches = [
        e["args"]["correlation"] for e in trace_format.of(trace, "cuda_runtime") if e["name"] == "cudaGraphLaunch"
    ]
    work = trace_format.of(trace, "kernel", "gpu_memcpy")
    names = ["virtual aten::add", "virtual aten::mul", "Memcpy DtoD (Device -> Device)"]
    assert [(e["name"], e["args"]["correlation"]) for e in work] == [(n, c) for c in launches for n in names]
    assert [e["args"]["graph node id"] for e in work] == [0, 1, 2] * 2


def test_memory_of_the_device() -> None:
    run, trace = _step()
    averages = {e.key: e for e in run.key_averages()}
    assert averages["aten::addmm"].self_device_memory_usage == (32 * 64 + 32 * 8) * 4
    devices = {e["args"]["Device Type"] for e in trace["traceEvents"] if e["name"] == "[memory]"}
    assert devices == {0, 1}, "of the host and of CUDA"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for name in ("memory.json", "memory.raw.json.gz"):
            run.export_memory_timeline(str(Path(folder) / name), device="cuda:0")
        times, sizes = json.loads((Path(folder) / "memory.json").read_text())
        raw = json.loads(gzip.decompress((Path(folder) / "memory.raw.json.gz").read_bytes()))
    assert len(times) == len(sizes) > 10 and max(map(sum, sizes)) > 0 and len(raw) > 10


def test_only_the_device_or_only_the_host() -> None:
    x = torch.ones(3, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as run:
        x.add(1)
    names = [e.name for e in run.events()]
    assert "virtual aten::add" in names and "cudaLaunchKernel" in names and "aten::add" not in names
    assert "Self CUDA" in run.key_averages().table(sort_by="cuda_time_total")
    with profile(activities=[ProfilerActivity.CPU]) as run:
        x.add(1)
    assert "aten::add" in {e.name for e in run.events()} and not _on_device(run)


def test_steps_of_a_schedule() -> None:
    x = torch.ones(3, device="cuda")
    steps = schedule(wait=1, warmup=1, active=2)
    with tempfile.TemporaryDirectory() as folder:
        ready = tensorboard_trace_handler(folder, "worker")
        with profile(activities=BOTH, schedule=steps, on_trace_ready=ready) as run:
            for _ in range(4):
                x.add(1)
                run.step()
        (path,) = Path(folder).iterdir()
        trace = trace_format.read(path)
    assert trace_format.flaws(trace) == []
    assert [e["name"] for e in trace_format.of(trace, "kernel")] == ["virtual aten::add"] * 2
    found = Counter((e["cat"], e["name"]) for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep"))
    assert found == {
        (cat, f"ProfilerStep#{i}"): 1 for cat in ("user_annotation", "gpu_user_annotation") for i in (2, 3)
    }


def test_collecting_can_be_paused() -> None:
    x = torch.ones(3, device="cuda")
    with profile(activities=BOTH) as run:
        x.add(1)
        run.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        x.mul(1)
        run.toggle_collection_dynamic(True, [ProfilerActivity.CUDA])
        x.sub(1)
    assert [e.name for e in _on_device(run)] == ["virtual aten::add", "virtual aten::sub"]


def test_a_failed_call_has_no_event() -> None:
    x = torch.ones(3, 4, device="cuda")
    with profile(activities=BOTH) as run:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            x @ x
        x.view(-1)
        x.add(1)
    assert [e.name for e in _on_device(run)] == ["virtual aten::add"]


def test_operators_are_timed_with_events() -> None:
    x = torch.ones(300, 300, device="cuda")
    for options in ({"use_device": "cuda"}, {"use_cuda": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            made = torch.autograd.profiler.profile(**options)
        with made as run:
            x @ x
        (mm,) = [e for e in run.key_averages() if e.key == "aten::mm"]
        assert 0 < mm.device_time_total <= mm.cpu_time_total * 1.5, options
        assert "Self CUDA" in run.key_averages().table(sort_by="cuda_time_total")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.autograd.profiler_legacy import profile as legacy

        with legacy(use_cuda=True) as older:
            x @ x
    assert sum(e.device_time_total for e in older.key_averages() if e.key == "aten::mm") > 0


def test_ranges_for_nvtx() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.cuda.profiler.profile(), torch.autograd.profiler.emit_nvtx(record_shapes=True):
        x.square().sum().backward()
        assert torch.autograd._profiler_enabled()
    assert not torch.autograd._profiler_enabled()
    assert x.grad.tolist() == [2] * 3


@pytest.mark.slow
def test_compiled_code_is_work_of_the_device() -> None:
    double = torch.compile(lambda x: (x * 2).sin())
    x = torch.ones(100, device="cuda")
    double(x)
    with profile(activities=BOTH) as run:
        double(x)
    assert [e.name for e in _on_device(run) if "annotation" not in e.name] == ["virtual compiled code"]
