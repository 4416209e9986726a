"""The driver of a real CUDA GPU: stock torch.cuda answers, on machines without one too."""

from __future__ import annotations

import os
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchdevice_cuda import settings
from torchdevice_cuda.drivers.cuda.driver import CudaDriver, offer
from torchdevice_cuda.drivers.traits import Trait


@pytest.fixture
def driver() -> CudaDriver:
    CudaDriver.facts.cache_clear()
    return CudaDriver(settings.Settings(), "a test")


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "of before")


def torch_c(built: bool, devices: int | None) -> Any:
    """torch's core, with or without CUDA."""
    made = SimpleNamespace(_has_cuda=built) if built else SimpleNamespace()
    if devices is not None:
        made._cuda_getDeviceCount = lambda: devices
    return made


@pytest.mark.parametrize(
    ("core", "asked", "made", "reason"),
    [
        (torch_c(True, 2), {}, True, "torch sees 2 CUDA GPU(s)"),
        (torch_c(True, 0), {}, False, "no CUDA GPU answers"),
        (torch_c(True, None), {}, False, "no CUDA GPU answers"),
        (torch_c(False, None), {}, False, "this torch is built without CUDA"),
        (torch_c(False, 2), {}, False, "this torch is built without CUDA"),
        (torch_c(True, 0), {"driver": "cuda", "visible_devices": ""}, True, "CUDA_VISIBLE_DEVICES hides every GPU"),
        (torch_c(True, 0), {"driver": "cuda", "visible_devices": "-1"}, True, "CUDA_VISIBLE_DEVICES hides every GPU"),
        (torch_c(True, 0), {"driver": "cuda", "visible_devices": "0"}, False, "no CUDA GPU answers"),
        (torch_c(True, 0), {"driver": "cuda", "visible_devices": "63"}, False, "no CUDA GPU answers"),
        (torch_c(True, 0), {"driver": "cuda"}, False, "no CUDA GPU answers"),
        (torch_c(True, 0), {"visible_devices": ""}, False, "no CUDA GPU answers"),
        (torch_c(False, None), {"driver": "cuda", "visible_devices": ""}, False, "this torch is built without CUDA"),
    ],
)
def test_it_is_offered_if_a_gpu_is_available(core: Any, asked: dict[str, Any], made: bool, reason: str) -> None:
    offered = offer(settings.Settings(**asked), core)
    assert (offered.make, offered.reason, offered.is_fault) == (CudaDriver if made else None, reason, False)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == asked.get("visible_devices", "of before"), "CUDA reads it itself"


def test_attributes(driver: CudaDriver) -> None:
    assert (driver.name, driver.device_type, driver.redirects_by_default) == ("cuda", "cuda", True)
    assert driver.traits is Trait.REDIRECTS
    assert "torch.profiler tells" in driver.unseen_by_reports
    assert driver.describe() == [("memory figures", "CUDA's caching allocator")]
    for part in ("memory", "streams"):
        with pytest.raises(RuntimeError, match=f"^on a real CUDA device torch.cuda itself answers for {part}$"):
            getattr(driver, part)


def test_stock_torch_answers(driver: CudaDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    started: list[str] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: started.append("init"))
    monkeypatch.setattr(torch.cuda, "default_generators", ("one", "two"), raising=False)
    assert (driver.device_count(), driver.current_device(), driver.in_bad_fork()) == (5, 3, True)
    driver.set_device(4)
    assert chosen == [4]
    assert driver.generators() == ("one", "two")
    assert started == ["init"]
    generator = torch.Generator()
    state = generator.get_state()
    first = torch.rand(2, generator=generator)
    driver.set_generator_state(generator, state)
    assert torch.equal(first, torch.rand(2, generator=generator))


def test_properties_are_cudas(driver: CudaDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "12345678-1234-5678-1234-567812345678"
    properties: dict[str, Any] = {
        "name": "NVIDIA H200",
        "major": 9,
        "minor": 1,
        "total_memory": 150_109_880_320,
        "multi_processor_count": 132,
        "L2_cache_size": 62_914_560,
        "is_integrated": 0,
        "clock_rate": 1_980_000,
        "pci_bus_id": 0x1A,
    }
    asked: list[int] = []

    def found(index: int) -> Any:
        asked.append(index)
        return SimpleNamespace(**properties, uuid=name)

    monkeypatch.setattr(torch.cuda, "get_device_properties", found)
    facts = driver.facts(2)
    assert {key: getattr(facts, key) for key in properties} == properties
    assert facts.uuid == uuid.UUID(name)
    assert driver.facts(2) is facts
    assert asked == [2]
    for late in ("clock_rate", "pci_bus_id"):  # properties of newer releases
        del properties[late]
    facts = driver.facts(1)
    assert (facts.clock_rate, facts.pci_bus_id) == (0, 0)
