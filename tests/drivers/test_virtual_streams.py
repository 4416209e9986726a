"""The virtual GPU's streams, events, devices and generators, asked as the rest of the package asks them."""

from __future__ import annotations

import time
import zlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from recorded import draws, read_record

import torchdevice_cuda
from torchdevice_cuda._compat import cudnn_version
from torchdevice_cuda.drivers.host import facts
from torchdevice_cuda.drivers.streams import EventState, StreamState
from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.drivers.virtual.streams import NativeStreams
from torchdevice_cuda.settings import gpus

GIB = 1 << 30
TWO = VIRTUAL.with_settings(devices=2, memory="1GiB", gpu="a100-80")
on_two = child(TWO)


def streams() -> Any:
    torch.cuda.init()
    return torchdevice_cuda.driver().streams


# ------------------------------------------------------------------------------- streams
@on_two
def test_streams_are_numbered_as_cudas() -> None:
    made = streams()
    ids = [made.new(1, priority) for priority in (-3, -2, -1, 0, 5, -9)]
    states = [made.state(each, 1) for each in ids]
    assert [state.priority for state in states] == [-3, -2, -1, 0, 0, -3]
    assert [each >> 1 & 15 for each in ids] == [4, 3, 2, 1, 1, 4]
    assert len({state.handle for state in states} | {0}) == 7
    assert all(state.device == 1 and state.stream_id == each for state, each in zip(states, ids, strict=True))
    assert made.state(0, 1) == StreamState(1, 0, 0, handle=0)
    assert made.external(0, 0x1234) == 0x1234


@on_two
@pytest.mark.parametrize("device", [-1, 2])
def test_a_device_that_is_not_there(device: int) -> None:
    made = streams()
    event = made.event(timing=False)
    for asked in (
        lambda: made.new(device),
        lambda: made.external(device, 1),
        lambda: made.state(0, device),
        lambda: made.current(device),
        lambda: made.set_current(0, device),
        lambda: made.sleep(1, device),
        lambda: made.query(0, device),
        lambda: made.synchronize(0, device),
        lambda: made.synchronize_device(device),
        lambda: made.is_capturing(0, device),
        lambda: made.create_event(event, device),
        lambda: made.wait(event, 0, device),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            asked()
    driver = torchdevice_cuda.driver()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        driver.set_device(device)


@on_two
def test_the_current_stream() -> None:
    made = streams()
    one = made.new(1)
    made.set_current(one, 1)
    assert (made.current(1), made.current(0)) == (one, 0)
    assert torch.cuda.current_stream(1).stream_id == one
    made.set_current(0, 1)
    assert made.current(1) == 0


@on_two
def test_streams_that_sleep() -> None:
    made = streams()
    one = made.new(0)
    made.set_current(one, 0)
    try:
        made.sleep(-5, 0)
        assert made.query(one, 0) is True
        made.sleep(gpus.find("a100-80").clock_mhz * 1_000_000, 0)  # a second
        assert made.query(one, 0) is False
        assert made.query(0, 0) is True
        begin = time.monotonic()
        made.synchronize(0, 0)
        assert time.monotonic() - begin < 0.8
        made.synchronize(one, 0)
        assert 0.05 < time.monotonic() - begin < 10
        made.sleep(gpus.find("a100-80").clock_mhz * 20_000, 0)
        made.synchronize_device(0)
        assert made.query(one, 0) is True
    finally:
        made.set_current(0, 0)


@on_two
def test_streams_are_captured() -> None:
    made = streams()
    assert made.is_capturing(0, 0) is False
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x = torch.ones(2, device="cuda")
    with torch.cuda.graph(graph, stream=stream):
        y = x + 1
        assert made.is_capturing(stream.stream_id, 0) is True
    assert made.is_capturing(stream.stream_id, 0) is False
    graph.replay()
    assert y.tolist() == [2.0, 2.0]
    driver = torchdevice_cuda.driver()
    assert driver.can_capture is True
    assert driver.graph() is not None


@on_two
def test_waits_of_operators_are_told() -> None:
    made = streams()
    x = torch.ones(2, device="cuda")
    made.watch_synchronization(2)
    try:
        with pytest.raises(RuntimeError, match="synchronizing CUDA operation"):
            x.sum().item()
    finally:
        made.watch_synchronization(0)
    assert x.sum().item() == 2.0


# -------------------------------------------------------------------------------- events
def recorded(made: Any, device: int = 0) -> EventState:
    event: EventState = made.event(timing=True)
    made.record(event, 0, device)
    return event


@on_two
def test_events() -> None:
    made = streams()
    event = made.event(timing=True)
    assert (event.timing, event.device, event.handle, event.recorded) == (True, None, 0, False)
    assert made.query_event(event) is True
    made.record(event, 0, 1)
    assert (event.device, event.recorded, event.handle != 0) == (1, True, True)
    handle = event.handle
    made.record(event, 0, 1)
    assert event.handle == handle
    with pytest.raises(RuntimeError, match="^Event device 1 does not match recording stream's device 0.$"):
        made.record(event, 0, 0)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        made.elapsed_ms(event, recorded(made, 0))


@on_two
def test_the_time_between_events() -> None:
    made = streams()
    start = recorded(made)
    made.sleep(gpus.find("a100-80").clock_mhz * 300_000, 0)
    end, waiting = recorded(made), made.new(0)
    assert made.query_event(end) is False
    made.wait(end, waiting, 0)
    assert made.query(waiting, 0) is False
    made.synchronize_event(end)
    assert made.query_event(end) is True
    assert made.query(waiting, 0) is True
    assert 100 < made.elapsed_ms(start, end) < 3000
    assert made.elapsed_ms(end, start) == -made.elapsed_ms(start, end)


@on_two
def test_events_of_other_processes() -> None:
    made = streams()
    event = made.interprocess_event(timing=False)
    made.create_event(event, 1)
    assert (event.device, event.handle != 0, event.recorded) == (1, True, False)
    name = made.event_name(event)
    assert isinstance(name, bytes)
    assert len(name) == 64
    with pytest.raises(RuntimeError, match="^CUDA error: invalid device context"):
        made.open_event(name, 1)  # its own, as on CUDA
    other: Any = SimpleNamespace(handle=77)
    opens = NativeStreams(SimpleNamespace(Event=SimpleNamespace(open=lambda said: other if said == name else 1)), 2)  # type: ignore[arg-type]
    opened = opens.open_event(name, 1)
    assert opened == EventState(timing=False, device=1, handle=77, native=other)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        opens.open_event(name, 2)
    assert not made.event(timing=False).native.name.strip(b"\0"), "not every event can be opened"


# -------------------------------------------------------------------------------- devices
@on_two
def test_attributes_of_the_virtual_gpu() -> None:
    driver = torchdevice_cuda.driver()
    assert (driver.name, driver.device_type, driver.traits) == (
        "virtual",
        "cuda",
        Trait.SUBSTITUTE | Trait.HOST_MEMORY | Trait.NATIVE,
    )
    assert driver.facts(0).is_integrated == 0
    assert driver.reason.startswith("asked for (the native device is built)")
    rows = dict(driver.describe())
    assert rows["memory figures"].startswith("the virtual GPU's own allocator")
    assert rows["native part"].endswith(("(compiled here)", ")"))
    assert driver.native is not None
    assert rows["native part"].startswith(str(driver.native.__file__))


@child(VIRTUAL)
def test_without_a_profile_the_processor_is_named() -> None:
    driver = torchdevice_cuda.driver()
    assert driver.facts(0).name == f"{facts.processor_name()} (virtual GPU, CUDA compatible)"
    # Numbers are an H200's all the same, also where its multiprocessors share the work.
    torch.manual_seed(draws.SEED)
    recorded = read_record(draws.RECORD)['torch.rand(1 << 20, device="cuda")']
    for drawn, offset in zip(*[iter(recorded)] * 2, strict=True):
        values = torch.rand(1 << 20, device="cuda")
        assert zlib.crc32(values.cpu().numpy().tobytes()) == drawn[0]["crc"]
        assert torch.cuda.default_generators[0].get_offset() == offset


@on_two
def test_the_compiled_device_is_told_what_gpu_it_is() -> None:
    """cuDNN's number has four digits of its major version, two of its minor one and two of its patch."""
    driver = torchdevice_cuda.driver()
    told: list[Any] = []

    class Telling:
        def set_multiprocessors(self, *said: int) -> None:
            told.append(said)

        def set_capability(self, *said: int) -> None:
            told.append(said)

        def __getattr__(self, name: str) -> Any:
            return getattr(module, name)

    module = driver._module  # type: ignore[attr-defined]
    driver.__dict__["_module"] = Telling()
    try:
        driver.prepare()
    finally:
        driver.__dict__["_module"] = module
        driver.prepare()
    major, minor, patch = cudnn_version(torch.__version__)
    a100 = gpus.find("a100-80")
    assert told == [(a100.multiprocessors, 2048), (8, 0, int(f"{major}{minor:02}{patch:02}"))]


@on_two
def test_devices_and_their_use() -> None:
    driver = torchdevice_cuda.driver()
    driver.set_device(1)
    assert driver.current_device() == torch.cuda.current_device() == 1
    driver.set_device(0)
    assert driver.current_device() == 0
    driver.use(1)
    assert driver.has_context(1) is True
    assert driver.memory.info(1)[1] == GIB


@on_two
def test_host_memory_that_is_registered_is_pinned() -> None:
    driver = torchdevice_cuda.driver()
    x = torch.ones(10)
    assert not x.is_pinned()
    driver.register_host_memory(x.data_ptr(), 40)
    assert x.is_pinned()
    assert driver.registered_host_memory[x.data_ptr()] == 40
    assert driver.unregister_host_memory(x.data_ptr()) is True
    assert not x.is_pinned()
    assert driver.unregister_host_memory(x.data_ptr()) is False


@on_two
def test_generators_have_cudas_state() -> None:
    driver = torchdevice_cuda.driver()
    generators = driver.generators()
    assert len(generators) == 2
    assert [generator.device.index for generator in generators] == [0, 1]
    state = generators[1].manual_seed(7).get_state()
    assert state.numel() == 16
    first = torch.rand(3, device="cuda:1")
    driver.set_generator_state(generators[1], state)
    assert torch.equal(first, torch.rand(3, device="cuda:1"))


@child(VIRTUAL.within(CUDA_VISIBLE_DEVICES=""))
def test_no_device_is_compiled_if_all_are_hidden() -> None:
    driver = torchdevice_cuda.driver()
    assert driver.native is None
    driver.ask()
    assert driver.device_count() == 0
    assert driver.generators() == ()
