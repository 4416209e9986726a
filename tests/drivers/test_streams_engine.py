"""The stream engine alone: CUDA's ordering rules as arithmetic on a clock."""

from __future__ import annotations

import time

import pytest

from torchdevice_cuda.drivers.host.streams import EventState, Streams

CYCLES = 1e9  # cycles per second: one cycle is a nanosecond


@pytest.fixture
def streams() -> Streams:
    return Streams(2, lambda device: CYCLES)


def test_pool_hands_out_32_and_starts_over(streams: Streams) -> None:
    ids = [streams.new(0) for _ in range(33)]
    assert len(set(ids)) == 32
    assert ids[32] == ids[0]
    # as CUDA numbers them: slot, priority, pool bit
    assert ids[:3] == [3, 35, 67]
    assert streams.new(0, -1) == 5
    assert streams.new(0, -99) == 9


def test_sleep_keeps_only_its_own_stream_busy(streams: Streams) -> None:
    a, b = streams.new(0), streams.new(0)
    streams.set_current(a, 0)
    streams.sleep(50_000_000, 0)
    assert not streams.query(a, 0)
    assert streams.query(b, 0)
    before = time.monotonic()
    streams.synchronize(a, 0)
    assert streams.query(a, 0)
    assert 0.02 < time.monotonic() - before < 1


def test_waiting_orders_streams(streams: Streams) -> None:
    a, b = streams.new(0), streams.new(0)
    streams.set_current(a, 0)
    streams.sleep(30_000_000, 0)
    event = EventState(timing=True)
    streams.record(event, a, 0)
    streams.wait(event, b, 0)
    assert not streams.query(b, 0)
    streams.synchronize(b, 0)
    assert streams.query_event(event)
    assert streams.query(a, 0)


def test_device_waits_for_all_its_streams_only(streams: Streams) -> None:
    streams.set_current(streams.new(0), 0)
    streams.sleep(40_000_000, 0)
    before = time.monotonic()
    streams.synchronize_device(1)
    assert time.monotonic() - before < 0.02
    streams.synchronize_device(0)
    assert time.monotonic() - before > 0.03


def test_events_measure_the_work_between_them(streams: Streams) -> None:
    start, end = EventState(timing=True), EventState(timing=True)
    streams.record(start, 0, 0)
    streams.sleep(25_000_000, 0)
    streams.record(end, 0, 0)
    streams.synchronize_event(end)
    assert 25 <= streams.elapsed_ms(start, end) < 60


def test_event_belongs_to_the_device_it_was_first_recorded_on(streams: Streams) -> None:
    event = EventState(timing=False)
    streams.record(event, 0, 1)
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0"):
        streams.record(event, 0, 0)


def test_external_handle_shares_the_timeline(streams: Streams) -> None:
    a = streams.new(0)
    handle = streams.state(a, 0).handle
    outside = streams.external(0, handle)
    assert outside == handle != a
    streams.set_current(outside, 0)
    streams.sleep(20_000_000, 0)
    assert not streams.query(a, 0)
