"""The profiler: what is recorded of work on the GPU."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from recorded.oracle.probing import probe, raises, ramp, warned


def worked(**options: Any) -> Any:
    x = ramp(16, 16)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], **options) as p:
        with record_function("mine"):
            y = x @ x
            y = torch.relu(y) + 1
        y.sum().item()
        torch.cuda.synchronize()
    return p


@probe()
def rows() -> Any:
    p = worked()
    averages = p.key_averages()
    names = {e.key for e in averages}
    return [
        sorted(n for n in names if n.startswith("aten::")),
        "mine" in names,
        sorted(n for n in names if n.startswith("cuda") and "Launch" in n)[:1],
        "cudaDeviceSynchronize" in names,
        any(n.startswith("Memcpy DtoH") for n in names),
        [e.count for e in averages if e.key == "aten::mm"],
        any(e.device_time_total > 0 for e in averages),
        any(e.self_device_time_total > 0 for e in averages if e.key == "aten::mm"),
    ]


@probe()
def columns() -> Any:
    p = worked(profile_memory=True, record_shapes=True, with_flops=True)
    table = p.key_averages(group_by_input_shape=True).table(sort_by="cuda_time_total", row_limit=5)
    head = next(line for line in table.splitlines() if "Name" in line)
    mm = next(e for e in p.key_averages(group_by_input_shape=True) if e.key == "aten::mm")
    return [
        head.split(),
        "Self CUDA time total" in table,
        "Self CPU time total" in table,
        mm.input_shapes,
        mm.flops,
        mm.device_memory_usage,
        mm.self_device_memory_usage,
        raises(lambda: p.key_averages().table(sort_by="bogus")),
        raises(lambda: p.key_averages().table(sort_by="device_time_total")[:0]),
    ]


@probe()
def events() -> Any:
    p = worked()
    on = [e for e in p.events() if str(e.device_type) == "DeviceType.CUDA"]
    mm = next(e for e in p.events() if e.name == "aten::mm")
    return [
        len(on) >= 4,
        sorted({str(e.device_type) for e in p.events()}),
        all(e.device_index == 0 for e in on),
        len(mm.kernels) > 0,
        all(k.duration > 0 for k in mm.kernels),
        mm.device_type.name,
        type(mm.id).__name__,
        len([e for e in on if "mine" in e.name]),
        all(e.time_range.start <= e.time_range.end for e in on),
    ]


@probe()
def traces() -> Any:
    p = worked()
    path = os.path.join(tempfile.mkdtemp(), "t.json")
    p.export_chrome_trace(path)
    with open(path) as file:
        trace = json.load(file)
    categories = {e.get("cat") for e in trace["traceEvents"]} - {None}
    kernel = next(e for e in trace["traceEvents"] if e.get("cat") == "kernel")
    copy = next(e for e in trace["traceEvents"] if e.get("cat") == "gpu_memcpy")
    runtime = next(e for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime")
    return [
        sorted(categories),
        sorted(kernel["args"]),
        sorted(copy["args"]),
        sorted(set(runtime["args"])),
        sorted(trace),
        sorted(trace["deviceProperties"][0]) if trace.get("deviceProperties") else None,
        kernel["ph"],
        [e["ph"] for e in trace["traceEvents"] if e.get("cat") == "ac2g"][:2],
    ]


@probe()
def schedules() -> Any:
    ready: list[int] = []
    with profile(
        activities=[ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: ready.append(p.step_num),
    ) as p:
        for _ in range(6):
            (ramp(4) + 1).sum()
            p.step()
    return [
        ready,
        raises(lambda: schedule(wait=0, warmup=0, active=0)),
        sorted({e.name for e in p.events() if e.name.startswith("ProfilerStep")}),
    ]


@probe()
def only_the_gpu() -> Any:
    x = ramp(4)
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        (x + 1).sum()
        torch.cuda.synchronize()
    kinds = {str(e.device_type) for e in p.events()}
    return [
        sorted(kinds),
        any(e.key.startswith("aten::") for e in p.key_averages()),
        any("elementwise" in e.key for e in p.key_averages()),
        any("reduce_kernel" in e.key for e in p.key_averages()),
    ]


@probe()
def names_of_kernels() -> Any:
    x = ramp(64, 64)
    out = []
    for name, work in (
        ("add", lambda: x + 1),
        ("mul", lambda: x * x),
        ("relu", lambda: torch.relu(x)),
        ("sum", lambda: x.sum()),
        ("fill", lambda: x.fill_(1)),
        ("copy", lambda: x.t().contiguous()),
        ("softmax", lambda: torch.softmax(x, 1)),
        ("cat", lambda: torch.cat([x, x])),
        ("index", lambda: x[torch.arange(3, device="cuda")]),
        ("sort", lambda: x[0].sort()),
        ("embedding", lambda: torch.nn.functional.embedding(torch.zeros(3, dtype=torch.long, device="cuda"), x)),
        ("rand", lambda: torch.rand(4, device="cuda")),
        ("arange", lambda: torch.arange(5, device="cuda")),
    ):
        work()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            work()
            torch.cuda.synchronize()
        kernels = sorted({e.name.split("<")[0] for e in p.events() if str(e.device_type) == "DeviceType.CUDA"})
        out.append([name, kernels])
    return out


@probe()
def memory_timeline() -> Any:
    torch.ones(1, device="cuda")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, record_shapes=True
    ) as p:
        x = torch.empty(1 << 20, device="cuda")
        y = x + 1
        del x, y
    mem = [e for e in p.events() if e.name == "[memory]"]
    total = {e.key: e.device_memory_usage for e in p.key_averages() if e.device_memory_usage}
    return [len(mem) > 0, total]


@probe()
def the_old_profiler() -> Any:
    x = ramp(8)
    with warned_free() as p:
        (x + 1).sum()
    return [
        any(e.name == "aten::add" for e in p.function_events),
        p.self_cpu_time_total > 0,
        "CUDA" in p.key_averages().table(),
    ]


def warned_free() -> Any:
    return torch.autograd.profiler.profile(use_device="cuda")


@probe()
def marks_of_nvtx() -> Any:
    n = torch.cuda.nvtx
    a = [n.range_push("a"), n.range_push("b"), n.range_pop(), n.range_pop()]
    h = n.range_start("c")
    with torch.autograd.profiler.emit_nvtx():
        (ramp(2) + 1).sum()
    return [
        a,
        type(h).__name__,
        n.range_end(h),
        n.mark("d"),
        raises(lambda: n.range_push(3)),
        raises(lambda: n.range_pop()),
        raises(lambda: n.range_end("x")),
    ]


@probe()
def what_is_supported() -> Any:
    return [
        sorted(str(a) for a in torch.profiler.supported_activities()),
        torch.autograd.kineto_available(),
        raises(lambda: profile(activities=["x"]).__enter__()),
        raises(lambda: profile(activities=[]).__enter__()),
        warned(lambda: torch.cuda.profiler.start()),
        warned(lambda: torch.cuda.profiler.stop()),
        raises(lambda: torch.cuda.profiler.init("/none", output_mode="bogus")),
    ]


@probe()
def stacks_and_modules() -> Any:
    net = torch.nn.Linear(4, 4, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=True, with_modules=True) as p:
        net(ramp(2, 4)).sum().backward()
        torch.cuda.synchronize()
    names = {e.key for e in p.key_averages()}
    return [
        sorted(n for n in names if "Backward" in n and not n.startswith("void")),
        any("nn.Module: Linear" in e.name for e in p.events()),
        any(e.device_time_total > 0 for e in p.key_averages() if "Backward" in e.key),
    ]
