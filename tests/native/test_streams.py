"""Streams and events on the host timeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import torch
from harness import child

from .bare import bare, native

on_one = child(bare())
on_two = child(bare(2))
#: Cycles of the device's clock in a millisecond.
MILLISECOND = 1_500_000


@on_one
def test_streams_come_from_a_pool() -> None:
    assert len({native().stream_new(0, 0) for _ in range(100)}) == 32


@on_one
def test_priorities() -> None:
    low, high = native().stream_priority_range()
    assert low == 0
    assert high < 0
    assert native().stream_priority(0, native().stream_new(0, -1)) == -1


@on_one
def test_handles() -> None:
    assert native().stream_handle(0, 0) == 0
    assert native().stream_handle(0, native().stream_new(0, 0)) % 2 == 0


@on_one
def test_a_handle_names_the_stream_it_came_from() -> None:
    stream = torch.Stream("cuda")
    assert native().stream_query(0, native().stream_handle(0, stream.stream_id))


@on_one
def test_the_current_stream() -> None:
    stream = torch.Stream("cuda")
    with stream:
        assert native().stream_current(0) == stream.stream_id
    assert native().stream_current(0) == 0


@on_one
def test_the_current_stream_is_per_thread() -> None:
    seen: list[int] = []
    with torch.Stream("cuda"):
        thread = threading.Thread(target=lambda: seen.append(native().stream_current(0)))
        thread.start()
        thread.join()
    assert seen == [0]


def _busy(milliseconds: int) -> torch.Stream:
    """Return a stream that has that much to do."""
    stream = torch.Stream("cuda")
    with stream:
        native().sleep(milliseconds * MILLISECOND)
    return stream


@on_one
def test_a_busy_stream_leaves_the_others_free() -> None:
    native().synchronize(-1)
    busy, other = _busy(100), torch.Stream("cuda")
    assert not busy.query()
    assert other.query()


@on_one
def test_a_stream_waits_for_an_event_of_another() -> None:
    native().synchronize(-1)
    busy, other = _busy(100), torch.Stream("cuda")
    event = busy.record_event()
    other.wait_event(event)
    assert not event.query()
    assert not other.query()
    started = time.perf_counter()
    other.synchronize()
    assert time.perf_counter() - started > 0.05
    assert event.query()
    assert busy.query()


@on_one
def test_events_time_what_is_between_them() -> None:
    a, b = torch.Event("cuda", enable_timing=True), torch.Event("cuda", enable_timing=True)
    a.record()
    native().sleep(20 * MILLISECOND)
    b.record()
    b.synchronize()
    assert 20 <= a.elapsed_time(b) < 25


@on_one
def test_an_event_before_it_is_recorded() -> None:
    event = native().Event()
    assert not event.recorded
    assert event.query()


@on_one
def test_an_event_that_is_recorded() -> None:
    event = native().Event()
    event.record(0, 0)
    assert event.recorded
    assert event.handle


@on_one
def test_reading_a_value_waits_for_the_work_in_front_of_it() -> None:
    native().sleep(50 * MILLISECOND)
    started = time.perf_counter()
    torch.ones(1, device="cuda").item()
    assert time.perf_counter() - started > 0.03


INVALID: dict[str, Callable[[], object]] = {
    "made": lambda: torch.empty(1, device="cuda:7"),
    "current": lambda: native().set_device(7),
    "memory": lambda: native().mem_info(7),
    "synchronized": lambda: native().synchronize(9),
    "moved": lambda: torch.zeros(1).to("cuda:3"),
    "stream": lambda: torch.Stream("cuda:9"),
}


@on_two
@pytest.mark.parametrize("invalid", INVALID)
def test_invalid_ordinals(invalid: str) -> None:
    with pytest.raises(torch.AcceleratorError) as caught:
        INVALID[invalid]()
    assert str(caught.value).splitlines()[0] == "CUDA error: invalid device ordinal"
    assert caught.value.error_code == 101
    assert native().get_device() == 0
    assert torch.zeros(1, device="cuda").item() == 0


@on_two
def test_an_invalid_ordinal_for_statistics() -> None:
    with pytest.raises(RuntimeError, match="Invalid device argument 99") as caught:
        native().memory_stats(99)
    assert not isinstance(caught.value, torch.AcceleratorError)
