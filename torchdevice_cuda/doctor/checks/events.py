"""Events and streams: times, order, waits, and an idle queue that reports it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch

from ..asking import Finding, expect, main, question

_PAUSE_S, _LONG_MS = 0.005, 2000.0
_DEADLINE_S = 8.0


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _recorded() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Return two completed events with a pause between them."""
    first, last = _event(), _event()
    first.record()
    time.sleep(_PAUSE_S)
    last.record()
    torch.cuda.synchronize()
    return first, last


def _is_about(milliseconds: float, what: str) -> None:
    least = _PAUSE_S * 1000 * 0.9  # the GPU's clock differs from the host's
    expect(least <= milliseconds < _LONG_MS, f"{what}: {milliseconds:.3f} ms, of at least {least:.1f}")


def _becomes(true: Callable[[], bool], what: str) -> float:
    """Return the milliseconds until the condition is true."""
    started = time.monotonic()
    while not true():
        expect(time.monotonic() - started < _DEADLINE_S, f"{what} stays false for {_DEADLINE_S:.0f} s")
    return (time.monotonic() - started) * 1000


@question
def a_time() -> Finding:
    first, last = _recorded()
    elapsed = first.elapsed_time(last)
    _is_about(elapsed, "elapsed_time")
    return {"milliseconds": elapsed, "of": _PAUSE_S * 1000}


@question
def a_time_asked_for_twice() -> Finding:
    first, last = _recorded()
    one, other = first.elapsed_time(last), first.elapsed_time(last)
    expect(one == other, f"the same events are {one} and {other} ms apart")
    return None


@question
def in_reverse() -> Finding:
    first, last = _recorded()
    there, back = first.elapsed_time(last), last.elapsed_time(first)
    expect(back == -there, f"{there} ms there, {back} ms back")
    return None


@question
def to_itself() -> Finding:
    first, last = _recorded()
    found = [first.elapsed_time(first), last.elapsed_time(last)]
    expect(found == [0, 0], f"from events to themselves: {found} ms")
    return None


@question
def after_waiting_for_the_event() -> Finding:
    first, last = _event(), _event()
    for _ in range(2):  # the second time the same events are recorded again
        first.record()
        time.sleep(_PAUSE_S)
        last.record()
        last.synchronize()
        expect(last.query(), "an event that was waited for has not completed")
        _is_about(first.elapsed_time(last), "elapsed_time")
    return None


@question
def without_waiting() -> Finding:
    first, last = _event(), _event()
    first.record()
    time.sleep(_PAUSE_S)
    last.record()
    try:
        _is_about(first.elapsed_time(last), "elapsed_time")
        early = "answered at once"
    except RuntimeError as error:  # CUDA raises while an event has not completed
        expect("not ready" in str(error) or "not completed" in str(error) or "complete" in str(error), str(error))
        early = f"refused: {error}"
    _becomes(last.query, "query() of a recorded event")
    _is_about(first.elapsed_time(last), "elapsed_time")
    return {"before it had completed": early}


@question
def one_start_and_many_ends() -> Finding:
    start, ends = _event(), [_event() for _ in range(5)]
    start.record()
    for end in ends:
        time.sleep(0.001)
        end.record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for end in ends]
    expect(times == sorted(times) and times[-1] >= 4, f"out of order: {times}")
    return {"milliseconds": times}


@question
def work_takes_its_time() -> Finding:
    matrix = torch.rand(512, 512, device="cuda")
    matrix @ matrix
    torch.cuda.synchronize()
    first, last, started = _event(), _event(), time.monotonic()
    first.record()
    for _ in range(20):
        matrix = (matrix @ matrix).clamp(-1, 1)
    last.record()
    torch.cuda.synchronize()
    host, elapsed = (time.monotonic() - started) * 1000, first.elapsed_time(last)
    expect(0 < elapsed <= host * 1.2 + 5, f"{elapsed} ms on the device, {host} ms on the host")
    return {"milliseconds on the device": elapsed, "on the host": host}


@question
def an_event_completes() -> Finding:
    event = torch.cuda.Event()
    expect(event.query(), "an event that was never recorded has not completed")
    torch.rand(256, 256, device="cuda").sum()
    event.record()
    took = _becomes(event.query, "query() of a recorded event")
    return f"a signal takes {took:.2f} ms", {"milliseconds": took}


@question
def an_idle_queue_says_so() -> Finding:
    stream = torch.cuda.current_stream()
    (torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum()
    after_work = _becomes(stream.query, "query() of a stream")
    torch.cuda.synchronize()
    idle = _becomes(stream.query, "query() of an idle stream")
    other = _becomes(torch.cuda.Stream().query, "query() of a new stream")
    figures = {"milliseconds after work": after_work, "idle": idle, "a new stream": other}
    return f"an idle queue says so after {idle:.2f} ms", figures


@question
def many_queries() -> Finding:
    stream, started, count = torch.cuda.current_stream(), time.monotonic(), 100
    for _ in range(count):
        stream.query()
    return {"microseconds a query": (time.monotonic() - started) / count * 1e6}


@question
def streams_wait_for_each_other() -> Finding:
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    source = torch.ones(256, 256, device="cuda")
    one.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(one):
        made = source @ source
        event = one.record_event()
    other.wait_event(event)
    with torch.cuda.stream(other):
        total = made.sum()
    torch.cuda.current_stream().wait_stream(other)
    expect(total.item() == 256.0**3, f"the sum is {total.item()}, of {256.0**3}")
    return None


@question
def others_run_meanwhile() -> Finding:
    """A wait that holds the GIL would stop every thread of the program."""
    beats, done = [0], threading.Event()

    def beat() -> None:
        while not done.wait(0.0005):
            beats[0] += 1

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    started = time.monotonic()
    while time.monotonic() - started < 0.05:
        event = torch.cuda.Event()
        event.record()
        event.synchronize()
    done.set()
    thread.join()
    expect(beats[0] >= 3, f"another thread ran {beats[0]} times in 50 ms")
    return {"runs of another thread in 50 ms": beats[0]}


@question
def no_time_without_timing() -> Finding:
    event = torch.cuda.Event()
    event.record()
    torch.cuda.synchronize()
    try:
        event.elapsed_time(event)
    except (RuntimeError, ValueError):
        return None
    expect(False, "an event without timing tells a time")
    return None


if __name__ == "__main__":
    main()
