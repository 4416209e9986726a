"""CUDA's streams over the one queue of the Apple GPU: when work is done, how long it took, and what is never asked."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
import torch

from torchdevice_cuda.drivers.mps import emulated_streams
from torchdevice_cuda.drivers.mps import streams as module
from torchdevice_cuda.drivers.mps.streams import MpsStreams, Recording


class Metal:
    """A queue with torch's functions for events, and their traps; work in it is done when a test says so."""

    def __init__(self) -> None:
        self.busy, self.deaf = False, False
        self.now = 100.0
        self.timed: dict[int, bool] = {}
        self.recorded: dict[int, float] = {}
        self.signalled: set[int] = set()
        self.asked: set[int] = set()
        self.released: list[int] = []
        self.drained = 0

    def acquire(self, timing: bool) -> int:
        self.timed[len(self.timed) + 1] = timing
        return len(self.timed)

    def record(self, event: int) -> None:
        self.now += 1  # each takes its time
        self.recorded[event] = self.now

    def query(self, event: int) -> bool:
        if not self.busy and not self.deaf:
            self.signalled.add(event)
        return event in self.signalled

    def elapsed(self, start: int, end: int) -> float:
        assert end not in self.asked, "a second call never returns"
        assert self.timed[start] and self.timed[end]
        self.asked.add(end)
        if self.recorded[end] <= self.recorded[start]:
            raise RuntimeError("End event was not recorded after start event")
        return self.recorded[end] - self.recorded[start]

    def synchronize(self) -> None:
        self.drained += 1
        self.busy = False


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> Metal:
    made = Metal()
    for name, function in {
        "_mps_acquireEvent": made.acquire,
        "_mps_releaseEvent": made.released.append,
        "_mps_recordEvent": made.record,
        "_mps_queryEvent": made.query,
        "_mps_elapsedTimeOfEvents": made.elapsed,
        "_mps_deviceSynchronize": made.synchronize,
    }.items():
        monkeypatch.setattr(torch._C, name, function, raising=False)
    for name in ("_PATIENCE_S", "_GRACE_S"):
        monkeypatch.setattr(module, name, 0.02)
    return made


@pytest.fixture
def streams(metal: Metal) -> MpsStreams:
    return MpsStreams(1, lambda device: 1e9)


# ------------------------------------------------------------------------------ recording
def test_a_recording_is_an_event_of_metals_that_is_given_back(metal: Metal) -> None:
    before = time.monotonic_ns()
    one = Recording(timing=True)
    assert metal.timed == {1: True}
    assert metal.recorded == {1: 101.0}
    assert before <= one.moment <= time.monotonic_ns()
    assert (one.milliseconds, one.asked) == (None, False)
    assert one.signalled() is True
    metal.now += 3
    other = Recording(timing=True)
    assert other.since(one) == 4.0
    del one, other
    gc.collect()
    assert sorted(metal.released) == [1, 2]


def test_one_that_could_not_be_had_gives_nothing_back(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(timing: bool) -> int:
        raise RuntimeError("none")

    monkeypatch.setattr(torch._C, "_mps_acquireEvent", refuse)
    with pytest.raises(RuntimeError, match="none"):
        Recording(timing=False)
    gc.collect()
    assert metal.released == []


# -------------------------------------------------------------------------------- waiting
def test_an_idle_queue_says_so(metal: Metal, streams: MpsStreams) -> None:
    assert streams.query(0, 0) is True
    assert metal.timed == {1: False}, "nobody wants to know the time"
    assert streams.query(0, 0) is True


def test_a_busy_queue_is_asked_without_filling_it(metal: Metal, streams: MpsStreams) -> None:
    metal.busy = True
    assert [streams.query(0, 0) for _ in range(5)] == [False] * 5
    assert len(metal.timed) == 1
    metal.busy = False
    assert streams.query(0, 0) is True
    assert len(metal.timed) == 2, "work may have been added: another has to tell"
    assert (streams._marker, streams._misses) == (None, 0)


def test_a_queue_that_is_slow_to_say_so_is_given_longer(
    metal: Metal, streams: MpsStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def signals(recording: Recording, patience: float) -> bool:
        given.append(patience)
        return False

    monkeypatch.setattr(module, "_signals", signals)
    for _ in range(12):
        assert streams.query(0, 0) is False
    assert given[:3] == pytest.approx([0.002, 0.004, 0.006])
    assert given[-1] == 0.02, "and not for ever"


def test_a_stream_that_sleeps_is_not_asked(metal: Metal, streams: MpsStreams) -> None:
    streams.sleep(500_000_000, 0)
    assert streams.query(0, 0) is False
    assert metal.timed == {}


def test_waiting_waits_for_the_queue(metal: Metal, streams: MpsStreams) -> None:
    streams.synchronize(0, 0)
    assert (metal.drained, metal.timed) == (1, {1: False})
    metal.busy = True
    begin = time.monotonic()
    streams.synchronize_device(0)
    assert metal.drained == 2
    assert time.monotonic() - begin >= 0.02, "asked first, with patience"
    streams.sleep(30_000_000, 0)
    begin = time.monotonic()
    streams.synchronize(0, 0)
    assert time.monotonic() - begin >= 0.025
    waited: list[str] = []
    streams.elsewhere = lambda: waited.append("collectives")
    streams.synchronize_device(0)
    assert waited == ["collectives"]


def test_asking_grows_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = [0.0]

    class Late:
        def signalled(self) -> bool:
            return False

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    late: Any = Late()
    assert module._signals(late, 0.1) is False
    assert pauses[0] == 20e-6
    assert pauses[1] == pytest.approx(30e-6)
    assert max(pauses) == 1e-3
    assert 0.1 <= clock[0] < 0.103


# --------------------------------------------------------------------------------- events
def recorded(streams: MpsStreams, timing: bool = True) -> Any:
    event = streams.event(timing)
    streams.record(event, 0, 0)
    return event


def test_events_complete_with_the_queue(metal: Metal, streams: MpsStreams) -> None:
    event = streams.event(timing=False)
    assert streams.query_event(event) is True
    streams.synchronize_event(event)
    metal.busy = True
    streams.record(event, 0, 0)
    assert metal.timed == {1: False}
    assert (event.recorded, event.device, event.held_by_host) == (True, 0, False)
    assert streams.query_event(event) is False
    metal.busy = False
    streams.synchronize_event(event)
    assert streams.query_event(event) is True
    assert metal.drained == 0, "its signal was enough"
    first = event.native
    streams.record(event, 0, 0)
    assert event.native is not first, "each recording is another event of Metal's"


def test_a_signal_that_does_not_come_is_waited_for_with_the_whole_queue(metal: Metal, streams: MpsStreams) -> None:
    metal.busy = True
    event = recorded(streams, timing=False)
    streams.synchronize_event(event)
    assert metal.drained == 1
    assert event.native is not None, "it came then"
    metal.deaf = True
    event = recorded(streams, timing=False)
    before = time.monotonic_ns()
    streams.synchronize_event(event)
    assert event.native is None, "and what has not by then never will"
    assert event.completes_at >= before
    assert streams.query_event(event) is True


def test_an_event_that_was_recorded_again_meanwhile_stays(
    metal: Metal, streams: MpsStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = recorded(streams, timing=False)
    other = Recording(timing=False)

    def arrives(recording: Recording) -> bool:
        event.native = other
        return False

    monkeypatch.setattr(streams, "_arrives", arrives)
    streams.synchronize_event(event)
    assert event.native is other


def test_times_are_the_gpus(metal: Metal, streams: MpsStreams) -> None:
    start = recorded(streams)
    # What all times are measured from comes first, and an event that waits for an error of earlier work.
    assert list(metal.timed.values()) == [True, False, True]
    assert metal.asked == {1}, "and was asked, so that its time is noted"
    metal.now += 5
    end = recorded(streams)
    assert len(metal.timed) == 4, "once"
    assert streams.elapsed_ms(start, end) == 6.0
    assert streams.elapsed_ms(start, end) == 6.0, "asked of Metal once"
    assert streams.elapsed_ms(end, start) == -6.0, "which Metal refuses"
    assert metal.drained == 3, "nothing is left to wait for when it is asked"
    untimed = recorded(streams, timing=False)
    assert untimed.native not in streams._timed


def after_the_anchor(metal: Metal, streams: MpsStreams) -> tuple[Any, Any]:
    metal.now += 1
    start = recorded(streams)
    metal.now += 5
    return start, recorded(streams)


@pytest.mark.parametrize("which", ["start", "end", "lost start", "lost end"])
def test_the_hosts_clock_times_an_event_behind_a_sleep(metal: Metal, streams: MpsStreams, which: str) -> None:
    start, end = after_the_anchor(metal, streams)
    event = start if "start" in which else end
    if "lost" in which:
        event.native = None
    else:
        event.held_by_host = True
    start.completes_at, end.completes_at = 1_000_000, 8_000_000
    assert streams.elapsed_ms(start, end) == 7.0


def test_an_event_behind_a_sleeping_stream_is_held_by_the_host(metal: Metal, streams: MpsStreams) -> None:
    begin = time.monotonic()
    streams.sleep(300_000_000, 0)
    event = recorded(streams)
    assert event.held_by_host is True
    assert streams.query_event(event) is False
    streams.synchronize_event(event)
    assert time.monotonic() - begin >= 0.3
    assert recorded(MpsStreams(1, lambda device: 1e9)).held_by_host is False


def test_the_hosts_clock_times_events_without_a_start(metal: Metal, streams: MpsStreams) -> None:
    metal.deaf = True
    start = recorded(streams)
    assert (streams._anchor, streams._anchored) == (None, True)
    before = metal.drained
    end = recorded(streams)
    assert metal.drained == before, "it is found out once"
    start.completes_at, end.completes_at = 1_000_000, 4_000_000
    assert streams.elapsed_ms(start, end) == 3.0
    assert metal.asked == set()


def test_the_hosts_clock_replaces_a_missing_metal_time(metal: Metal, streams: MpsStreams) -> None:
    start, end = after_the_anchor(metal, streams)
    metal.recorded[end.native._id] = 0.0  # refused
    start.completes_at, end.completes_at = 1_000_000, 4_000_000
    assert streams.elapsed_ms(start, end) == 3.0
    assert streams.elapsed_ms(start, end) == 3.0, "and is not asked again"


def test_events_of_two_devices_have_no_time_between_them(streams: MpsStreams) -> None:
    start, end = recorded(streams), recorded(streams)
    end.device = 1
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        streams.elapsed_ms(start, end)


def test_timed_events_are_held_until_their_time_is_noted(metal: Metal, streams: MpsStreams) -> None:
    """Keep events out of torch's pool until then: the pool would reuse them with the old time."""
    first = recorded(streams).native
    number = first._id
    second = recorded(streams).native
    assert list(streams._timed) == [first, second]
    first.moment -= 60_000_000
    del first
    metal.busy = True
    metal.signalled.clear()
    recorded(streams)
    assert number not in metal.released, "it has not signalled"
    metal.busy = False
    recorded(streams)
    gc.collect()
    assert number in metal.released
    assert streams._timed[0] is second


# --------------------------------------------------------------- torch.mps.Stream, emulated
@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch, metal: Metal) -> Any:
    made = type("_MPSStreamBase", (), {})
    monkeypatch.setattr(torch._C, "_MPSStreamBase", made, raising=False)
    for name in ("_mps_getCurrentStream", "_mps_setStream"):
        monkeypatch.setattr(torch._C, name, None, raising=False)
        monkeypatch.delattr(torch._C, name)
    emulated_streams.complete()
    return made


def test_streams_that_torch_makes(base: Any, metal: Metal) -> None:
    one, same, other = base(stream_id=3), base(stream_id=3), base()
    assert (one.stream_id, other.stream_id) == (3, 0)
    assert one == same != other
    assert one != 3
    assert hash(one) == hash(same)
    assert len({one, same, other}) == 2
    one.synchronize()
    assert metal.drained == 1


def test_the_current_stream_that_torch_asks_for(base: Any) -> None:
    import threading

    assert torch._C._mps_getCurrentStream() == base()
    torch._C._mps_setStream(base(stream_id=2))
    assert torch._C._mps_getCurrentStream() == base(stream_id=2)
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(torch._C._mps_getCurrentStream()))
    thread.start()
    thread.join()
    assert seen == [base()], "each thread has its own"


def test_existing_names_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = type("_MPSStreamBase", (), {})
    monkeypatch.setattr(torch._C, "_MPSStreamBase", made, raising=False)
    monkeypatch.setattr(torch._C, "_mps_getCurrentStream", "torch's own", raising=False)
    emulated_streams.complete()
    assert not hasattr(made, "stream_id")
    assert torch._C._mps_getCurrentStream == "torch's own"
    monkeypatch.delattr(torch._C, "_MPSStreamBase")
    emulated_streams.complete()
