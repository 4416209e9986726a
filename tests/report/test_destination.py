"""The destination of a report: an unusable path is an error at the start, and no other file is left there."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import CPU, STOCK, in_child, run_forked
from harness.processes import clean_environment

from torchdevice_cuda.report import destination
from torchdevice_cuda.settings import BY_FIELD, Settings, SettingsError, load

from .reading import reports

PROGRAM = "import torch; torch.zeros(1, device='cuda'); print('ran')"


def missing(folder: Path) -> Path:
    return folder / "no" / "report.txt"


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "report.txt"


def folder_itself(folder: Path) -> Path:
    return folder


def unread(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def dangling(folder: Path) -> Path:
    (folder / "link").symlink_to(folder / "no" / "report.txt")
    return folder / "link"


UNUSABLE: dict[Callable[[Path], Path], str] = {
    missing: "No such file or directory",
    below_a_file: "Not a directory",
    folder_itself: "Is a directory",
    unread: "nobody reads this pipe",
    dangling: "No such file or directory",
}


def why_not(path: str) -> str:
    """Return the error for a path; empty if it is usable."""
    try:
        destination.check(load({"report": path}, {}))
    except SettingsError as error:
        return str(error)
    finally:
        destination.release(path)
    return ""


@pytest.mark.parametrize("made", UNUSABLE, ids=lambda made: made.__name__)
def test_an_unusable_place_is_an_error(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    path = str(made(tmp_path))
    before = reports(tmp_path)
    allowed = BY_FIELD["report"].allowed
    said = f"--report (TORCHDEVICE_REPORT)={path!r} cannot be written: {UNUSABLE[made]}; allowed: {allowed}"
    assert why_not(path) == said
    assert reports(tmp_path) == before


def without_rights(path: str) -> str:
    os.seteuid(65534)
    return why_not(path)


def without_room(path: str) -> str:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        return why_not(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert "there is no standard error" in why_not("-")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_no_permission(tmp_path: Path) -> None:
    assert "Permission denied" in in_child(without_rights, STOCK, str(tmp_path / "report.txt"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_read_only(tmp_path: Path, what: str) -> None:
    file = tmp_path / "report.txt"
    if what == "file":
        file.touch()
    (tmp_path if what == "folder" else file).chmod(0o500)
    assert "Permission denied" in why_not(str(file))


def test_no_room(tmp_path: Path) -> None:
    assert "No space left on device" in in_child(without_room, STOCK, str(tmp_path / "report.txt"))
    assert reports(tmp_path) == []


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    assert why_not(str(tmp_path / "report.txt")) == ""
    assert reports(tmp_path) == []


@pytest.mark.parametrize("name", ["", " ", "no/report.txt"])
def test_the_command_line_says_so_before_the_program_runs(tmp_path: Path, name: str) -> None:
    done = run_forked(
        "-m", "torchdevice_cuda", "--driver", "cpu", "--report", name, "-c", PROGRAM, folder=tmp_path, check=False
    )
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "--report" in done.err


def activated(path: str) -> str:
    import torchdevice_cuda

    with pytest.raises(SettingsError) as error:
        torchdevice_cuda.activate(driver="cpu", report=path)
    assert not torchdevice_cuda.is_active()
    return str(error.value)


def test_activation_says_so(tmp_path: Path) -> None:
    assert "cannot be written" in in_child(activated, STOCK, str(tmp_path / "no" / "report.txt"))


# ------------------------------------------------------------------------------------ writing
def test_a_report_appears_whole(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text("an older one")
    file.chmod(0o640)
    with file.open() as older:
        destination.write(str(file), "new")
        assert older.read() == "an older one"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert reports(tmp_path) == ["report.txt"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    destination.write(str(tmp_path / "link"), "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_a_pipe_with_a_reader(tmp_path: Path) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    named = str(fifo)
    while True:  # until the reader has opened it
        try:
            destination.check(Settings(report=named))
        except SettingsError:
            continue
        break
    destination.write(named, "x" * 200_000)
    destination.release(named)
    reader.join(10)
    assert read == ["x" * 200_000]


def test_a_reader_that_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "_PATIENCE", 0.1)
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="nobody reads it"):
        destination.write(fifo, "x" * 2_000_000)
    destination.release(fifo)
    os.close(reader)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_standard_output_keeps_what_the_program_wrote(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "cpu", "--report", "/dev/stdout", "-c", PROGRAM]
    if kind == "pipe":
        text = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=True).stdout
    else:
        with (tmp_path / "out").open("w") as out:
            subprocess.run(command, env=clean_environment(), stdout=out, check=True)
        text = (tmp_path / "out").read_text()
    assert "ran\n" in text
    assert "Device requests on the cpu driver: 1\n" in text


def go_elsewhere() -> None:
    import torch

    os.chdir("/")
    torch.zeros(1, device="cuda")


def test_the_path_is_printed_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    done = run_forked("-m", "torchdevice_cuda", "--driver", "cpu", "--report", file, "-c", PROGRAM)
    assert done.err.splitlines()[-1] == f"torchdevice_cuda: the report is in {str(file)!r}"
    assert done.out == "ran\n"


def test_a_relative_path_is_seen_from_the_start(tmp_path: Path) -> None:
    relative = os.path.relpath(tmp_path / "report.txt")
    in_child(go_elsewhere, CPU.with_settings(report=relative))
    assert reports(tmp_path) == ["report.txt"]


@pytest.mark.parametrize("program", ["import os; os.close(2)", "import sys; sys.stderr.close()"])
def test_standard_error_closed_meanwhile(program: str) -> None:
    done = run_forked("-m", "torchdevice_cuda", "--driver", "cpu", "--report", "-", "-c", f"import torch; {program}")
    assert (done.status, done.out) == (0, "")
