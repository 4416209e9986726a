"""Every branch for macOS has a test, which runs on any machine."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness.processes import ROOT, TESTS

from torchdevice_cuda import settings
from torchdevice_cuda.doctor import examination, packages
from torchdevice_cuda.doctor.asking import Advised, NotHereError
from torchdevice_cuda.doctor.checks import installation, processes, start
from torchdevice_cuda.launch.scan import command
from torchdevice_cuda.monitoring import readings
from torchdevice_cuda.native import sealing

PACKAGE = ROOT / "torchdevice_cuda"
HERE = "test_mac_branches.py"
#: The test of each function that compares ``sys.platform`` with macOS's; of a module if it does so itself.
TESTED = {
    "doctor/checks/installation.py compiled_part": "doctor/test_installation.py test_a_mac_needs_no_virtual_gpu",
    "doctor/checks/installation.py metal": f"{HERE} test_metal_packages",
    "doctor/checks/installation.py mlx": f"{HERE} test_mlx_is_advised",
    "doctor/checks/processes.py workers_forked": f"{HERE} test_workers_are_forked_on_request",
    "doctor/checks/start.py properties": f"{HERE} test_a_mac_reports_its_cache",
    "doctor/examination.py _begin": f"{HERE} test_the_doctor_does_not_wait_for_a_build",
    "drivers/host/facts.py processor_name": "drivers/test_host_facts.py test_the_name_on_a_mac",
    "drivers/host/memory.py high_water_mark": (
        "drivers/test_host_memory.py test_other_systems_count_in_units_of_their_own"
    ),
    "drivers/mps/macos.py is_apple_silicon": "drivers/test_mps_driver.py test_why_the_gpu_of_a_mac_is_not_used",
    "drivers/mps/macos.py is_intel_mac": "drivers/test_mps_driver.py test_why_the_gpu_of_a_mac_is_not_used",
    "launch/scan/command.py chosen_driver": f"{HERE} test_a_scan_expects_the_mps_driver",
    "monitoring/readings.py _steady_ns": f"{HERE} test_a_mac_reads_the_clock_of_its_steady_clock",
    "native/sealing.py ": f"{HERE} test_digests_are_beside_libraries",
    "triton/absent.py advise": "launch/test_absent_triton.py test_on_a_mac",
}


def _branches(node: ast.AST, name: str = "") -> Iterator[str]:
    """Yield the name of the function around each comparison with "darwin"."""
    if isinstance(node, ast.Compare) and any(getattr(part, "value", None) == "darwin" for part in node.comparators):
        yield name
    for child in ast.iter_child_nodes(node):
        yield from _branches(child, node.name if isinstance(node, ast.FunctionDef) else name)


def test_each_branch_has_a_test() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()} {name}"
        for path in PACKAGE.rglob("*.py")
        for name in _branches(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == TESTED.keys()
    for test in TESTED.values():
        file, _, name = test.partition(" ")
        assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), test


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    return monkeypatch


def test_metal_packages(mac: pytest.MonkeyPatch) -> None:
    mac.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Advised) as caught:
        installation.metal()
    assert caught.value.advice == "pip install pyobjc-framework-Metal"
    mac.setattr(importlib.util, "find_spec", lambda name: object())
    mac.setattr(packages, "version", lambda name: "12.2")
    assert installation.metal() == "macOS 15.1, pyobjc 12.2"
    mac.setattr(sys, "platform", "linux")
    with pytest.raises(NotHereError, match="only a Mac has it"):
        installation.metal()


def test_mlx_is_advised(mac: pytest.MonkeyPatch) -> None:
    mac.setattr(packages, "version", lambda name: None)
    with pytest.raises(Advised) as caught:
        installation.mlx()
    assert caught.value.advice == "pip install mlx"
    mac.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(NotHereError):
        installation.mlx()


def test_workers_are_forked_on_request(mac: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    mac.setattr(processes, "_loaded", lambda *given: asked.append(given))
    processes.workers_forked()
    assert asked == [("fork", 1)]
    mac.setattr(sys, "platform", "linux")
    with pytest.raises(NotHereError):
        processes.workers_forked()


def test_a_mac_reports_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    found = SimpleNamespace(total_memory=1, multi_processor_count=1, L2_cache_size=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: found)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 0))
    assert start.properties()["L2_cache_size"] == 0
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Exception, match="the device has no L2_cache_size"):
        start.properties()


@pytest.mark.parametrize(("emulate", "may_build"), [(False, False), (True, True)])
def test_the_doctor_does_not_wait_for_a_build(
    mac: pytest.MonkeyPatch, tmp_path: Path, emulate: bool, may_build: bool
) -> None:
    limits: list[float | None] = []

    def process(check: Any, environment: Any, place: Path, limit: float | None) -> Any:
        limits.append(limit)
        return SimpleNamespace(result=None)

    mac.setattr(examination, "Process", process)
    mac.setattr(examination, "environment", lambda *given: {})
    chosen = settings.Settings(emulate_mps=emulate)
    doctor: Any = SimpleNamespace(_folder=tmp_path, _chosen=chosen, _overrides={}, results={})
    examination.Examination._begin(doctor, examination.START)
    assert (limits[0] is not None) == may_build


def test_a_scan_expects_the_mps_driver(mac: pytest.MonkeyPatch) -> None:
    assert command.chosen_driver(settings.Settings()) == "mps"
    assert command.chosen_driver(settings.Settings(driver="cpu")) == "cpu"
    mac.setattr(sys, "platform", "linux")
    assert command.chosen_driver(settings.Settings()) == "virtual"


def test_digests_are_beside_libraries(mac: pytest.MonkeyPatch) -> None:
    try:
        assert importlib.reload(sealing)._BESIDE  # tests/native/test_trust_beside.py has what follows from it
    finally:
        mac.undo()
        assert not importlib.reload(sealing)._BESIDE


def test_a_mac_reads_the_clock_of_its_steady_clock(mac: pytest.MonkeyPatch) -> None:
    mac.setattr(time, "clock_gettime_ns", lambda clock: clock)
    assert readings._steady_ns() == time.CLOCK_MONOTONIC_RAW
    mac.setattr(sys, "platform", "linux")
    assert readings._steady_ns() == time.CLOCK_MONOTONIC
