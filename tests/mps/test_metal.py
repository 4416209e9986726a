"""Hardware facts from Metal, through a stand-in with pyobjc's names; each source may be missing."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import pytest

from torchdevice_cuda.drivers import hostfacts, metal

IOREG = '+-o AGXAcceleratorG15X  <class AGXAcceleratorG15X>\n    {\n      "gpu-core-count" = 40\n    }\n'


class FakeDevice:
    """What MTLCreateSystemDefaultDevice() gives: methods, as pyobjc has them."""

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
    assert (gpu.name, gpu.cores, gpu.working_set) == ("Apple M3 Max", 40, 48 << 30)
    assert (gpu.threadgroup_memory, gpu.unified_memory, gpu.registry_id) == (65536, True, 0x100000ABC)
    assert gpu.uuid == metal.gpu().uuid != hostfacts.device_uuid(0)


def test_without_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDevice(), None)
    assert metal.gpu().cores == hostfacts.cores() and metal.gpu().name == "Apple M3 Max"


def test_an_older_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that this Metal does not have are answered by the next source."""
    older = types.SimpleNamespace(name=lambda: "Apple M1")
    use(monkeypatch, older, IOREG)
    monkeypatch.setattr(metal, "_torch_working_set", lambda: 10 << 30)
    gpu = metal.gpu()
    assert (gpu.name, gpu.working_set, gpu.registry_id) == ("Apple M1", 10 << 30, None)
    assert gpu.uuid == hostfacts.device_uuid(0)


def test_without_pyobjc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Metal", None)
    gpu = metal.gpu()
    assert gpu.name == hostfacts.processor_name() and gpu.cores >= 1 and gpu.unified_memory
    assert gpu.working_set and gpu.threadgroup_memory == 32768


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None, IOREG)
    assert metal.gpu().name == hostfacts.processor_name()
