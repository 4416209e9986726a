"""Streams and events on the host's clock: numbering as CUDA's, and its ordering rules as moments."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from torchdevice_cuda.drivers.host import streams as host
from torchdevice_cuda.drivers.host.streams import HostStreams
from torchdevice_cuda.drivers.streams import EventState

SECOND = 1_000_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a clock that sleeping moves, and nothing else."""
    made = SimpleNamespace(now=5 * SECOND, slept=[])

    def sleep(seconds: float) -> None:
        made.slept.append(seconds)
        made.now += round(seconds * SECOND)

    monkeypatch.setattr(host.time, "monotonic_ns", lambda: made.now)
    monkeypatch.setattr(host.time, "sleep", sleep)
    return made


@pytest.fixture
def streams() -> HostStreams:
    return HostStreams(2, lambda device: 1e9 * (1 + device))


# ----------------------------------------------------------------------------- numbering
def test_ids_are_numbered_as_cudas(streams: HostStreams) -> None:
    """An H200: bits 1 to 4 say the priority, the lowest that the stream is of a pool, those above which it is."""
    ids = [streams.new(0, priority) for priority in (-3, -2, -1, 0)]
    assert [stream_id >> 1 & 15 for stream_id in ids] == [4, 3, 2, 1]
    assert [stream_id & 1 for stream_id in ids] == [1, 1, 1, 1]
    assert [stream_id >> 5 for stream_id in ids] == [0, 0, 0, 0]
    more = [streams.new(0) for _ in range(33)]
    assert [stream_id >> 5 for stream_id in more] == [*range(1, 32), 0, 1]
    assert more[-2] == ids[-1], "there are 32, then they come again"
    assert streams.new(1) >> 5 == 0, "each device has its own"


def test_priorities_are_kept_within_their_range(streams: HostStreams) -> None:
    asked = (-9, -3, -2, -1, 0, 1, 5)
    assert [streams.state(streams.new(0, each), 0).priority for each in asked] == [-3, -3, -2, -1, 0, 0, 0]


def test_handles_are_different_and_the_default_streams_is_0(streams: HostStreams) -> None:
    assert (streams.state(0, 0).handle, streams.state(0, 0).priority, streams.state(0, 0).stream_id) == (0, 0, 0)
    handles = [streams.state(streams.new(device), device).handle for device in (0, 0, 1)]
    assert len({*handles, 0}) == 4
    assert all(handle % 64 == 0 and handle > 1 << 32 for handle in handles), "as addresses are"


def test_ids_of_the_pool_exist_before_anyone_asked_for_them(streams: HostStreams) -> None:
    stream_id = (3 << 5) | (2 << 1) | 1
    state = streams.state(stream_id, 1)
    assert (state.priority, state.device, state.stream_id) == (-1, 1, stream_id)
    assert state.handle != stream_id
    assert streams.state(stream_id, 1) is state
    for _ in range(4):
        last = streams.new(1, -1)
    assert last == stream_id
    assert streams.state(last, 1) is state


@pytest.mark.parametrize("stream_id", [999 << 5 | 3, 32 << 5 | 3, 5 << 1 | 1, 1, 2 << 1, 1234])
def test_other_ids_are_handles(streams: HostStreams, stream_id: int) -> None:
    state = streams.state(stream_id, 0)
    assert (state.handle, state.priority) == (stream_id, 0)


@pytest.mark.parametrize("stream_id", [31 << 5 | 1 << 1 | 1, 4 << 1 | 1])
def test_the_last_of_the_pool(streams: HostStreams, stream_id: int) -> None:
    assert streams.state(stream_id, 0).handle != stream_id


def test_streams_from_elsewhere(streams: HostStreams) -> None:
    assert streams.external(0, 0x1234) == 0x1234
    outside = streams.state(0x1234, 0)
    assert (outside.handle, outside.priority) == (0x1234, 0)
    assert streams.external(0, 0x1234) == 0x1234
    assert streams.state(0x1234, 0) is outside
    streams.external(0, 3)
    assert streams.state(3, 0).handle == 3, "a number that might be the pool's, if nobody had brought it"
    own = streams.state(streams.new(0), 0)
    streams.external(0, own.handle)
    assert streams.state(own.handle, 0) is own, "a known handle is that stream"
    assert streams.state(own.handle, 1) is not own


@pytest.mark.parametrize("device", [-1, 2])
def test_a_device_that_is_not_there(streams: HostStreams, device: int) -> None:
    event = streams.event(timing=False)
    for asked in (
        lambda: streams.new(device),
        lambda: streams.external(device, 1),
        lambda: streams.state(3, device),
        lambda: streams.current(device),
        lambda: streams.set_current(0, device),
        lambda: streams.sleep(1, device),
        lambda: streams.synchronize_device(device),
        lambda: streams.is_capturing(0, device),
        lambda: streams.create_event(event, device),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            asked()
    assert event.device is None


def test_the_current_stream_is_a_threads_and_a_devices(streams: HostStreams) -> None:
    stream_id = streams.new(0)
    streams.set_current(stream_id, 0)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(streams.current(0)))
    thread.start()
    thread.join()
    assert (streams.current(0), streams.current(1), seen) == (stream_id, 0, [0])
    streams.set_current(0, 0)
    assert streams.current(0) == 0
    assert streams.is_capturing(stream_id, 0) is False


# ------------------------------------------------------------------------------- moments
def test_a_stream_that_sleeps_is_busy_for_its_cycles(streams: HostStreams, clock: SimpleNamespace) -> None:
    assert streams.query(0, 0) is True
    streams.sleep(SECOND, 0)
    streams.sleep(SECOND // 2, 0)
    assert streams.query(0, 0) is False
    clock.now += SECOND
    assert streams.query(0, 0) is False
    clock.now += SECOND // 2
    assert streams.query(0, 0) is True
    streams.sleep(SECOND, 1)
    clock.now += SECOND // 2
    assert streams.query(0, 1) is True, "a clock of its own"
    streams.sleep(-5, 0)
    assert streams.query(0, 0) is True
    assert clock.slept == [], "nobody waited"


def test_waiting_for_a_stream(streams: HostStreams, clock: SimpleNamespace) -> None:
    busy = streams.new(0)
    streams.set_current(busy, 0)
    streams.sleep(2 * SECOND, 0)
    streams.synchronize(0, 0)
    assert clock.slept == [], "another stream"
    streams.synchronize(busy, 0)
    assert clock.slept == [2.0]
    streams.sleep(SECOND, 0)
    streams.synchronize_device(1)
    assert clock.slept == [2.0]
    streams.synchronize_device(0)
    assert clock.slept == [2.0, 1.0]


def test_waiting_for_a_device_waits_for_what_is_in_no_stream(streams: HostStreams, clock: SimpleNamespace) -> None:
    waited: list[str] = []
    streams.elsewhere = lambda: waited.append("collectives")
    streams.synchronize_device(0)
    assert waited == ["collectives"]


def test_events_complete_when_their_stream_gets_there(streams: HostStreams, clock: SimpleNamespace) -> None:
    before, start, end = (streams.event(timing=True) for _ in range(3))
    assert (start.timing, start.device, start.handle, start.recorded) == (True, None, 0, False)
    assert streams.query_event(start) is True, "one never recorded has completed"
    streams.record(before, 0, 0)
    streams.sleep(SECOND, 0)
    streams.record(start, 0, 0)
    streams.sleep(SECOND // 4, 0)
    streams.record(end, 0, 0)
    assert (start.device, start.recorded, start.handle != 0, start.handle != end.handle) == (0, True, True, True)
    assert [streams.query_event(each) for each in (before, start, end)] == [True, False, False]
    assert streams.elapsed_ms(before, start) == 1000.0
    assert streams.elapsed_ms(start, end) == 250.0
    assert streams.elapsed_ms(end, start) == -250.0
    streams.synchronize_event(start)
    assert clock.slept == [1.0]
    assert [streams.query_event(each) for each in (start, end)] == [True, False]
    handle = start.handle
    streams.record(start, 0, 0)
    assert start.handle == handle


def test_an_idle_streams_event_completes_now(streams: HostStreams, clock: SimpleNamespace) -> None:
    event = streams.event(timing=True)
    streams.record(event, 0, 0)
    assert event.completes_at == clock.now
    assert streams.query_event(event) is True


def test_waiting_for_an_event_holds_a_stream(streams: HostStreams, clock: SimpleNamespace) -> None:
    waiting, event = streams.new(0), streams.event(timing=False)
    streams.wait(event, waiting, 0)
    assert streams.query(waiting, 0) is True, "never recorded"
    streams.sleep(SECOND, 0)
    streams.record(event, 0, 0)
    streams.wait(event, waiting, 0)
    assert streams.query(waiting, 0) is False
    clock.now += SECOND
    assert streams.query(waiting, 0) is True
    streams.wait(event, waiting, 0)
    assert streams.query(waiting, 0) is True


def test_an_event_is_of_one_device(streams: HostStreams) -> None:
    event, other = streams.event(timing=True), streams.event(timing=True)
    streams.record(event, 0, 0)
    with pytest.raises(RuntimeError, match="^Event device 0 does not match recording stream's device 1.$"):
        streams.record(event, 0, 1)
    streams.record(other, 0, 1)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        streams.elapsed_ms(event, other)


# ------------------------------------------------------------------- what every driver has
def test_events_of_other_processes(streams: HostStreams) -> None:
    event = streams.interprocess_event(timing=False)
    assert event == EventState(False)
    streams.create_event(event, 1)
    name = streams.event_name(event)
    assert (len(name), int.from_bytes(name, "little"), event.device) == (64, event.handle, 1)
    handle = event.handle
    streams.create_event(event, 1)
    assert event.handle == handle
    with pytest.raises(RuntimeError, match="mapping of buffer object failed"):
        streams.open_event(name, 0)


def test_the_real_clock() -> None:
    streams = HostStreams(1, lambda device: 1e9)
    start, end = streams.event(timing=True), streams.event(timing=True)
    begin = time.monotonic()
    streams.record(start, 0, 0)
    streams.sleep(1_000_000_000, 0)
    streams.record(end, 0, 0)
    assert time.monotonic() - begin < 0.95
    streams.synchronize_event(end)
    assert time.monotonic() - begin >= 1
    assert 1000 <= streams.elapsed_ms(start, end) < 10_000
