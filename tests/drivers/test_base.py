"""The parts that all drivers share: device properties, the current device, forks, published properties."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from harness import in_fork
from recorded import read_record

from torchdevice_cuda import drivers, monitoring, settings
from torchdevice_cuda.drivers.base import DeviceProperties, Offer
from torchdevice_cuda.drivers.device_properties import apply_settings

from .toy import TOTAL, ToyDriver

H200 = read_record("h200-properties.json")["properties"]
REAL = DeviceProperties("Processor", 5 << 30, 4, uuid.UUID(int=7), 2_500_999, 1 << 20, 3, memory_clock_rate=1_600_999)


@pytest.fixture
def toy() -> Iterator[ToyDriver]:
    made = ToyDriver(settings.Settings(), "a test")
    yield made
    made.withdraw()


# -------------------------------------------------------------------------------- facts
def test_default_properties_are_a_gpus() -> None:
    """Properties that all CUDA GPUs since capability 5 share."""
    for name in ("max_threads_per_block", "regs_per_multiprocessor", "shared_memory_per_block", "warp_size"):
        assert getattr(REAL, name) == H200[name], name
    assert REAL.max_threads_per_multi_processor == H200["max_threads_per_multi_processor"]
    assert REAL.is_multi_gpu_board == H200["is_multi_gpu_board"]
    assert REAL.gcnArchName == REAL.name
    # A processor in the GPU's place: what it is, and no more shared memory than every GPU has.
    assert (REAL.is_integrated, REAL.major, REAL.minor, REAL.pci_device_id, REAL.pci_domain_id) == (1, 0, 0, 0, 0)
    assert REAL.memory_bus_width == 64
    assert REAL.shared_memory_per_block_optin == REAL.shared_memory_per_block
    assert REAL.shared_memory_per_multiprocessor == 65536
    assert DeviceProperties("", 0, 0, uuid.UUID(int=0), 0, 0, 0).memory_clock_rate == 0


def test_a_profile_is_the_gpu_that_was_asked() -> None:
    shown = apply_settings(REAL, settings.load({"gpu": "h200"}, {}))
    found = {name: getattr(shown, name) for name in H200 if name != "total_memory"}
    assert found == {name: value for name, value in H200.items() if name != "total_memory"}
    assert (shown.total_memory, shown.uuid, shown.pci_bus_id) == (REAL.total_memory, REAL.uuid, REAL.pci_bus_id)
    assert apply_settings(REAL, settings.load({"gpu": "jetson-orin"}, {})).is_integrated == 1


def test_single_settings_override_the_profile() -> None:
    shown = apply_settings(REAL, settings.load({"gpu": "h200", "name": "Mine", "capability": "8.6"}, {}))
    assert (shown.name, shown.major, shown.minor) == ("Mine", 8, 6)
    plain = apply_settings(REAL, settings.load({}, {}))
    assert plain == dataclasses.replace(REAL, major=7, minor=0)


def test_published_properties_of_a_device() -> None:
    told = dataclasses.replace(REAL, major=8, minor=6).to_monitoring_device(5)
    assert told == monitoring.Device(
        index=5,
        uuid="GPU-00000000-0000-0000-0000-000000000007",
        name="Processor",
        memory=5 << 30,
        capability=(8, 6),
        multiprocessors=4,
        clock_mhz=2500,
        memory_clock_mhz=1600,
        bus=3,
        bus_bits=64,
    )


def test_facts_and_offers_never_change() -> None:
    assert len({REAL, dataclasses.replace(REAL)}) == 1
    assert len({Offer(None, "none"), Offer(None, "none")}) == 1


def test_an_offer_is_no_fault_unless_it_says_so() -> None:
    assert not Offer(None, "there is none").is_fault


# ------------------------------------------------------------------------------ defaults
def test_defaults_of_a_driver(toy: ToyDriver) -> None:
    assert (toy.redirects_by_default, toy.unseen_by_reports, toy.passed_over) == (False, "", ())
    assert (toy.can_capture, toy.graph(), toy.native, toy.rescue, toy.resident_since) == (False, None, None, None, None)
    assert (toy.settings, toy.reason) == (settings.Settings(), "a test")
    assert [toy.physical(index) for index in range(3)] == [0, 1, 2]
    assert toy.physical_count() == 3
    assert toy.physical_uuids() == [f"GPU-{uuid.UUID(int=index)}" for index in range(3)]
    assert [toy.can_access_peer(0, peer) for peer in range(3)] == [False, True, True]
    assert toy.emulates_bf16() is True
    assert toy.describe() == [("memory figures", "a toy's books")]
    assert toy.clock_rate(0) == 1000


@pytest.mark.parametrize(
    ("sensor", "name"),
    [
        ("utilization", "utilization"),
        ("memory_utilization", "memory_usage"),
        ("temperature", "temperature"),
        ("power_draw", "power_draw"),
    ],
)
def test_a_sensor_that_is_not_there_is_said_by_the_name_that_programs_ask_for(
    toy: ToyDriver, sensor: str, name: str
) -> None:
    assert hasattr(torch.cuda, name)
    with pytest.raises(
        RuntimeError, match=rf"^torch\.cuda\.{name}\(\) reads .* and the 'toy' driver of torchdevice_cuda"
    ):
        getattr(toy, sensor)(0)


# -------------------------------------------------------------------------------- devices
@pytest.mark.parametrize("index", [-1, 3, 99])
def test_a_device_that_is_not_there_is_refused(toy: ToyDriver, index: int) -> None:
    for refused in (toy.check, toy.set_device):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            refused(index)
    assert [toy.check(each) for each in range(3)] == [0, 1, 2]


def test_the_current_device_is_a_threads_own(toy: ToyDriver) -> None:
    assert toy.current_device() == 0
    toy.set_device(2)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(toy.current_device()))
    thread.start()
    thread.join()
    assert (seen, toy.current_device()) == ([0], 2)


def test_exchanging_devices(toy: ToyDriver) -> None:
    assert toy.exchange_device(1) == 0
    assert toy.exchange_device(0) == 1
    assert toy.exchange_device(-1) == -1
    assert toy.current_device() == 0
    asked: list[int] = []
    toy.set_device = asked.append  # type: ignore[method-assign]
    toy.exchange_device(0)
    assert asked == [], "to stay is not to use it"


# -------------------------------------------------------------------------- initialisation
def test_bringing_it_up(toy: ToyDriver) -> None:
    assert toy.needs_init and not toy.initialized() and not toy.has_context(0) and not toy.in_bad_fork()
    started: list[str] = []
    toy.start = lambda: started.append("started")  # type: ignore[method-assign]
    toy.initialize()
    assert started == ["started"]
    assert not toy.needs_init and toy.initialized() and toy.has_context(0)
    assert toy.in_bad_fork() is False
    assert in_fork(lambda: [toy.needs_init, toy.initialized(), toy.in_bad_fork()]) == [True, False, True]
    assert in_fork(toy.initialize).startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess")


def test_asking_for_devices_spoils_forks_too(toy: ToyDriver) -> None:
    toy.ask()
    assert toy.in_bad_fork() is False

    def asks_again() -> bool:
        toy.ask()
        return toy.in_bad_fork()

    assert in_fork(asks_again) is True


def test_settings_that_cannot_be_read_are_an_error_when_it_comes_up(
    toy: ToyDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "foo:1")
    with pytest.raises(ValueError, match="Unrecognized key 'foo'"):
        toy.initialize()
    assert toy.needs_init


def test_fork_handlers_do_not_keep_a_driver_alive() -> None:
    made = ToyDriver(settings.Settings(), "a test")
    reference = weakref.ref(made)
    del made
    gc.collect()
    assert reference() is None
    assert in_fork(lambda: 1) == 1


# ------------------------------------------------------------------------------- others
def mine() -> monitoring.Process | None:
    return next((each for each in monitoring.processes() if each.pid == os.getpid()), None)


def test_others_see_what_is_held(toy: ToyDriver) -> None:
    toy.initialize()
    seen = mine()
    assert seen is not None
    assert (seen.driver, [device.index for device in seen.devices]) == ("toy", [0, 1, 2])
    assert seen.devices[2] == toy.told(2)
    assert toy.users(1) == {}
    toy.memory.tell(1, 4096)
    assert toy.users(1) == {os.getpid(): 4096}
    assert toy.users(0) == {}
    toy.withdraw()
    assert mine() is None
    assert toy.publication is None
    toy.withdraw()  # once more is no error


def test_putting_another_driver_in_place_withdraws_the_one_before() -> None:
    first, second = (ToyDriver(settings.Settings(), "a test") for _ in range(2))
    assert drivers.installed() is None
    with pytest.raises(RuntimeError, match="torchdevice_cuda is not active in this process"):
        drivers.active()
    drivers.install(first)
    try:
        first.initialize()
        drivers.install(first)
        assert first.publication is not None
        assert drivers.active() is drivers.installed() is first
        drivers.install(second)
        assert first.publication is None
        assert drivers.active() is second
    finally:
        drivers.install(None)
    assert drivers.installed() is None


def test_resident_memory_is_not_published(toy: ToyDriver) -> None:
    class Resident(ToyDriver):
        @property
        def resident_since(self) -> int | None:
            return 1

    made = Resident(settings.Settings(), "a test")
    before = made.memory.tell
    made.initialize()
    try:
        assert made.memory.tell is before
        assert made.users(0)[os.getpid()] > 1 << 20, "others see what the process holds"
    finally:
        made.withdraw()


def test_a_compiled_device_stores_what_it_holds_itself() -> None:
    told: list[int] = []

    class Native:
        rescue = "the rescue"
        publish_at = staticmethod(told.append)

    class Compiled(ToyDriver):
        native = Native()  # type: ignore[assignment]

    made = Compiled(settings.Settings(), "a test")
    block = made.memory.allocate(512, 1, 0)
    before = made.memory.tell
    made.initialize()
    try:
        assert made.publication is not None
        assert told == [made.publication.address]
        assert made.users(1) == {os.getpid(): 512}, "what was held before"
        assert made.memory.tell is before
        assert made.rescue == "the rescue"
    finally:
        made.withdraw()
        made.memory.release(block)
    assert told[1:] == [0]


# --------------------------------------------------------------------- generators, memory
def test_generators_move_by_their_own_means(toy: ToyDriver) -> None:
    generator = toy.generators()[0]
    end = toy.show_generators_as(lambda each: each)
    assert end() is None  # type: ignore[func-returns-value]

    class Counting:
        offset = 8

        def get_offset(self) -> int:
            return self.offset

        def set_offset(self, offset: int) -> None:
            self.offset = offset

    counting: Any = Counting()
    assert toy.state_offset(counting) == 8
    toy.set_state_offset(counting, 12)
    assert toy.state_offset(counting) == 12
    state = generator.get_state()
    first = torch.rand(3, generator=generator)
    toy.set_generator_state(generator, state)
    assert torch.equal(first, torch.rand(3, generator=generator))


def test_host_memory_that_was_registered(toy: ToyDriver) -> None:
    toy.register_host_memory(4096, 10)
    assert toy.registered_host_memory == {4096: 10}
    assert toy.unregister_host_memory(4096) is True
    assert toy.unregister_host_memory(4096) is False
    assert toy.registered_host_memory == {}
    assert toy.memory.info(0)[1] == TOTAL
