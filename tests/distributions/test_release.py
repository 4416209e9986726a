"""The tool that makes a release: all that it builds is installed and tried, and what does not work ends it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness import run
from harness.processes import ROOT

import torchdevice_cuda

TOOL = [sys.executable, str(ROOT / "tools" / "release.py")]


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    done = run([*TOOL, str(tmp_path)])
    assert (done.status, done.err) == (2, f"release: {tmp_path} is not empty; name a new folder\n"), done


@pytest.mark.slow
def test_sources_and_wheels(tmp_path: Path) -> None:
    done = run([*TOOL, str(tmp_path / "dist"), "--without", "native", "--without", "site"], timeout=900)
    assert done.status == 0, done
    made = {path.name for path in (tmp_path / "dist").iterdir()}
    version = torchdevice_cuda.__version__
    assert made == {
        f"{name}-{version}{ending}"
        for name in ("torchdevice_cuda", "torchdevice_cuda_shim")
        for ending in (".tar.gz", "-py3-none-any.whl")
    }
    assert [line.split()[-1] for line in done.out.splitlines()[-4:]] == sorted(made)
