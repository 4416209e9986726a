"""What the machine gives a process, and what a virtual GPU claims of it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch
from harness import VIRTUAL, child

from torchdevice_cuda.drivers.host import machine

MIB, GIB = 1 << 20, 1 << 30


def _written(folder: Path, files: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")


def test_groups_of_the_second_version(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "self"
    own.write_text("0::/work/job\n")
    _written(root / "work", {"memory.max": GIB, "memory.current": 5})
    _written(root / "work/job", {"memory.max": "max", "memory.current": 3})
    assert machine.groups(own, root) == [
        machine.Group(GIB, str(root / "work/memory.current"), str(root / "work/memory.stat"))
    ]


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "self"
    own.write_text("7:cpu,cpuacct:/a\n4:hugetlb,memory:/of/the/host\n0::/\n")
    # A container sees its own group as the root, under a path that is not there.
    _written(root / "memory", {"memory.limit_in_bytes": 2 * GIB, "memory.usage_in_bytes": GIB})
    assert [group.limit for group in machine.groups(own, root)] == [2 * GIB]
    _written(root / "memory", {"memory.limit_in_bytes": 2**63 - 4096})
    assert machine.groups(own, root) == []


def test_a_system_without_groups(tmp_path: Path) -> None:
    assert machine.groups(tmp_path / "self", tmp_path) == []


@pytest.mark.parametrize("devices", [1, 3])
def test_the_claim_leaves_room(monkeypatch: pytest.MonkeyPatch, devices: int) -> None:
    machine.share.cache_clear()
    monkeypatch.setattr(machine, "limit", lambda: 24 * GIB)
    monkeypatch.setattr(machine, "available", lambda: 23 * GIB)
    whole = machine.share(devices)
    assert 0.7 * 24 * GIB < whole * devices <= 0.75 * 24 * GIB
    monkeypatch.setattr(machine, "available", lambda: 10 * GIB)
    assert machine.share(devices) == whole  # a process that activates again gets the same
    machine.share.cache_clear()
    assert machine.share(devices) * devices <= 9 * GIB
    machine.share.cache_clear()


@child(VIRTUAL)
def test_the_default_gpu_is_smaller_than_the_machine() -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    assert 64 * MIB <= total <= 0.75 * psutil.virtual_memory().total
