"""Files that are data: those of another user are not read, wherever torchdevice_cuda keeps some."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest
from harness import STOCK, child

from torchdevice_cuda.monitoring import publishing, readings
from torchdevice_cuda.report import family
from torchdevice_cuda.settings import folders

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
OTHER = 12345


def test_memory_published_by_another_user_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDEVICE_RUNTIME_DIR", str(tmp_path))
    published = publishing.publish("cpu", [])
    assert published is not None and [process.pid for process in readings.processes()] == [os.getpid()]
    (path,) = tmp_path.glob(f"{os.getpid()}-*.gpu")
    os.chown(path, OTHER, -1)
    assert readings.processes() == []
    published.withdraw()


@child(STOCK.when("after"), alone=True)
def test_measurements_of_another_user_are_ignored() -> None:
    from torchdevice_cuda.fallback import stored

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHDEVICE_CACHE_DIR"] = folder
        stored.save("learned.json", "key", 1)
        assert stored.load("learned.json", "key") == 1
        os.chown(f"{folder}/learned.json", OTHER, -1)
        assert stored.load("learned.json", "key") is None
        stored.save("learned.json", "key", 2)
        assert stored.load("learned.json", "key") == 2


def test_reports_of_another_users_child_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(family._FOLDER, raising=False)
    for owner in (os.geteuid(), OTHER):
        first = family.ProcessTree("report.json")
        (parts,) = os.environ[family._FOLDER].split("\t")[:1]
        os.mkdir(parts, 0o700)
        note = Path(parts, "1.begun")
        note.write_text('{"pid": 1, "command": "x"}')
        os.chown(note, owner, -1)
        first._collect(since=0.0)
        assert len(first._silent) == (owner == os.geteuid()) and not os.path.exists(parts)
        first.end()


@child(STOCK.when("after"), alone=True)
def test_memory_of_another_users_group() -> None:
    from torchdevice_cuda.distributed import agreement

    with tempfile.TemporaryDirectory() as folder:
        folders.memory_dir = lambda: Path(folder)
        name, link = (f"torchdevice_cuda-{digit * 32}" for digit in "01")
        Path(folder, name).write_bytes(bytes(64))
        Path(folder, link).symlink_to(Path(folder, name))
        assert agreement._opened(name, 64) is not None
        assert agreement._opened(link, 64) is None
        os.chown(Path(folder, name), OTHER, -1)
        assert agreement._opened(name, 64) is None


def test_the_cache_is_not_in_another_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under sudo -E, and in containers of CI services."""
    for name in ("TORCHDEVICE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache_dir().is_relative_to(tmp_path)
    os.chown(tmp_path, OTHER, OTHER)
    assert folders.cache_dir().is_relative_to(pwd.getpwuid(os.geteuid()).pw_dir)
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path))
    assert folders.cache_dir() == tmp_path
