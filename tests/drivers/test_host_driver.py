"""The processor in the GPU's place: what it says it is, which devices a program sees, generators, sensors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torchdevice_cuda import monitoring, settings
from torchdevice_cuda.drivers.cpu.driver import CpuDriver, offer
from torchdevice_cuda.drivers.host import driver as host
from torchdevice_cuda.drivers.host import facts, machine
from torchdevice_cuda.drivers.traits import NONE, Trait
from torchdevice_cuda.settings import gpus

GIB = 1 << 30


@pytest.fixture(autouse=True)
def all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def made(**values: Any) -> CpuDriver:
    host.HostDriver.facts.cache_clear()
    return CpuDriver(settings.Settings(**values), "a test")


# --------------------------------------------------------------------------------- facts
def test_it_says_what_the_processor_is() -> None:
    driver = made(memory=GIB, devices=2)
    found = driver.facts(1)
    assert found.name == f"{facts.processor_name()} (CUDA compatible)"
    assert found.total_memory == min(GIB, machine.limit())
    assert found.multi_processor_count == facts.cores()
    assert found.uuid == facts.device_uuid(1) != driver.facts(0).uuid
    assert (found.clock_rate, found.L2_cache_size) == (facts.clock_khz(), facts.last_level_cache())
    assert (found.pci_bus_id, found.is_integrated, found.major, found.minor) == (1, 1, 7, 0)
    assert found is driver.facts(1)


@pytest.mark.parametrize(("capability", "optin"), [((7, 0), 96), ((9, 0), 227), ((5, 0), 48)])
def test_shared_memory_is_what_the_capability_promises(capability: tuple[int, int], optin: int) -> None:
    """As NVIDIA's table has it, and what every GPU has where there is no row."""
    assert made(capability=capability).facts(0).shared_memory_per_block_optin == optin * 1024


def test_a_virtual_gpu_says_so() -> None:
    found = host.host_facts(3, GIB, settings.Settings(), "a label", 0)
    assert (found.name, found.is_integrated) == (f"{facts.processor_name()} (a label)", 0)
    assert (found.pci_bus_id, found.uuid) == (3, facts.device_uuid(3))
    assert host.host_facts(0, GIB, settings.Settings()).is_integrated == 1


def test_memory_is_chosen_or_the_profiles() -> None:
    t4 = gpus.find("t4").memory
    assert host.chosen_memory(settings.Settings()) is None
    assert host.chosen_memory(settings.Settings(memory=5)) == 5
    assert host.chosen_memory(settings.Settings(gpu="t4")) == t4
    assert host.chosen_memory(settings.Settings(gpu="t4", memory=5)) == 5
    assert made(memory=5).memory_of_each == 5


# ------------------------------------------------------------------------------- devices
@pytest.mark.parametrize("variable", ["2,0", "1", "", None])
def test_devices_that_are_hidden(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting: whoever gives it need not have set the variable, which may say something else."""
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    driver = made(devices=3, visible_devices="2,0")
    assert (driver.device_count(), driver.physical_count()) == (2, 3)
    assert [driver.physical(index) for index in range(2)] == [2, 0]
    assert driver.physical_uuids() == [f"GPU-{facts.device_uuid(index)}" for index in range(3)]
    assert driver.facts(0).uuid == facts.device_uuid(2)
    assert driver.told(0).index == 2


def test_a_program_may_hide_devices_until_it_uses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = made(devices=3)
    assert driver.device_count() == 3
    streams, memory, named = driver.streams, driver.memory, driver.facts(0).uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert driver.device_count() == 1
    assert driver.physical(0) == 1
    assert driver.facts(0).uuid == facts.device_uuid(1) != named
    assert driver.streams is not streams
    assert driver.memory is not memory
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        driver.streams.new(1)
    streams = driver.streams
    assert driver.device_count() == 1
    assert driver.streams is streams, "made once for a number"
    driver.needs_init = False
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert driver.device_count() == 1


# ------------------------------------------------------------------------------- sensors
@pytest.fixture
def used() -> Iterator[CpuDriver]:
    driver = made()
    driver.initialize()
    driver.memory.baseline = 1
    driver.publish()
    yield driver
    driver.withdraw()


def test_utilization_is_the_load_of_those_who_use_it(used: CpuDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []

    def percents(processes: list[monitoring.Process]) -> dict[int, int]:
        seen.append([process.pid for process in processes])
        return {process.pid: 60 for process in processes}

    monkeypatch.setattr(monitoring.load, "percents", percents)
    mine = next(each for each in monitoring.processes() if each.pid == os.getpid())
    other = dataclasses.replace(mine, pid=1)
    monkeypatch.setattr(monitoring, "processes", lambda: [mine, other])
    assert used.utilization(0) == 100, "of one core at most"
    assert seen == [[os.getpid(), 1]]
    monkeypatch.setattr(monitoring.load, "percents", lambda processes: {os.getpid(): 20, 1: 3})
    assert (used.utilization(0), used.memory_utilization(0)) == (23, 23)


def test_the_temperature_is_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = made()
    monkeypatch.setattr(facts, "temperature", lambda: 0)
    assert driver.temperature(0) == 0
    monkeypatch.setattr(facts, "temperature", lambda: None)
    with pytest.raises(RuntimeError, match=r"^torch\.cuda\.temperature\(\) .* the 'cpu' driver"):
        driver.temperature(0)


# ------------------------------------------------------------------------ the cpu driver
def test_attributes_of_the_cpu_driver() -> None:
    offered = offer(settings.Settings(), torch._C)
    assert (offered.make, offered.reason, offered.is_fault) == (CpuDriver, "the CPU is always there", False)
    driver = made()
    assert (driver.name, driver.device_type, driver.redirects_by_default) == ("cpu", "cpu", False)
    assert (
        driver.traits == Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.REDIRECTS | Trait.HOST_MEMORY | Trait.CPU_TENSORS
    )
    assert not NONE
    assert "--driver virtual counts" in driver.unseen_by_reports
    assert driver.streams is driver.streams
    assert driver.memory is driver.memory


def test_memory_counts_from_its_start() -> None:
    driver = made()
    assert driver.resident_since is None
    driver.initialize()
    try:
        assert driver.resident_since == driver.memory.baseline
        assert driver.resident_since is not None and driver.resident_since > 1 << 20
    finally:
        driver.withdraw()


def test_streams_keep_the_processors_time() -> None:
    driver = made()
    assert driver.streams._cycles_per_second(0) == driver.facts(0).clock_rate * 1000
    start, end = (driver.streams.event(timing=True) for _ in range(2))
    driver.streams.record(start, 0, 0)
    driver.streams.sleep(driver.facts(0).clock_rate * 10, 0)  # kHz: ten milliseconds
    driver.streams.record(end, 0, 0)
    assert 10 <= driver.streams.elapsed_ms(start, end) < 1000


# --------------------------------------------------------------------------- generators
def drawn(generator: torch.Generator) -> list[float]:
    return torch.rand(3, generator=generator).tolist()


def test_generators_are_of_their_own() -> None:
    driver = made(devices=2)
    first, second = driver.generators()
    assert driver.generators()[0] is first
    assert first.initial_seed() == second.initial_seed() == torch.default_generator.initial_seed()
    before = torch.default_generator.get_state()
    first.manual_seed(5)
    values = drawn(first)
    assert values != drawn(second)
    assert torch.equal(before, torch.default_generator.get_state())
    assert values == drawn(torch.Generator().manual_seed(5))


def test_a_generators_state_comes_back() -> None:
    driver = made()
    (generator,) = driver.generators()
    state = generator.get_state()
    values = drawn(generator)
    driver.set_generator_state(generator, state)
    assert drawn(generator) == values


def cuda_state(*words: int) -> torch.Tensor:
    """Return a state as a CUDA generator saves it: a seed, and an offset."""
    return torch.tensor(words, dtype=torch.int64).view(torch.uint8)


def test_a_state_of_cuda_starts_from_its_seed() -> None:
    driver = made()
    (generator,) = driver.generators()
    for state in (cuda_state(7), cuda_state(7, 0)):
        driver.set_generator_state(generator, state)
        assert generator.initial_seed() == 7
        assert drawn(generator) == drawn(torch.Generator().manual_seed(7))
    seen = []
    for offset in (4, 8, 4):
        driver.set_generator_state(generator, cuda_state(7, offset))
        seen.append((generator.initial_seed(), drawn(generator)))
    assert seen[0] == seen[2] != seen[1]
    assert seen[0][0] not in (7, seen[1][0])
    driver.set_generator_state(generator, cuda_state(-3, 0))
    assert generator.initial_seed() == 2**64 - 3
    with pytest.raises(RuntimeError, match="^RNG state is wrong size$"):
        driver.set_generator_state(generator, torch.zeros(5, dtype=torch.uint8))


def test_an_offset_of_a_seed() -> None:
    driver = made()
    (generator,) = driver.generators()
    for seed in (7, 2**64 - 3, 1 << 63):
        generator.manual_seed(seed)
        driver.set_state_offset(generator, 8)
        values = drawn(generator)
        driver.set_generator_state(generator, cuda_state(seed if seed < 1 << 63 else seed - (1 << 64), 8))
        assert drawn(generator) == values
    generator.manual_seed(7)
    driver.set_state_offset(generator, 0)
    assert drawn(generator) == drawn(torch.Generator().manual_seed(7))
    for offset in (3, 6):
        with pytest.raises(RuntimeError, match="^offset must be a multiple of 4$"):
            driver.set_state_offset(generator, offset)
    with pytest.raises(RuntimeError, match="'cpu' driver of torchdevice_cuda draws from a CPU generator"):
        driver.state_offset(generator)
