"""Streams, events and what waits for what."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from recorded.oracle.probing import kind, numbers, probe, raises, ramp


@probe()
def events_of_streams() -> Any:
    s = torch.cuda.Stream()
    e = torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(s):
        e.record()
        torch.cuda._sleep(20_000_000)
    f = s.record_event(torch.cuda.Event(enable_timing=True))
    f.synchronize()
    return [e.elapsed_time(f) > 1, f.elapsed_time(e) < 0, type(e.elapsed_time(f)).__name__]


@probe()
def busy_streams() -> Any:
    s = torch.cuda.Stream()
    e = torch.cuda.Event()
    with torch.cuda.stream(s):
        torch.cuda._sleep(80_000_000)
        e.record()
    out = [e.query(), s.query(), torch.cuda.default_stream().query()]
    e.synchronize()
    return [*out, e.query(), s.query()]


@probe()
def waits_do_not_block_the_host() -> Any:
    s, t = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(s):
        torch.cuda._sleep(200_000_000)
    start = time.perf_counter()
    t.wait_stream(s)
    e = torch.cuda.Event()
    with torch.cuda.stream(t):
        e.record()
    quick = time.perf_counter() - start < 0.05
    pending = e.query()
    torch.cuda.synchronize()
    return [quick, pending, e.query()]


@probe()
def item_waits_for_its_stream() -> Any:
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        torch.cuda._sleep(80_000_000)
        x = torch.ones(3, device="cuda").sum()
        value = x.item()
        done = s.query()
    return [value, done]


@probe()
def order_within_a_stream() -> Any:
    x = torch.zeros(1, device="cuda")
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(10):
            x.mul_(2).add_(1)
    s.synchronize()
    return x


@probe()
def nonblocking_copies() -> Any:
    host = torch.arange(4.0).pin_memory()
    there = host.to("cuda", non_blocking=True)
    back = torch.empty(4, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    home = there.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return [numbers(back), home.is_pinned(), back.is_pinned(), there.is_pinned(), kind(lambda: there.pin_memory())]


@probe()
def names_and_numbers() -> Any:
    s = torch.cuda.Stream()
    return [
        s.device_type,
        s.device_index,
        str(s.device),
        type(s.stream_id).__name__,
        type(s.cuda_stream).__name__,
        s._as_parameter_.__class__.__name__,
        torch.cuda.default_stream().cuda_stream,
        hash(s) == hash(torch.cuda.Stream(stream_id=s.stream_id, device_index=0, device_type=1)),
        s._is_capturing() if hasattr(s, "_is_capturing") else None,
    ]


@probe()
def priorities() -> Any:
    low, high = torch.cuda.Stream.priority_range()
    return [
        low,
        high,
        [torch.cuda.Stream(priority=p).priority for p in (0, -1, -2, -3, -5, 3)],
        torch.Stream("cuda", priority=-1).device_index,
        raises(lambda: torch.cuda.Stream(priority=1.5)),
    ]


@probe()
def contexts() -> Any:
    s, t = torch.cuda.Stream(), torch.cuda.Stream()
    seen = []
    with torch.cuda.stream(s):
        with torch.cuda.stream(t):
            seen.append(torch.cuda.current_stream() == t)
        seen.append(torch.cuda.current_stream() == s)
        with torch.cuda.device(0):
            seen.append(torch.cuda.current_stream() == s)
        with torch.device("cuda"):
            seen.append(torch.cuda.current_stream() == s)
    c = torch.cuda.StreamContext(s)
    return [
        *seen,
        c.stream == s,
        c.idx,
        raises(lambda: torch.cuda.stream("x").__enter__()),
        raises(lambda: torch.cuda.set_stream("x")),
    ]


@probe()
def generic_streams() -> Any:
    s = torch.Stream(device="cuda")
    out = [
        str(s.device),
        isinstance(s, torch.cuda.Stream),
        repr(s).startswith("torch.Stream device_type=cuda, device_index=0"),
    ]
    with s:
        out.append(torch.accelerator.current_stream() == s)
        out.append(torch.cuda.current_stream().stream_id == s.stream_id)
    e = torch.Event("cuda", enable_timing=True)
    s.record_event(e)
    e.synchronize()
    f = s.record_event()
    s.wait_event(e)
    s.wait_stream(torch.cuda.current_stream())
    return [
        *out,
        e.query(),
        type(f).__name__,
        raises(lambda: e.elapsed_time(f)),
        raises(lambda: torch.Stream(device="cpu")),
        raises(lambda: torch.Event("cpu")),
        raises(lambda: torch.Stream(device="meta")),
    ]


@probe()
def tensors_of_other_streams() -> Any:
    s = torch.cuda.Stream()
    x = ramp(1000)
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        torch.cuda._sleep(10_000_000)
        y = x * 2
    torch.cuda.current_stream().wait_stream(s)
    y.record_stream(torch.cuda.current_stream())
    return [
        float(y.sum()),
        raises(lambda: y.record_stream(s)),
        raises(lambda: y.cpu().record_stream(s)),
        raises(lambda: y.record_stream("x")),
    ]


@probe()
def backward_uses_the_forward_stream() -> Any:
    s = torch.cuda.Stream()
    seen: list[bool] = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(torch.cuda.current_stream() == s)
            return g * 2

    x = torch.ones(2, device="cuda", requires_grad=True)
    with torch.cuda.stream(s):
        y = Look.apply(x)
    y.sum().backward()
    torch.cuda.synchronize()
    return [seen, x.grad]


@probe()
def callbacks_of_threads() -> Any:
    s = torch.cuda.Stream()
    out: list[Any] = []

    def work() -> None:
        with torch.cuda.stream(s):
            out.append(numbers(torch.ones(2, device="cuda") * 3))
        out.append(torch.cuda.current_stream() == torch.cuda.default_stream())

    t = threading.Thread(target=work)
    t.start()
    t.join()
    return out


@probe()
def events_are_reused_and_blocking() -> Any:
    e = torch.cuda.Event(blocking=True)
    out = [repr(e), e.query()]
    e.record()
    e.wait()
    e.wait(torch.cuda.Stream())
    e.record(torch.cuda.Stream())
    e.synchronize()
    f = torch.cuda.Event(enable_timing=True)
    return [
        *out,
        e.query(),
        raises(lambda: f.elapsed_time(f)),
        raises(lambda: e.elapsed_time(f)),
        raises(lambda: f.ipc_handle()),
        raises(lambda: torch.cuda.Event(interprocess=True, enable_timing=True).record()),
        kind(lambda: torch.cuda.Event.from_ipc_handle(0, b"x" * 64)),
    ]


@probe()
def sleeping() -> Any:
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    torch.cuda._sleep(100_000_000)
    b.record()
    start = time.perf_counter()
    b.synchronize()
    waited = time.perf_counter() - start
    return [20 < a.elapsed_time(b) < 500, waited > 0.02]


@probe()
def sync_debug_mode() -> Any:
    from recorded.oracle.probing import warned

    x = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    try:
        a = [
            warned(lambda: x.sum().item()),
            warned(lambda: x.cpu().shape),
            warned(lambda: x.nonzero().shape),
            warned(lambda: torch.ones(2).to("cuda").shape),
            warned(lambda: (x + 1).shape),
            warned(lambda: torch.cuda.synchronize()),
            warned(lambda: bool(x.all())),
            warned(lambda: x[x > 0].shape),
            warned(lambda: x.to("cpu", non_blocking=True).shape),
            warned(lambda: x.unique().shape),
            warned(lambda: torch.repeat_interleave(x, x.long()).shape),
            warned(lambda: torch.tensor(3.0, device="cuda").shape),
            warned(lambda: torch.equal(x, x)),
            warned(lambda: x.tolist()),
        ]
        torch.cuda.set_sync_debug_mode("error")
        b = [
            raises(lambda: x.sum().item()),
            raises(lambda: x.cpu()),
            raises(lambda: x.nonzero()),
            raises(lambda: (x + 1).shape),
        ]
    finally:
        torch.cuda.set_sync_debug_mode(0)
    return [a, b]
