"""Events and streams over Metal's: the traps of the one, and that nothing of the other falls into them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, child, outcome

from torchdevice_cuda.drivers import active
from torchdevice_cuda.drivers.mps import streams

on_mps = child(MPS_FAITHFUL)
#: A GPU that is slow to say that it is done.
SLOW = MPS_FAITHFUL.within(TORCHDEVICE_EMULATE_MPS_LATENCY_US="8000")


# ------------------------------------------------------------------------------------------------------- the double
class Metal:
    """``torch.mps.Event``, whose own ``record`` asks a CPU build of 2.15 for what it has not."""

    def __init__(self, timing: bool = True) -> None:
        self._id = torch._C._mps_acquireEvent(timing)

    def __del__(self) -> None:
        torch._C._mps_releaseEvent(self._id)

    def record(self) -> None:
        torch._C._mps_recordEvent(self._id)

    def query(self) -> bool:
        return torch._C._mps_queryEvent(self._id)

    def synchronize(self) -> None:
        torch._C._mps_synchronizeEvent(self._id)

    def elapsed_time(self, end: Metal) -> float:
        return torch._C._mps_elapsedTimeOfEvents(self._id, end._id)


def _metal_events() -> tuple[Metal, Metal]:
    """Two of Metal's events, recorded one after the other; when they have signalled."""
    first, last = Metal(), Metal()
    first.record()
    last.record()
    torch.mps.synchronize()
    return first, last


def _asked_after(before: Callable[[Metal, Metal], object]) -> Callable[[], object]:
    def ask() -> object:
        first, last = Metal(), Metal()
        first.record()
        last.record()
        before(first, last)
        return first.elapsed_time(last)

    return ask


def _asked_in_reverse() -> object:
    first, last = _metal_events()
    return last.elapsed_time(first)


def _never_recorded() -> object:
    time.sleep(0.01)  # torch's pool may give us an event of which there is still news to come
    return Metal().elapsed_time(Metal())


TRAPS = {
    "asked twice": (_asked_after(lambda first, last: first.elapsed_time(last)), "would hang for ever"),
    "waited for": (_asked_after(lambda first, last: last.synchronize()), "would hang for ever"),
    "never recorded": (_never_recorded, "would hang for ever"),
    "reversed": (_asked_in_reverse, r"End event \d+ was not recorded after start event \d+"),
}


@on_mps
@pytest.mark.parametrize("trap", TRAPS)
def test_the_double_has_the_traps_of_a_mac(trap: str) -> None:
    call, words = TRAPS[trap]
    with pytest.raises(RuntimeError, match=words):
        call()


@on_mps
def test_the_double_signals_late() -> None:
    event = Metal(timing=False)
    event.record()
    assert not event.query()
    torch.mps.synchronize()
    assert event.query()


def test_a_latency_that_is_none() -> None:
    place = MPS_FAITHFUL.within(TORCHDEVICE_EMULATE_MPS_LATENCY_US="soon")
    with pytest.raises(
        pytest.fail.Exception, match="TORCHDEVICE_EMULATE_MPS_LATENCY_US='soon' cannot be read; allowed: "
    ):
        outcome(_use_late_latency, place).checked()
    with pytest.raises(pytest.fail.Exception, match="TORCHDEVICE_EMULATE_MPS_LATENCY_US=later: expected a number"):
        outcome(_use_late_latency, MPS_FAITHFUL).checked()


def _use_late_latency() -> None:
    os.environ["TORCHDEVICE_EMULATE_MPS_LATENCY_US"] = "later"
    _metal_events()


# ------------------------------------------------------------------------------------------------------ the product
def test_a_pending_error_of_the_gpu_is_raised_by_the_first_timed_event() -> None:
    done = outcome(_record_with_pending_error, MPS_FAITHFUL)
    done.checked()


def _record_with_pending_error() -> None:
    """Make Metal end the process if it synchronizes for a time while an error is pending, as macOS does."""
    pending = ["Command buffer failed"]
    synchronize, elapsed = torch._C._mps_deviceSynchronize, torch._C._mps_elapsedTimeOfEvents

    def synchronize_with_error() -> None:
        synchronize()
        if pending:
            raise RuntimeError(pending.pop())

    def elapsed_with_error(first: int, last: int) -> float:
        if pending:
            os.abort()
        return elapsed(first, last)

    event = torch.cuda.Event(enable_timing=True)
    torch._C._mps_deviceSynchronize, torch._C._mps_elapsedTimeOfEvents = synchronize_with_error, elapsed_with_error
    with pytest.raises(RuntimeError, match="Command buffer failed"):
        event.record()
    first, last = _recorded()  # the program goes on
    assert 1 < first.elapsed_time(last) < 1000
    pending.append("A later command buffer failed")
    _, last = _recorded_unsynchronized()
    with pytest.raises(RuntimeError, match="A later command buffer failed"):
        first.elapsed_time(last)


def _recorded_unsynchronized() -> tuple[Any, Any]:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    last.record()
    while not last.query():
        time.sleep(1e-4)
    return first, last


def _recorded(pause: float = 0.002) -> tuple[Any, Any]:
    """Two of CUDA's events with a pause between them; when both have completed."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    time.sleep(pause)
    last.record()
    torch.cuda.synchronize()
    return first, last


@child(MPS_FAITHFUL, SLOW, CPU)
def test_a_time_can_be_asked_for_again() -> None:
    first, last = _recorded()
    elapsed = first.elapsed_time(last)
    assert 2 <= elapsed < 1000
    assert first.elapsed_time(last) == elapsed


@child(MPS_FAITHFUL, SLOW, CPU)
def test_in_reverse_and_to_itself() -> None:
    first, last = _recorded()
    assert last.elapsed_time(first) == -first.elapsed_time(last) < 0
    assert last.elapsed_time(last) == first.elapsed_time(first) == 0


@child(MPS_FAITHFUL, SLOW, CPU)
def test_after_waiting_for_it() -> None:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for pause in (0.002, 0.02):  # the second time with the same events
        first.record()
        time.sleep(pause)
        last.record()
        last.synchronize()
        assert last.query()
        assert pause * 1000 <= first.elapsed_time(last) < 1000


@child(MPS_FAITHFUL, SLOW, CPU)
def test_one_start_and_many_ends() -> None:
    start, ends = torch.cuda.Event(enable_timing=True), [torch.cuda.Event(enable_timing=True) for _ in range(5)]
    start.record()
    for end in ends:
        time.sleep(0.001)
        end.record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for end in ends]
    assert times == sorted(times)
    assert times[-1] >= 5


@child(MPS_FAITHFUL, CPU)
def test_a_recording_that_nobody_asked_about_tells_nothing_of_the_next() -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record()
    torch.cuda.synchronize()
    time.sleep(0.02)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 20


@child(MPS_FAITHFUL, CPU)
def test_events_that_are_dropped_at_once() -> None:
    """A late signal for a dropped event is not taken for one of its successor."""
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(20):
        torch.cuda.Event(enable_timing=True).record()
    time.sleep(0.005)
    end = torch.cuda.Event(enable_timing=True)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 5


@on_mps
def test_few_of_metals_events_are_held() -> None:
    event = torch.cuda.Event(enable_timing=True)
    for _ in range(200):
        event.record()
    time.sleep(0.06)
    event.record()
    assert len(active().streams._timed) < 3


def _becomes_idle(stream: torch.cuda.Stream) -> bool:
    last = time.monotonic() + 10
    while not stream.query():
        if time.monotonic() > last:
            return False
    return True


@child(MPS_FAITHFUL, SLOW, CPU)
def test_an_idle_queue_says_so() -> None:
    stream = torch.cuda.current_stream()
    (torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")).sum()
    assert _becomes_idle(stream)
    torch.cuda.synchronize()
    assert _becomes_idle(torch.cuda.Stream())


@child(MPS_FAITHFUL.within(TORCHDEVICE_EMULATE_MPS_LATENCY_US="100000"))
def test_asking_does_not_fill_the_queue() -> None:
    stream, made = torch.cuda.current_stream(), []
    record = torch._C._mps_recordEvent
    torch._C._mps_recordEvent = lambda event: (made.append(event), record(event))[1]
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            stream.query()
    finally:
        torch._C._mps_recordEvent = record
    assert 3 <= len(made) <= 6  # a signal takes 0.1 s


@child(SLOW)
def test_waiting_leaves_the_interpreter_to_others() -> None:
    """Others run while an event is waited for, and while the whole device is."""
    torch.cuda.synchronize()
    beats, done = [], threading.Event()

    def beat() -> None:
        while not done.wait(0.0005):
            beats.append(time.monotonic())

    other = threading.Thread(target=beat)
    other.start()
    try:
        for everything in (True, False):
            event = torch.cuda.Event()
            event.record()
            begin, before = time.monotonic(), len(beats)
            (torch.cuda.synchronize if everything else event.synchronize)()
            assert time.monotonic() - begin > 0.004
            assert len(beats) - before >= 2
    finally:
        done.set()
        other.join()


class Deaf(streams.Recording):
    """A recording that never signals: the work before it has failed."""

    def signalled(self) -> bool:
        return False

    def since(self, start: streams.Recording) -> float:
        raise AssertionError("this would hang")


@child(MPS_FAITHFUL, alone=True)
def test_every_wait_ends() -> None:
    streams._PATIENCE_S = streams._GRACE_S = 0.25
    streams.Recording = Deaf
    begin = time.monotonic()
    first, last = _recorded()
    assert not last.query()
    for event in (first, last):
        event.synchronize()
        assert event.query()
    assert first.elapsed_time(last) > 0
    assert not torch.cuda.current_stream().query()
    assert time.monotonic() - begin < 15
    begin = time.monotonic()
    first.record()  # what was found out once is not found out again
    assert time.monotonic() - begin < 0.25


class Refusing(streams.Recording):
    """A recording without a time."""

    def since(self, start: streams.Recording) -> float:
        raise RuntimeError("End event was not recorded after start event")


@child(MPS_FAITHFUL, alone=True)
def test_the_hosts_clock_where_metal_does_not_say() -> None:
    streams.Recording = Refusing
    first, last = _recorded()
    assert 2 <= first.elapsed_time(last) < 1000
    assert last.elapsed_time(first) < 0
