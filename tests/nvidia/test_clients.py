"""Monitors as people install them read the virtual GPU; needs the extra ``clients``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from harness import VIRTUAL, run_forked
from harness.places import must_be_ready

pytestmark = [pytest.mark.slow, pytest.mark.native]
PROGRAM = Path(__file__).with_name("programs") / "monitored.py"
LIBRARIES = {"gpustat": "gpustat", "nvitop": "nvitop", "GPUtil": "GPUtil", "pynvml": "nvidia-ml-py"}
OPTIONS = ("--driver", "virtual", "--devices", "2", "--gpu", "h200", "--with-nvidia-smi")


def test_monitors_show_the_virtual_gpu(tmp_path: Path) -> None:
    missing = [package for name, package in LIBRARIES.items() if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (the extra 'clients' has them)")
    must_be_ready(VIRTUAL)
    done = run_forked(
        "-m", "torchdevice_cuda", *OPTIONS, PROGRAM, environment={"TORCHDEVICE_RUNTIME_DIR": str(tmp_path)}
    )
    found = json.loads(done.out)
    assert "(256M)" in found["gpustat"]
    assert "256.0MiB / 139.8GiB" in found["nvitop"]
    assert found["GPUtil"] == "[('NVIDIA H200', 0.0), ('NVIDIA H200', 256.0)]\n"
    assert found["users"] == [[True, 256 << 20]]
    assert found["used"] == 256 << 20
    assert [found["power"], found["third"]] == ["Not Supported", "Invalid Argument"]
