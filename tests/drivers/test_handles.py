"""Streams and events as objects: torch's own types for every test, over a driver that nothing was patched for."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torchdevice_cuda import drivers, settings
from torchdevice_cuda.drivers import handles
from torchdevice_cuda.drivers.handles import GenericEvent, GenericStream

from .toy import ToyDriver

#: The types under the names that programs call.
Stream: Any = GenericStream
Event: Any = GenericEvent


@pytest.fixture(autouse=True)
def driver() -> Iterator[ToyDriver]:
    made = ToyDriver(settings.Settings(), "a test")
    drivers.install(made)
    yield made
    drivers.install(None)


# ------------------------------------------------------------------------------- streams
def test_the_types_are_torchs() -> None:
    stream, event = Stream(), Event()
    assert type(stream).__mro__[-2] is torch._C.Stream
    for made, kind, c_type, name in (
        (stream, Stream, torch._C.Stream, "Stream"),
        (event, Event, torch._C.Event, "Event"),
    ):
        assert isinstance(made, c_type)
        assert isinstance(made, kind)
        assert issubclass(type(made), kind)
        assert issubclass(c_type, kind), "for every test it is the C type"
        assert isinstance(c_type("cpu") if kind is Event else c_type(stream_id=0, device_index=0, device_type=0), kind)
        assert not isinstance(3, kind)
        assert not issubclass(int, kind)
        assert (type(made).__name__, type(made).__qualname__, type(made).__module__) == (name, name, "torch")


@pytest.mark.parametrize(
    ("asked", "device"),
    [((), 1), ((None,), 1), ((2,), 2), (("cuda",), 1), (("cuda:0",), 0), ((torch.device("cuda", 2),), 2)],
)
def test_a_request_for_a_stream(driver: ToyDriver, asked: tuple[Any, ...], device: int) -> None:
    driver.set_device(1)
    stream = Stream(*asked)
    assert (stream.device, stream.device_index, stream.device_type) == (torch.device("cuda", device), device, 1)
    assert stream.stream_id & 1, "one of the pool"
    named = Stream(device=asked[0]) if asked else Stream(device=None)
    assert named.device_index == device
    assert named.stream_id != stream.stream_id


def test_priorities_of_streams(driver: ToyDriver) -> None:
    for stream in (Stream(0, -2), Stream(device=0, priority=-2), Stream("cuda:0", priority=-2)):
        assert driver.streams.state(stream.stream_id, 0).priority == -2
    assert driver.streams.state(Stream(0).stream_id, 0).priority == 0


def test_a_device_that_is_not_there() -> None:
    for asked in (3, "cuda:3", torch.device("cuda", 99)):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            Stream(asked)


def test_a_stream_by_its_id(driver: ToyDriver) -> None:
    stream = Stream(1)
    again = Stream(stream_id=stream.stream_id, device_index=1, device_type=1)
    assert type(again) is type(stream)
    assert again == stream
    assert hash(again) == hash(stream)
    assert again.native_handle == stream.native_handle == driver.streams.state(stream.stream_id, 1).handle
    assert Stream(1) != stream


def test_streams_of_other_devices_are_torchs_own() -> None:
    other = Stream(stream_id=0, device_index=0, device_type=0)
    assert type(other) is torch._C.Stream
    assert type(Event("cpu")) is torch._C.Event
    assert type(Event(device="cpu")) is torch._C.Event


def test_methods_of_a_stream(driver: ToyDriver) -> None:
    stream = Stream(0)
    assert stream.query() is True
    assert stream.is_capturing() is False
    driver.streams.set_current(stream.stream_id, 0)
    driver.streams.sleep(300_000_000, 0)  # of a toy's cycles, three tenths of a second
    assert stream.query() is False
    stream.synchronize()
    assert stream.query() is True


def test_waiting_in_streams(driver: ToyDriver) -> None:
    busy, waiting = Stream(0), Stream(0)
    with busy:
        driver.streams.sleep(300_000_000, 0)
    assert waiting.query() is True
    waiting.wait_stream(busy)
    assert waiting.query() is False
    third, event = Stream(0), busy.record_event()
    assert isinstance(event, torch._C.Event)
    third.wait_event(event)
    assert third.query() is False
    given = Event("cuda")
    assert busy.record_event(given) is given
    assert given.event_id
    third.synchronize()
    assert event.query() is True


def test_entering_a_stream_of_another_device(driver: ToyDriver) -> None:
    outer, inner, own = Stream(0), Stream(2), Stream(2)
    driver.streams.set_current(outer.stream_id, 0)
    driver.streams.set_current(own.stream_id, 2)
    with inner as entered:
        assert entered is inner
        assert driver.current_device() == 2
        assert driver.streams.current(2) == inner.stream_id
        assert driver.streams.current(0) == outer.stream_id
        with inner, outer:
            assert driver.current_device() == 0
        assert driver.current_device() == 2
        assert driver.streams.current(2) == inner.stream_id
        driver.streams.set_current(0, 0)  # by somebody who does not put it back
    assert driver.current_device() == 0
    assert driver.streams.current(0) == outer.stream_id
    assert driver.streams.current(2) == own.stream_id


def test_a_stream_that_another_changed_inside_is_put_back(driver: ToyDriver) -> None:
    stream, other = Stream(0), Stream(0)
    with stream:
        driver.streams.set_current(other.stream_id, 0)
    assert driver.streams.current(0) == 0


def test_streams_do_not_pickle() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Stream(0))


# -------------------------------------------------------------------------------- events
def test_an_event_before_and_after_it_is_recorded(driver: ToyDriver) -> None:
    """A GPU gives an event its handle when it is first recorded."""
    event = Event("cuda", enable_timing=True)
    assert (event.event_id, event.device, event.query()) == (0, torch.device("cuda"), True)
    assert repr(event) == "torch.Event device_type=cuda, device_index=-1, event_flag=1, event_id=0"
    event.record(Stream(2))
    assert event.device == torch.device("cuda:2")
    assert repr(event) == f"torch.Event device_type=cuda, device_index=2, event_flag=1, event_id={event.event_id}"
    assert event.event_id
    untimed = Event("cuda")
    assert "event_flag=0" in repr(untimed)


def test_an_event_is_recorded_in_the_current_stream(driver: ToyDriver) -> None:
    stream, event = Stream(1), Event()
    driver.set_device(1)
    driver.streams.set_current(stream.stream_id, 1)
    driver.streams.sleep(300_000_000, 1)
    event.record()
    assert event.query() is False
    driver.set_device(0)
    event.wait()
    assert driver.streams.query(0, 0) is False
    event.synchronize()
    assert event.query() is True


@pytest.mark.parametrize("wrong", [3, "cuda", object()])
def test_other_objects_are_no_streams(wrong: Any) -> None:
    for method in (Event().record, Event().wait):
        with pytest.raises(
            RuntimeError, match=r"^expected stream to be a torch\.Stream or torch\.cuda\.Stream object$"
        ):
            method(wrong)


def test_an_event_for_other_processes_has_no_time() -> None:
    """As on CUDA, which refuses it when it is recorded."""
    with pytest.raises(RuntimeError, match="invalid argument"):
        Event("cuda", enable_timing=True, interprocess=True).record()
    Event("cuda", enable_timing=True).record()
    Event("cuda", interprocess=True).record()


def test_an_unknown_keyword_is_refused_as_torch_does() -> None:
    with pytest.raises(TypeError) as ours:
        Event("cuda", foo=1)
    with pytest.raises(TypeError) as torchs:
        torch._C.Event("cpu", foo=1)
    assert str(ours.value) == str(torchs.value)
    assert Event(device="cuda:1", enable_timing=True, blocking=True).event_id == 0


def test_the_time_between_events(driver: ToyDriver) -> None:
    start, end, untimed = Event("cuda", enable_timing=True), Event("cuda", enable_timing=True), Event("cuda")
    with pytest.raises(ValueError, match="^Both events must be recorded before calculating elapsed time.$"):
        start.elapsed_time(end)
    start.record()
    with pytest.raises(ValueError, match="^Both events must be recorded before"):
        start.elapsed_time(end)
    driver.streams.sleep(300_000_000, 0)
    end.record()
    untimed.record()
    for pair in ((start, end), (end, start)):
        with pytest.raises(RuntimeError, match="^Both events must be completed before calculating elapsed time.$"):
            pair[0].elapsed_time(pair[1])
    for pair in ((start, untimed), (untimed, start)):
        with pytest.raises(ValueError, match="^Both events must be created with argument 'enable_timing=True'.$"):
            pair[0].elapsed_time(pair[1])
    end.synchronize()
    assert 300 <= start.elapsed_time(end) < 3000
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    for wrong in (3, torch._C.Event("cpu")):
        with pytest.raises(RuntimeError, match=r"^expected other to be a torch\.cuda\.Event object$"):
            start.elapsed_time(wrong)


def test_requests(driver: ToyDriver) -> None:
    asked = (None, 0, 2, "cuda", "cuda:1", torch.device("cuda"), "cpu", torch.device("cpu"), "mps")
    assert [handles.is_cuda_request(each) for each in asked] == [True] * 6 + [False] * 3
    driver.set_device(2)
    assert [handles.requested_index(each) for each in (None, 0, 1, "cuda", "cuda:1", torch.device("cuda"))] == [
        *(2, 0, 1, 2, 1, 2)
    ]
