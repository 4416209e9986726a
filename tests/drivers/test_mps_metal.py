"""Hardware facts from Metal, through a stand-in with pyobjc's names; each source may be missing."""

from __future__ import annotations

import subprocess
import sys
import time
import types
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, child

from torchdevice_cuda.drivers.host import facts as hostfacts
from torchdevice_cuda.drivers.mps import metal
from torchdevice_cuda.drivers.mps.driver import MpsDriver
from torchdevice_cuda.settings import Settings

IOREG = '+-o AGXAcceleratorG15X  <class AGXAcceleratorG15X>\n    {\n      "gpu-core-count" = 40\n    }\n'


class FakeDevice:
    """A fake result of MTLCreateSystemDefaultDevice(), with methods as in pyobjc."""

    def name(self) -> str:
        return "Apple M3 Max"

    def recommendedMaxWorkingSetSize(self) -> int:
        return 48 << 30

    def maxThreadgroupMemoryLength(self) -> int:
        return 65536

    def hasUnifiedMemory(self) -> bool:
        return True

    def registryID(self) -> int:
        return 0x100000ABC


@pytest.fixture(autouse=True)
def fresh() -> Any:
    metal.gpu.cache_clear()
    yield
    metal.gpu.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, device: Any, ioreg: str | None) -> None:
    module = types.ModuleType("Metal")
    module.MTLCreateSystemDefaultDevice = lambda: device
    monkeypatch.setitem(sys.modules, "Metal", module)

    def run(command: list[str], **options: Any) -> Any:
        if ioreg is None:
            raise FileNotFoundError(command[0])
        return types.SimpleNamespace(stdout=ioreg)

    monkeypatch.setattr(subprocess, "run", run)


def test_everything_metal_says(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDevice(), IOREG)
    gpu = metal.gpu()
    assert gpu.name == "Apple M3 Max"
    assert gpu.cores == 40
    assert gpu.working_set == 48 << 30
    assert gpu.threadgroup_memory == 65536
    assert gpu.unified_memory is True
    assert gpu.registry_id == 0x100000ABC
    assert gpu.uuid == metal.gpu().uuid != hostfacts.device_uuid(0)


def test_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Macs with an M3 print it: all statistics in one line, in any order."""
    said = (
        '"PerformanceStatistics" = {"Tiler Utilization %"=27,"Device Utilization %"=29,"In use system memory"=115458}'
    )
    use(monkeypatch, FakeDevice(), IOREG + said)
    assert metal.utilization() == 29
    for silent in (IOREG, None):
        use(monkeypatch, FakeDevice(), silent)
        assert metal.utilization() is None


@pytest.mark.parametrize(("said", "busy"), [('"Device Utilization %"=29', 29), ("", None)])
def test_the_driver_says_so_or_that_it_cannot(monkeypatch: pytest.MonkeyPatch, said: str, busy: int | None) -> None:
    use(monkeypatch, FakeDevice(), said)
    driver = MpsDriver(Settings(), "a test")
    if busy is not None:
        assert (driver.utilization(0), driver.memory_utilization(0)) == (busy, busy)
        return
    with pytest.raises(
        RuntimeError, match=r"torch\.cuda\.utilization\(\) reads .* the 'mps' driver .* has no such sensor"
    ):
        driver.utilization(0)


@child(MPS_FAITHFUL)
def test_the_emulated_gpu_is_as_busy_as_its_programs() -> None:
    held = torch.ones(1000, device="cuda")
    assert torch.cuda.memory_allocated() > 0
    assert torch.cuda.utilization() in range(101)
    ends = time.monotonic() + 2
    while not (busy := torch.cuda.utilization()) and time.monotonic() < ends:
        for _ in range(2000):
            held.add_(1)
    assert busy > 0
    assert torch.cuda.memory_usage() in range(101)


def test_the_second_level_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDevice(), "16777216\n")
    assert metal.l2_cache() == 16 << 20
    use(monkeypatch, FakeDevice(), None)
    assert metal.l2_cache() == hostfacts.last_level_cache()


def test_without_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDevice(), None)
    assert metal.gpu().cores == hostfacts.cores()
    assert metal.gpu().name == "Apple M3 Max"


def test_an_older_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that this Metal does not have are answered by the next source."""
    older = types.SimpleNamespace(name=lambda: "Apple M1")
    use(monkeypatch, older, IOREG)
    monkeypatch.setattr(metal, "_torch_says", {"_mps_recommendedMaxMemory": 10 << 30}.get)
    gpu = metal.gpu()
    assert gpu.name == "Apple M1"
    assert gpu.working_set == 10 << 30
    assert gpu.registry_id is None
    assert gpu.uuid == hostfacts.device_uuid(0)


def test_without_pyobjc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Metal", None)
    monkeypatch.setattr(metal, "_registry_cores", lambda: None)
    gpu = metal.gpu()
    assert gpu.name == hostfacts.processor_name()
    assert gpu.cores == hostfacts.cores()
    assert gpu.unified_memory
    assert gpu.working_set == metal.main_memory_share()
    assert gpu.threadgroup_memory == 32768
    assert gpu.uuid == hostfacts.device_uuid(0)


def test_torch_answers_before_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyobjc and the registry, torch's own backend knows name, cores and memory in its later versions."""
    monkeypatch.setitem(sys.modules, "Metal", None)
    monkeypatch.setattr(metal, "_registry_cores", lambda: None)
    says = {"_mps_get_name": lambda: "Apple M4", "_mps_get_core_count": lambda: 10}
    says |= {"_mps_recommendedMaxMemory": lambda: 12 << 30, "_mps_is_available": lambda: True}
    for name, answer in says.items():
        monkeypatch.setattr(torch._C, name, answer, raising=False)
    monkeypatch.setattr(torch._C, "_has_mps", True)
    gpu = metal.gpu()
    assert gpu.name == "Apple M4"
    assert gpu.cores == 10
    assert gpu.working_set == 12 << 30
    monkeypatch.setattr(torch._C, "_mps_is_available", lambda: False)
    metal.gpu.cache_clear()
    assert metal.gpu().name == hostfacts.processor_name()
    assert metal.gpu().working_set == metal.main_memory_share()


def test_metal_that_fails_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Metal", None)
    monkeypatch.setattr(metal, "_registry_cores", lambda: None)

    def fail() -> Any:
        raise RuntimeError("Failed to create a Metal device")

    monkeypatch.setattr(torch._C, "_has_mps", True)
    monkeypatch.setattr(torch._C, "_mps_is_available", fail, raising=False)
    assert metal.gpu().name == hostfacts.processor_name()


def test_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Metal", None)
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(metal, "_torch_says", lambda name: None)
    assert metal.main_memory_share() is None
    assert metal.gpu().working_set is None


@pytest.mark.parametrize(
    "broken", [ImportError("no"), AttributeError("no"), OSError("wrong architecture"), RuntimeError("no framework")]
)
def test_a_broken_pyobjc(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    use(monkeypatch, FakeDevice(), IOREG)

    def refuse() -> None:
        raise broken

    monkeypatch.setattr(sys.modules["Metal"], "MTLCreateSystemDefaultDevice", refuse)
    assert metal.gpu().name != FakeDevice().name()
    assert metal.gpu().cores == 40


@pytest.mark.parametrize(
    "outcome",
    [
        subprocess.CalledProcessError(1, "ioreg"),
        subprocess.TimeoutExpired("ioreg", 5),
        types.SimpleNamespace(stdout="nothing of the kind"),
    ],
)
def test_a_registry_that_does_not_say(monkeypatch: pytest.MonkeyPatch, outcome: Any) -> None:
    use(monkeypatch, FakeDevice(), IOREG)

    def run(command: list[str], **options: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(metal, "_torch_says", lambda name: None)
    assert metal.gpu().cores == hostfacts.cores()


def test_memory_that_is_not_unified(monkeypatch: pytest.MonkeyPatch) -> None:
    discrete = types.SimpleNamespace(name=lambda: "AMD Radeon", hasUnifiedMemory=lambda: False)
    use(monkeypatch, discrete, None)
    assert not metal.gpu().unified_memory


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None, IOREG)
    assert metal.gpu().name == hostfacts.processor_name()
