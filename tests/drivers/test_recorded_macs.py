"""What real Macs reply to the questions that the mps driver asks, fed through the branches for macOS.

The replies of sysctl and of Metal are from bug reports of their owners: an M1 with 16 GB, an M2 Max with 96 GB, an M4
with 16 GB and an M4 Pro with 24 GB. The releases of macOS are chosen.
"""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import torch

from torchdevice_cuda.drivers.host import facts as hostfacts
from torchdevice_cuda.drivers.mps import macos, metal
from torchdevice_cuda.drivers.mps.driver import MpsDriver, offer
from torchdevice_cuda.settings import Settings

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Mac:
    """The replies of one machine."""

    name: str
    memory: int  # hw.memsize
    l2_cache: int | None  # hw.perflevel0.l2cachesize; None: not known, or not to this macOS
    working_set: int | None  # MTLDevice.recommendedMaxWorkingSetSize; None: not known
    macos: str


MACS = {
    "M1": Mac("Apple M1", 17179869184, None, 11453246122, "12.1"),  # printed as 10922.67 MiB
    "M2 Max": Mac("Apple M2 Max", 96 << 30, None, 73728 * MIB, "13.5"),
    "M4": Mac("Apple M4", 17179869184, None, 11453246122, "15.2"),  # printed as 11453.25 MB
    "M4 Pro": Mac("Apple M4 Pro", 25769803776, 16777216, None, "15.4"),
}


@pytest.fixture(params=MACS.values(), ids=MACS)
def mac(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mac]:
    mac: Mac = request.param
    replies = {"machdep.cpu.brand_string": mac.name, "hw.perflevel0.l2cachesize": mac.l2_cache}

    def run(command: list[str], **options: Any) -> Any:
        reply = replies.get(command[-1]) if command[0] == "/usr/sbin/sysctl" else None
        if reply is None:
            raise subprocess.CalledProcessError(1, command)
        return types.SimpleNamespace(stdout=f"{reply}\n")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: (mac.macos, ("", "", ""), "arm64"))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(total=mac.memory))
    _forget()
    yield mac
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    metal.gpu.cache_clear()
    hostfacts.processor_name.cache_clear()


@pytest.fixture
def metals(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide pyobjc's module, with the names that the replies are known of."""
    if mac.working_set is None:
        pytest.skip("what Metal replies there is not known")
    module: Any = types.ModuleType("Metal")
    device = types.SimpleNamespace(
        name=lambda: mac.name,
        hasUnifiedMemory=lambda: True,
        recommendedMaxWorkingSetSize=lambda: mac.working_set,
        maxBufferLength=lambda: mac.memory // 2,
        currentAllocatedSize=lambda: 0,
    )
    module.MTLCreateSystemDefaultDevice = lambda: device
    monkeypatch.setitem(sys.modules, "Metal", module)


def _properties(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> Any:
    driver = MpsDriver(Settings(), "a test")
    monkeypatch.setattr(driver.memory, "_recommended", lambda: None)
    return driver.facts(0)


@pytest.mark.usefixtures("metals")
def test_properties(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _properties(mac, monkeypatch)
    assert found.name == f"{mac.name} (CUDA compatible)"
    assert found.total_memory == mac.working_set
    assert found.is_integrated == 1
    assert found.L2_cache_size == (mac.l2_cache or hostfacts.last_level_cache())


def test_properties_without_pyobjc(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's replies are enough: what Metal recommends follows from the memory."""
    monkeypatch.setitem(sys.modules, "Metal", None)
    monkeypatch.setattr(metal, "_torch_says", lambda name: None)
    found = _properties(mac, monkeypatch)
    assert found.name == f"{mac.name} (CUDA compatible)"
    assert found.total_memory == (mac.working_set or mac.memory * 2 // 3)


def test_it_is_one_that_torch_runs_on(mac: Mac) -> None:
    assert macos.is_apple_silicon() and not macos.is_intel_mac()
    assert macos.version() == tuple(map(int, mac.macos.split(".")))


def test_torch_213_is_refused_on_macos_before_14(mac: Mac) -> None:
    refused = macos.describe_too_old("2.13.0")
    if macos.version() >= (14, 0):  # type: ignore[operator]
        assert refused is None
        return
    assert refused is not None and f"this is macOS {mac.macos}" in refused
    built = types.SimpleNamespace(_has_mps=True, _mps_is_available=lambda: True)
    given = offer(Settings(), built)  # type: ignore[arg-type]
    assert given.make is None and torch.__version__.partition("+")[0] in given.reason
