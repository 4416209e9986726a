"""Properties of the processor: the system's figures against other tools' readings, and systems without figures."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from torchdevice_cuda.drivers.host import facts


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    def forget() -> None:
        for each in (facts.processor_name, facts.clock_khz, facts.last_level_cache):
            each.cache_clear()

    forget()
    yield
    forget()


def written(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Have ``/proc/cpuinfo`` say this, or not be there."""

    def read_text(path: Path, **_: Any) -> str:
        assert str(path) == "/proc/cpuinfo"
        if text is None:
            raise OSError
        return text

    monkeypatch.setattr(facts.Path, "read_text", read_text)


# --------------------------------------------------------------------------------- name
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_the_name_is_the_systems() -> None:
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line]
    found = facts.processor_name()
    assert found in names or found in (platform.processor(), platform.machine())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor : 0\nmodel name : Xeon: the best \nmodel name : other\n", "Xeon: the best"),
        ("processor : 0\nHardware\t: BCM2835\n", "BCM2835"),
    ],
)
def test_names_in_the_systems_list(monkeypatch: pytest.MonkeyPatch, text: str, name: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    written(monkeypatch, text)
    assert facts.processor_name() == name


@pytest.mark.parametrize("text", ["processor : 0\n", None])
@pytest.mark.parametrize(
    ("processor", "machine", "name"), [("p", "m", "p"), ("", "m", "m"), ("", "", "CPU")], ids=["p", "m", "none"]
)
def test_a_name_that_the_system_does_not_say(
    monkeypatch: pytest.MonkeyPatch, text: str | None, processor: str, machine: str, name: str
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    written(monkeypatch, text)
    monkeypatch.setattr(facts.platform, "processor", lambda: processor)
    monkeypatch.setattr(facts.platform, "machine", lambda: machine)
    assert facts.processor_name() == name


def test_the_name_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(command: list[str], **options: Any) -> Any:
        asked.append((command, options))
        return SimpleNamespace(stdout="Apple M3 Max\n")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(facts.subprocess, "run", run)
    assert facts.processor_name() == "Apple M3 Max"
    (command, options), *_ = asked
    assert command == ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    # What it says is looked at, an error of its is one, and nothing waits for ever.
    assert (options["capture_output"], options["text"], options["check"]) == (True, True, True)
    assert 1 <= options["timeout"] <= 10


@pytest.mark.parametrize("error", [OSError(), subprocess.TimeoutExpired("sysctl", 5), None])
def test_a_mac_that_does_not_say(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    def run(command: list[str], **options: Any) -> Any:
        if error is not None:
            raise error
        return SimpleNamespace(stdout="\n")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(facts.subprocess, "run", run)
    monkeypatch.setattr(facts.platform, "processor", lambda: "arm")
    assert facts.processor_name() == "arm"


# -------------------------------------------------------------------------------- clock
@pytest.mark.parametrize(
    ("frequency", "khz"),
    [
        (SimpleNamespace(current=2400.5, max=3100.0), 3_100_000),
        (SimpleNamespace(current=2400.5, max=0.0), 2_400_500),
        (SimpleNamespace(current=0.0, max=0.0), 1_000_000),
        (None, 1_000_000),
    ],
)
def test_the_clock(monkeypatch: pytest.MonkeyPatch, frequency: Any, khz: int) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", lambda: frequency)
    assert facts.clock_khz() == khz


@pytest.mark.parametrize("error", [AttributeError, NotImplementedError, OSError, RuntimeError])
def test_a_clock_that_is_not_told(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr(psutil, "cpu_freq", refuse)
    assert facts.clock_khz() == 1_000_000


# -------------------------------------------------------------------------------- cores
def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts.cores() == len(psutil.Process().cpu_affinity())
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 9} if pid == 0 else set())
    assert facts.cores() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set())
    assert facts.cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert facts.cores() == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert facts.cores() == 1


# -------------------------------------------------------------------------------- cache
@pytest.mark.parametrize(
    ("sizes", "largest"),
    [(["48K", "32K", "2048K", "107520K"], 107520 << 10), (["512K", "x", "2M", "K", None], 512 << 10), ([], 0)],
)
def test_the_largest_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sizes: list[str | None], largest: int
) -> None:
    for index, size in enumerate(sizes):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        if size is None:
            (folder / "size").mkdir()  # cannot be read
        else:
            (folder / "size").write_text(f"{size}\n")

    def place(name: str) -> Path:
        assert name == "/sys/devices/system/cpu/cpu0/cache"
        return tmp_path

    monkeypatch.setattr(facts, "Path", place)
    assert facts.last_level_cache() == largest


# -------------------------------------------------------------------------- temperature
def test_the_hottest_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {"a": [SimpleNamespace(current=41.2), SimpleNamespace(current=55.6)], "b": [SimpleNamespace(current=50)]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: readings, raising=False)
    assert facts.temperature() == 56
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: {"a": []}, raising=False)
    assert facts.temperature() is None

    def refuse() -> None:
        raise OSError

    monkeypatch.setattr(psutil, "sensors_temperatures", refuse, raising=False)
    assert facts.temperature() is None
    monkeypatch.delattr(psutil, "sensors_temperatures")
    assert facts.temperature() is None


# --------------------------------------------------------------------------------- uuid
def test_a_device_has_the_same_name_in_every_process() -> None:
    code = "from torchdevice_cuda.drivers.host.facts import device_uuid; print(device_uuid(0), device_uuid(1))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert shown == [str(facts.device_uuid(0)), str(facts.device_uuid(1))]
    assert shown[0] != shown[1]


def test_a_device_of_another_machine_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = facts.device_uuid(0)
    monkeypatch.setattr(facts.platform, "node", lambda: "elsewhere")
    assert facts.device_uuid(0) != here
