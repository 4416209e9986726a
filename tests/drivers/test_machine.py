"""The memory of the machine that a process may use, and a virtual GPU's share of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


def _machine(monkeypatch: pytest.MonkeyPatch, total: int, available: int, groups: list[machine.Group]) -> None:
    monkeypatch.setattr(machine, "_memory", lambda: SimpleNamespace(total=total, available=available))
    monkeypatch.setattr(machine, "groups", lambda: groups)


def test_the_least_of_all_limits_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _machine(monkeypatch, 8 * GIB, 5 * GIB, [])
    assert (machine.limit(), machine.available()) == (8 * GIB, 5 * GIB)
    _written(tmp_path, {"used": GIB, "over": 4 * GIB})
    wide, narrow = (machine.Group(size * GIB, str(tmp_path / "used"), "") for size in (6, 3))
    _machine(monkeypatch, 8 * GIB, 5 * GIB, [wide, narrow])
    assert (machine.limit(), machine.available()) == (3 * GIB, 2 * GIB)
    _machine(monkeypatch, 8 * GIB, GIB, [wide])
    assert (machine.limit(), machine.available()) == (6 * GIB, GIB)
    full, unread = (machine.Group(3 * GIB, str(tmp_path / name), "") for name in ("over", "nothing"))
    _machine(monkeypatch, 8 * GIB, 5 * GIB, [full])
    assert machine.available() == 0
    _machine(monkeypatch, 8 * GIB, 5 * GIB, [unread])
    assert machine.available() == 5 * GIB, "what is used is not told"


def test_the_machine_is_as_psutil_sees_it() -> None:
    seen = psutil.virtual_memory()
    assert 0 < machine.limit() <= seen.total
    assert 0 < machine.available() <= machine.limit()


def test_a_limit_of_all_memory_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_memory", lambda: SimpleNamespace(total=GIB))
    root, own = tmp_path / "cgroup", tmp_path / "self"
    own.write_text("0::/job\n")
    for limit, found in ((GIB, []), (GIB - 1, [GIB - 1])):
        _written(root / "job", {"memory.max": limit})
        assert [group.limit for group in machine.groups(own, root)] == found


def test_no_file_above_the_groups_is_looked_at(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "self"
    own.write_text("0::/\n3:memory:/a\n")
    _written(tmp_path, {"memory.max": MIB})
    _written(root, {"memory.max": 2 * MIB, "memory.limit_in_bytes": 3 * MIB})
    _written(root / "memory", {"memory.limit_in_bytes": 4 * MIB})
    _written(root / "memory/a", {"memory.limit_in_bytes": 5 * MIB})
    assert machine.groups(own, root) == [
        machine.Group(2 * MIB, str(root / "memory.current"), str(root / "memory.stat")),
        machine.Group(5 * MIB, str(root / "memory/a/memory.usage_in_bytes"), str(root / "memory/a/memory.stat")),
        machine.Group(4 * MIB, str(root / "memory/memory.usage_in_bytes"), str(root / "memory/memory.stat")),
    ]


def test_control_groups_are_found() -> None:
    assert (str(machine._SELF), str(machine._ROOT)) == ("/proc/self/cgroup", "/sys/fs/cgroup")


def test_a_device_has_whole_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "limit", lambda: 4 * GIB)
    for left, devices, share in ((GIB, 1, 14 * 64 * MIB), (GIB, 2, 7 * 64 * MIB), (10 * MIB, 1, 64 * MIB)):
        machine.share.cache_clear()
        monkeypatch.setattr(machine, "available", lambda left=left: left)
        assert machine.share(devices) == share
    machine.share.cache_clear()
