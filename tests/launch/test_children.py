"""Processes that a program starts inherit what the command line was told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness import Finished, run
from harness.processes import ROOT

from torchdevice_cuda import settings

from .running import OURS, copy, environment, make_environment, our_packages, python, write

PACKAGE = ROOT / "torchdevice_cuda"
FINDER_AND_SETTINGS = (
    "import sys; from torchdevice_cuda import settings; print(type(sys.meta_path[0]).__name__, settings.load())"
)


def run_with_child(folder: Path, child: str, *options: str, **changes: str) -> Finished:
    """Run a program with the options, which runs ``child`` with -c."""
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    return python(*OURS, *options, "-c", program, folder=folder, env={**environment(), **changes})


def test_children_inherit(tmp_path: Path) -> None:
    options = ("--devices", "3", "--memory", "1GiB", "--capability=8.6")
    ended = run_with_child(tmp_path, FINDER_AND_SETTINGS, *options, TORCHDEVICE_NAME="N")
    expected = settings.Settings(devices=3, memory=2**30, capability=(8, 6), name="N")
    assert ended == Finished(0, f"TorchWatch {expected}\n", "")


def test_command_line_default_wins_in_children_too(tmp_path: Path) -> None:
    ended = run_with_child(tmp_path, FINDER_AND_SETTINGS, "--devices", "1", TORCHDEVICE_DEVICES="4")
    assert ended == Finished(0, f"TorchWatch {settings.Settings()}\n", "")


def test_grandchildren_get_one_path_entry(tmp_path: Path) -> None:
    inner = "import os; print(os.environ['PYTHONPATH'].split(os.pathsep))"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-m', 'torchdevice_cuda', '-c', {inner!r}])"
    assert run_with_child(tmp_path, nested).out == f"{[str(PACKAGE / 'children'), str(ROOT)]}\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing_children_inherit(tmp_path: Path, method: str) -> None:
    assert python(*OURS, copy("process.py", tmp_path), method, folder=tmp_path).out == "True\n"


def test_hidden_sitecustomize_still_runs(tmp_path: Path) -> None:
    write(tmp_path / "site/sitecustomize.py", "mark = 'theirs'")
    child = "import sitecustomize, sys; print(sitecustomize.mark, type(sys.meta_path[0]).__name__)"
    path = os.pathsep.join([str(ROOT), str(tmp_path / "site")])
    assert run_with_child(tmp_path, child, PYTHONPATH=path) == Finished(0, "theirs TorchWatch\n", "")


def test_installed_shim_is_not_doubled(tmp_path: Path) -> None:
    program = "import os; print(os.environ['PYTHONPATH'], os.environ['TORCHDEVICE_AUTO'])"
    ended = python(*OURS, "-c", program, folder=tmp_path, env=environment([ROOT, ROOT / "shim"]))
    assert ended == Finished(0, f"{os.pathsep.join([str(ROOT), str(ROOT / 'shim')])} 1\n", "")


def test_children_of_a_checkout_in_the_current_directory(tmp_path: Path) -> None:
    """The package is found only as the current directory's: children need to be told where it is.

    In an environment of its own, since this one may have the package installed.
    """
    bare = make_environment(tmp_path / "bare", shim=False, see=our_packages())
    (tmp_path / "torchdevice_cuda").symlink_to(PACKAGE)
    child = "import torchdevice_cuda; print(torchdevice_cuda.__file__)"
    program = (
        f"import os, subprocess, sys; os.chdir('/'); subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    ended = run([str(bare), *OURS, "-c", program], folder=tmp_path, environment=environment(path=[]))
    assert (ended.status, ended.err) == (0, "")
    assert Path(ended.out.strip()).parent.resolve() == PACKAGE


def test_program_and_its_child_see_cuda(tmp_path: Path) -> None:
    look = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), flush=True)"
    program = f"{look}; import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}], check=True)"
    ended = python(*OURS, "--driver", "cpu", "--devices", "2", "-c", program, folder=tmp_path)
    assert ended == Finished(0, "True 2\nTrue 2\n", "")
