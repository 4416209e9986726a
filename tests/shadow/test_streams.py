"""Streams and events on devices that compute at once: CUDA's ordering rules as arithmetic on a clock."""

from __future__ import annotations

import time

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, child

TWO = CPU.with_settings(devices=2)


def keep_busy(seconds: float) -> None:
    """Keep the current stream busy."""
    torch.cuda._sleep(int(seconds * 1000 * torch.cuda.get_device_properties().clock_rate))


@child(CPU, alone=True)
def test_the_pool_hands_out_32_and_starts_over() -> None:
    ids = [torch.cuda.Stream().stream_id for _ in range(33)]
    assert len(set(ids)) == 32
    assert ids[32] == ids[0]


@child(CPU, alone=True)
def test_streams_are_numbered_as_cuda_does() -> None:
    """By slot, priority and a bit for the pool."""
    assert [torch.cuda.Stream().stream_id for _ in range(3)] == [3, 35, 67]
    assert torch.cuda.Stream(priority=-1).stream_id == 5
    assert torch.cuda.Stream(priority=-99).stream_id == 9


@child(TWO)
def test_work_keeps_only_its_own_stream_busy() -> None:
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(one):
        keep_busy(0.2)
    assert not one.query()
    assert other.query()
    before = time.monotonic()
    one.synchronize()
    assert one.query()
    assert 0.1 < time.monotonic() - before < 5


@child(TWO)
def test_waiting_orders_streams() -> None:
    one, other, event = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(one):
        keep_busy(0.2)
    event.record(one)
    other.wait_event(event)
    assert not other.query()
    other.synchronize()
    assert event.query()
    assert one.query()


@child(TWO)
def test_a_device_waits_for_all_its_streams() -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        keep_busy(0.3)
    before = time.monotonic()
    torch.cuda.synchronize(0)
    assert time.monotonic() - before > 0.2


@child(TWO)
def test_a_device_does_not_wait_for_another() -> None:
    stream = torch.cuda.Stream(device=0)
    with torch.cuda.stream(stream):
        keep_busy(0.5)
    torch.cuda.synchronize(1)
    assert not stream.query()
    stream.synchronize()


@child(TWO)
def test_events_measure_the_work_between_them() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    keep_busy(0.025)
    end.record()
    end.synchronize()
    assert 25 <= start.elapsed_time(end) < 1000


@child(TWO)
def test_an_event_belongs_to_the_device_it_was_first_recorded_on() -> None:
    event = torch.cuda.Event()
    event.record(torch.cuda.default_stream(1))
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0"):
        event.record(torch.cuda.default_stream(0))


@child(TWO)
def test_an_external_stream_shares_the_timeline() -> None:
    stream = torch.cuda.Stream()
    outside = torch.cuda.ExternalStream(stream.cuda_stream)
    assert outside.cuda_stream == stream.cuda_stream
    assert outside.stream_id != stream.stream_id
    with torch.cuda.stream(outside):
        keep_busy(0.2)
    assert not stream.query()
    stream.synchronize()


@child(VIRTUAL, CPU, MPS_FAITHFUL)
def test_an_external_stream_of_handle_0_is_the_default_one_since_2_13() -> None:
    pooled = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
    assert (torch.cuda.ExternalStream(0) != torch.cuda.default_stream()) == pooled


@child(VIRTUAL, CPU, MPS_FAITHFUL)
@pytest.mark.parametrize("index", [-2, 1, 128])
def test_a_stream_by_ids_of_no_gpu_is_refused_when_it_is_used(index: int) -> None:
    stream = torch.cuda.Stream(stream_id=3, device_index=index, device_type=1)
    with pytest.raises(RuntimeError, match=f"Device index value -?{abs(index)} is out of index range"):
        stream.cuda_stream  # noqa: B018
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        stream.query()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.current_stream().wait_stream(stream)


@child(CPU)
def test_a_stream_gives_its_handle_to_other_libraries() -> None:
    stream = torch.cuda.Stream()
    assert stream.__cuda_stream__() == (0, stream.cuda_stream)
    assert torch.cuda.default_stream().__cuda_stream__() == (0, 0)


#: How an event is told whether to time.
TOLD: tuple[dict[str, bool], ...] = ({}, {"enable_timing": True}, {"enable_timing": False})


@child(VIRTUAL, CPU, MPS_FAITHFUL)
def test_generic_events_time_if_those_of_the_release_do() -> None:
    """CPU events are torch's own."""
    flags = {kind: [repr(torch.Event(kind, **told)).split(", ")[2] for told in TOLD] for kind in ("cuda", "cpu")}
    assert flags["cuda"] == flags["cpu"]
