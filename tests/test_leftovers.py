"""Files of processes that were killed: the next process removes them, and leaves those of processes that live."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import CPU, VIRTUAL, ChildConfig, clean_environment, in_child, run_forked
from harness.processes import ROOT

from torchdevice_cuda import leftovers, monitoring

OLD = time.time() - 2 * leftovers.SETTLED_S
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others, and namespaces")
#: Locks a file, or a folder, as processes of ours do; then waits to be killed.
HOLDER = """
import os, sys
sys.path.insert(0, {root!r})
from torchdevice_cuda import leftovers
leftovers.hold(os.open({path!r}, os.O_RDONLY))
{more}
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holder(path: Path, more: str = "", within: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    code = HOLDER.format(root=str(ROOT), path=str(path), more=more)
    words = [*within, sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "held\n":
                pytest.skip(f"{within} cannot be had here")
            yield process
        finally:
            process.kill()


def make(path: Path, moment: float = OLD) -> Path:
    path.write_bytes(b"x")
    os.utime(path, (moment, moment))
    return path


def test_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    path = make(tmp_path / "a.part")
    with holder(path) as process:
        leftovers.remove(tmp_path, suffix=".part")
        assert path.exists()
        process.kill()
        process.wait()
        leftovers.remove(tmp_path, suffix=".part")
        assert not path.exists()


def test_folders_too(tmp_path: Path) -> None:
    folder = tmp_path / "scratch-1"
    folder.mkdir()
    make(folder / "object.o")
    os.utime(folder, (OLD, OLD))
    with holder(folder) as process:
        leftovers.remove(tmp_path, "scratch-")
        assert folder.exists()
        process.kill()
        process.wait()
    leftovers.remove(tmp_path, "scratch-")
    assert not folder.exists()


def test_reading_ones_own_file_keeps_the_lock(tmp_path: Path) -> None:
    """POSIX locks would not survive: the process closes a descriptor of the file."""
    path = make(tmp_path / "a")
    with holder(path, f"open({str(path)!r}).close()"):
        leftovers.remove(tmp_path)
        assert path.exists()


def test_a_fork_keeps_the_file_of_a_killed_parent(tmp_path: Path) -> None:
    path = make(tmp_path / "a")
    read, write = os.pipe()
    waiting = f"os.read(os.open('/proc/{os.getpid()}/fd/{read}', 0), 1)"
    forking = f"if not os.fork():\n    {waiting}\n    os._exit(0)"
    with holder(path, forking) as process:
        process.kill()
        process.wait()
        leftovers.remove(tmp_path)
        assert path.exists()
        os.write(write, b"x")
        end = time.monotonic() + 20
        while path.exists() and time.monotonic() < end:
            leftovers.remove(tmp_path)
            time.sleep(0.02)
        assert not path.exists()
    os.close(read)
    os.close(write)


def test_a_mapped_file_stays_locked_when_closed(tmp_path: Path) -> None:
    path = make(tmp_path / "a")
    with path.open("r+b") as file:
        leftovers.hold(file.fileno())
        mapped = mmap.mmap(file.fileno(), 1)
    leftovers.remove(tmp_path, age_s=0)
    assert path.exists()
    mapped.close()
    leftovers.remove(tmp_path, age_s=0)
    assert not path.exists()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    young = make(tmp_path / "x-young", time.time())
    other = make(tmp_path / "y-other")
    alive = make(tmp_path / "x-alive")
    outside = make(tmp_path / "outside")
    (tmp_path / "x-link").symlink_to(outside)
    os.mkfifo(tmp_path / "x-fifo")
    started = time.monotonic()
    leftovers.remove(tmp_path, "x-", is_alive=lambda name: name == "x-alive")
    assert time.monotonic() - started < 5
    assert young.exists() and other.exists() and alive.exists() and outside.exists()
    assert (tmp_path / "x-link").is_symlink()
    leftovers.remove(tmp_path / "missing")


@AS_ROOT
def test_files_of_other_users_are_left_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "a")
    os.chown(path, 12345, 12345)
    leftovers.remove(tmp_path)
    assert path.exists()


@AS_ROOT
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_processes_of_other_containers_are_seen_to_live(tmp_path: Path) -> None:
    """Their numbers mean nothing here."""
    path = make(tmp_path / "a")
    with holder(path, within=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")) as process:
        leftovers.remove(tmp_path)
        assert path.exists()
        process.kill()
        process.wait()
        end = time.monotonic() + 20
        while path.exists() and time.monotonic() < end:  # what it started ends with it, a little later
            leftovers.remove(tmp_path)
            time.sleep(0.02)
        assert not path.exists()


def test_temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "torchdevice-test-left"
    left.mkdir()
    os.utime(left, (OLD, OLD))
    with leftovers.scratch("torchdevice-test-") as (first, _), leftovers.scratch("torchdevice-test-") as (second, _):
        os.utime(first, (OLD, OLD))
        leftovers.remove(tmp_path, "torchdevice-test-")
        assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------- files of the product
USES = "import torch; x = torch.ones(4, device='cuda')"
DIES = f"{USES}; import os; os.kill(os.getpid(), 9)"


@pytest.mark.parametrize("where", [CPU, pytest.param(VIRTUAL, marks=VIRTUAL.marks)], ids=str)
def test_the_next_process_removes_what_a_killed_one_published(where: ChildConfig, tmp_path: Path) -> None:
    here = {"TORCHDEVICE_RUNTIME_DIR": str(tmp_path)}
    options = ("-m", "torchdevice_cuda", "--driver", where.settings["driver"])
    run_forked(*options, "-c", DIES, environment=here, check=False)
    (left,) = tmp_path.iterdir()
    for number in range(100):
        # As many as were found once. Their process is this one, by number, and it is alive.
        (tmp_path / f"{os.getpid()}-{number}-00000000.gpu").write_bytes(left.read_bytes())
    make(tmp_path / ".1-2-3.part")
    make(tmp_path / ".4-5-6.part", time.time())
    run_forked(*options, "-c", USES, environment=here)
    assert [path.name for path in tmp_path.iterdir()] == [".4-5-6.part"]


def publish_and_look() -> list[object]:
    import torch

    held = torch.ones(4, device="cuda")
    before = os.listdir(os.environ["TORCHDEVICE_RUNTIME_DIR"])
    program = ("-m", "torchdevice_cuda", "--driver", "cpu", "-c", USES)
    subprocess.run([sys.executable, *program], check=True, env=clean_environment(**_runtime()))
    del held
    return [before, os.listdir(os.environ["TORCHDEVICE_RUNTIME_DIR"])]


def _runtime() -> dict[str, str]:
    return {"TORCHDEVICE_RUNTIME_DIR": os.environ["TORCHDEVICE_RUNTIME_DIR"]}


@pytest.mark.parametrize("where", [CPU, pytest.param(VIRTUAL, marks=VIRTUAL.marks)], ids=str)
def test_the_file_of_a_living_process_stays(where: ChildConfig, tmp_path: Path) -> None:
    before, after = in_child(publish_and_look, where.within(TORCHDEVICE_RUNTIME_DIR=str(tmp_path)))
    assert len(before) == 1
    assert after == before


def test_readers_leave_the_files_of_other_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their processes are not shown, and are not taken for dead."""
    monkeypatch.setenv("TORCHDEVICE_RUNTIME_DIR", str(tmp_path))
    about = {"version": 1, "pid": 2**22 + 1, "started": "1", "driver": "cpu", "command": "python", "devices": []}
    path = tmp_path / f"{2**22 + 1}-1-0.gpu"
    path.write_bytes(bytes(4096) + json.dumps({**about, "resident_since": None}).encode())
    with holder(path):
        assert monitoring.processes() == []
        assert path.exists()
    assert monitoring.processes() == []
    assert not path.exists()


FIRST = """
import os, subprocess, sys, torch
torch.ones(1, device="cuda")
subprocess.run([sys.executable, "-c", "import torch; torch.ones(2, device='cuda')"], check=True)
os.kill(os.getpid(), 9)
"""


def test_parts_of_a_killed_report_are_removed(tmp_path: Path) -> None:
    options = ("-m", "torchdevice_cuda", "--driver", "cpu", "--report", str(tmp_path / "report.json"))
    folder = tmp_path / "tmp"
    folder.mkdir()
    here = {"TMPDIR": str(folder)}
    run_forked(*options, "-c", FIRST, environment=here, check=False)
    (left,) = folder.glob("torchdevice-report-*")
    parts = left.name.split("-")
    elsewhere = left.with_name("-".join([*parts[:4], "1", "0"]))  # a process of another container: nothing is known
    elsewhere.mkdir()
    alive = left.with_name(
        "-".join(["torchdevice-report", str(os.getpid()), str(leftovers.identity(os.getpid())), *parts[4:]])
    )
    alive.mkdir()
    for each in (left, elsewhere, alive):
        os.utime(each, (OLD, OLD))
    half = make(tmp_path / ".torchdevice-report-1-0.part")
    run_forked(*options, "-c", USES, environment=here)
    assert sorted(folder.glob("torchdevice-report-*")) == sorted([elsewhere, alive])
    assert not half.exists()


def test_memory_of_ranks_that_were_killed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the file of a rank that was killed while it waited; once all ranks have joined, the file is unlinked."""
    from torchdevice_cuda.distributed import agreement
    from torchdevice_cuda.settings import folders

    class Owner:
        pass

    monkeypatch.setattr(folders, "memory_dir", lambda: tmp_path)
    left = make(tmp_path / "torchdevice_cuda-0")
    owner = Owner()
    memory, name = agreement._made(64, owner)
    os.utime(tmp_path / name, (OLD, OLD))
    _, other = agreement._made(64, owner)
    assert memory is not None
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, other])
    del owner
    assert not list(tmp_path.iterdir())


def test_libraries_of_kernels_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchdevice_cuda.cuda_cpp import compiled

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    make(tmp_path / "torchdevice-kernels-0.so")
    assert compiled.Runtime().cuModuleLoadData(None, b"no library") == 209
    assert not list(tmp_path.iterdir())


def test_a_publication_that_is_withdrawn_keeps_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchdevice_cuda.monitoring import publishing

    monkeypatch.setenv("TORCHDEVICE_RUNTIME_DIR", str(tmp_path))
    opened = []
    for size in range(5):
        published = publishing.publish("cpu", [])
        assert published is not None
        published.hold(0, size)
        published.withdraw()
        published.withdraw()
        published.hold(0, size)  # the compiled device may store there once more
        opened.append(len(os.listdir("/dev/fd")))
    assert len(set(opened)) == 1, opened
