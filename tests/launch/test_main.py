"""The command line runs a program as plain python does: what it finds, and what depends on ``__main__``."""

from __future__ import annotations

import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from harness import clean_environment, run

from .running import OURS, PROGRAMS, alike, copy, python, write

SHOW = (PROGRAMS / "show.py").read_text()


@pytest.fixture
def show(tmp_path: Path) -> Path:
    """Return a folder with the program in every form python takes."""
    write(tmp_path / "show.py", SHOW)
    write(tmp_path / "package/__main__.py", SHOW)
    write(tmp_path / "package/__init__.py", "")
    write(tmp_path / "package/sub.py", SHOW)
    write(tmp_path / "folder/__main__.py", SHOW)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    py_compile.compile(str(tmp_path / "show.py"), str(tmp_path / "compiled.pyc"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link.py").symlink_to(tmp_path / "show.py")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["show.py"],
        ["show.py", "-m", "x", "--help", "--driver", "gpu", "--", "-"],
        ["./show.py", "a b"],
        ["package/../show.py"],
        ["elsewhere/link.py"],
        ["compiled.pyc"],
        ["-m", "show", "--info"],
        ["-mshow"],
        ["-m", "package"],
        ["-m", "package.sub", "-c"],
        ["folder", "x"],
        ["archive.zip", "x"],
        ["-c", SHOW, "--version", "-"],
        ["-", "x", "-m"],
        [],
        ["--", "show.py", "--devices"],
    ],
    ids=lambda words: " ".join(words)[:30] or "stdin",
)
def test_main_argv_and_path(show: Path, words: list[str]) -> None:
    ended = alike(*words, folder=show, text=SHOW, options=["--devices", "2"])
    assert ended.status == 0
    assert "True __main__" in ended.out


def test_absolute_script(show: Path) -> None:
    assert alike(str(show / "show.py"), folder=show / "elsewhere").status == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is of 3.11")
@pytest.mark.parametrize("words", [["show.py"], ["-c", SHOW], ["folder"]], ids=["file", "-c", "folder"])
def test_safe_path(show: Path, words: list[str]) -> None:
    assert alike(*words, folder=show, flags=["-P"]).status == 0


@pytest.mark.parametrize(
    "words",
    [["show.py", "x"], ["-m", "show"], ["-c", SHOW], ["broken.py"], ["-m", "broken"]],
    ids=["file", "-m", "-c", "error", "error of -m"],
)
def test_installed_command(show: Path, words: list[str]) -> None:
    """The launcher that pip writes for the ``torchdevice-cuda`` command."""
    write(show / "bin/launcher", "import sys; from torchdevice_cuda.launch.cli import main; sys.exit(main())")
    write(show / "broken.py", "1 / 0")
    assert python("bin/launcher", *words, folder=show) == python(*words, folder=show)


def test_modules_of_the_current_directory_are_not_ours(tmp_path: Path) -> None:
    used = ["activation", "code", "dataclasses", "inspect", "logging", "settings", "textwrap", "threading", "uuid"]
    for name in used:
        write(tmp_path / f"{name}.py", "raise ImportError('of the current directory')")
    write(tmp_path / "elsewhere/program.py", "import logging; print(logging.__file__)")
    assert alike("elsewhere/program.py", folder=tmp_path).status == 0


def test_nested(show: Path) -> None:
    assert python(*OURS, *OURS, "show.py", "x", folder=show) == python("show.py", "x", folder=show)


def test_no_torch_is_imported_for_the_program(tmp_path: Path) -> None:
    code = (
        "import sys, torchdevice_cuda as t; print([m for m in ('torch', 'psutil') if m in sys.modules], t.is_active())"
    )
    ended = python(*OURS, "-c", code, folder=tmp_path)
    assert (ended.status, ended.out, ended.err) == (0, "[] True\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ["missing.py"],
        ["./a/missing.py", "x"],
        ["empty"],
        ["-m", "no_such_module"],
        ["-m", "json.no_such"],
        ["-m", "empty"],
    ],
    ids=" ".join,
)
def test_no_such_program(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    ended = alike(*words, folder=tmp_path)
    assert ended.status in (1, 2)
    assert ended.err


@pytest.mark.parametrize(
    "source, printed",
    [
        (b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n", "'\\xe9'\n"),
        (b"\xef\xbb\xbfprint('marked')\r\nprint(2)", "marked\n2\n"),
    ],
    ids=["latin-1", "byte order mark"],
)
def test_encodings(tmp_path: Path, source: bytes, printed: str) -> None:
    (tmp_path / "program.py").write_bytes(source)
    assert alike("program.py", folder=tmp_path).out == printed


# ----------------------------------------------------------------- what depends on __main__
def test_pickle_dataclass_and_source(tmp_path: Path) -> None:
    assert alike(copy("source.py", tmp_path), folder=tmp_path).status == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    assert alike(copy("pool.py", tmp_path), method, folder=tmp_path).status == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_of_a_module(tmp_path: Path, method: str) -> None:
    write(tmp_path / "package/__init__.py", "")
    copy("pool.py", tmp_path / "package")
    assert alike("-m", "package.pool", method, folder=tmp_path).status == 0


@pytest.mark.slow
def test_env_lists_the_gpus_of_its_settings(tmp_path: Path) -> None:
    """``nvidia-smi`` lists those of other processes, too."""
    running = "import torch; torch.ones(1).cuda(); print(flush=True); input()"
    environment = clean_environment(TORCHDEVICE_RUNTIME_DIR=str(tmp_path))
    words = [sys.executable, *OURS, "--driver", "cpu", "--devices", "3", "-c", running]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None and other.stdout.readline() == b"\n"
        asked = [sys.executable, *OURS, "--driver", "cpu", "--devices", "2"]
        listed = run([*asked, "nvidia-smi", "-L"], environment=environment).out
        collected = run([*asked, "env"], environment=environment).out
        other.communicate(b"\n")
    assert listed.count("GPU-") == 3 and "Is CUDA available: True" in collected, (listed, collected)
    assert "GPU models and configuration: \nGPU 0: " in collected and "\nGPU 1: " in collected, collected
    assert "\nGPU 2: " not in collected, collected


def test_an_installed_command_runs() -> None:
    done = python(*OURS, "--driver", "cpu", "pytest", "--version")
    assert done.status == 0 and "pytest " in done.out + done.err
    missing = python(*OURS, "--driver", "cpu", "bash")
    assert missing.status == 2 and "can't open file" in missing.err, "a command that is not Python's"


def test_a_file_comes_before_a_command(tmp_path: Path) -> None:
    write(tmp_path / "pytest", "import torch; print('mine', torch.cuda.device_count())")
    assert python(*OURS, "--driver", "cpu", "--devices", "2", "pytest", folder=tmp_path).out == "mine 2\n"
