"""Monitors of running programs: ``nvidia-smi`` on their path, NVML's bindings, torch's own functions."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, in_child, run, run_forked
from harness.processes import clean_environment

import torchdevice_cuda

BINDING = Path(__file__).with_name("binding")
MIB = 1 << 20
PLACES = (CPU, VIRTUAL.with_settings(devices=2, gpu="h200"), MPS_FAITHFUL.rarely())


def smi(*words: str) -> tuple[int, str]:
    done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def watched() -> dict[str, Any]:
    """A program that holds 64 MiB of the last device asks everyone, and again when it holds nothing."""
    device = torch.cuda.device_count() - 1
    held = torch.full((16 * MIB,), 1.0, device=f"cuda:{device}")
    sys.path.insert(0, str(BINDING))
    import pynvml

    found: dict[str, Any] = {
        "pid": os.getpid(),
        "uuid": f"GPU-{torch.cuda.get_device_properties(device).uuid}",
        "reserved": torch.cuda.memory_reserved(device),
        "smi": smi("--query-gpu=index,uuid,memory.used,memory.total", "--format=csv,noheader,nounits"),
        "users": smi("--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader"),
        "list": smi("-L"),
        "listed": torch.cuda.list_gpu_processes(device),
        "torch": torch.cuda.utilization(device),
        "uninitialised": pynvml.filled("nvmlDeviceGetCount_v2", ctypes.c_uint)[0],
        "init": pynvml.load().nvmlInitWithFlags(0),
        "missing": pynvml.handle(99)[0],
    }
    handle = pynvml.handle(device)[1]
    found["name"] = pynvml.text("nvmlDeviceGetName", handle)[1] == torch.cuda.get_device_name(device)
    found["nvml uuid"] = pynvml.text("nvmlDeviceGetUUID", handle)[1]
    found["nvml users"] = pynvml.processes(handle)
    found["nvml used"] = pynvml.filled("nvmlDeviceGetMemoryInfo", pynvml.Memory, handle)[1].used
    found["fan"] = pynvml.error(pynvml.filled("nvmlDeviceGetFanSpeed", ctypes.c_uint, handle)[0])
    if os.fork() == 0:
        del held  # what a forked child drops its parent still holds
        os._exit(0)
    os.wait()
    found["after fork"] = pynvml.processes(handle)[2]
    del held
    torch.cuda.empty_cache()
    found["after"] = pynvml.processes(handle)[2]
    path = os.environ["PATH"]
    torchdevice_cuda.deactivate()
    found["path"] = [path.split(os.pathsep)[1:] == os.environ["PATH"].split(os.pathsep), pynvml.CDLL is ctypes.CDLL]
    found["files"] = os.listdir(os.environ["TORCHDEVICE_RUNTIME_DIR"])
    return found


@pytest.mark.parametrize("where", [pytest.param(each, marks=each.marks, id=str(each)) for each in PLACES])
def test_a_program_that_holds_memory_is_seen(where: ChildConfig, tmp_path: Path) -> None:
    found = in_child(watched, where.with_settings(nvidia_smi=True).within(TORCHDEVICE_RUNTIME_DIR=str(tmp_path)))
    pid, uuid = found["pid"], found["uuid"]
    counts_exactly = where.driver == "virtual"
    status, text = found["smi"]
    rows = [line.split(", ") for line in text.splitlines()]
    assert status == 0
    assert [row[0] for row in rows] == [str(index) for index in range(len(rows))]
    assert rows[-1][1] == uuid
    held = int(rows[-1][2])
    assert held == 64 if counts_exactly else held >= 64
    assert found["users"] == [0, f"{pid}, {uuid}, {held} MiB\n"] or not counts_exactly
    assert f"(UUID: {uuid})" in found["list"][1]
    assert f"process {pid:>10d} uses" in found["listed"]
    assert 0 <= found["torch"] <= 100
    assert [found["uninitialised"], found["init"], found["missing"]] == [1, 0, 2]
    assert found["name"]
    assert found["nvml uuid"] == uuid
    short, code, users = found["nvml users"]
    assert [short, code] == [7, 0]
    assert [user[0] for user in users] == [pid]
    assert found["nvml used"] == users[0][1] >= 64 * MIB or not counts_exactly
    assert found["fan"] == "Not Supported"
    if counts_exactly:
        assert users == found["after fork"] == [[pid, found["reserved"]]]
        assert found["after"] == []
    assert found["path"] == [True, True]
    assert found["files"] == []


KILLED = (
    "import os, torch; x = torch.ones(1 << 20, device='cuda'); print(os.getpid(), flush=True); os.kill(os.getpid(), 9)"
)
QUERY = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")


def test_a_process_that_was_killed_is_not_shown_and_its_file_goes(tmp_path: Path) -> None:
    here = {"TORCHDEVICE_RUNTIME_DIR": str(tmp_path)}
    options = ("-m", "torchdevice_cuda", "--driver", "cpu")
    killed = run([sys.executable, *options, "-c", KILLED], environment=clean_environment(**here))
    (left,) = tmp_path.glob(f"{int(killed.out)}-*.gpu")
    # Another process may have been given the number since.
    other = tmp_path / f"{os.getpid()}.gpu"
    other.write_bytes(left.read_bytes().replace(f'"pid": {int(killed.out)}'.encode(), f'"pid": {os.getpid()}'.encode()))
    (tmp_path / "1.gpu").write_bytes(b"not one of ours")
    assert run_forked(*options, *QUERY, environment=here).out == ""
    assert not left.exists()
    assert not other.exists()


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    options = ("-m", "torchdevice_cuda", "--driver", "cpu", "--log-level", "INFO")
    here = {"TORCHDEVICE_RUNTIME_DIR": str(folder)}
    done = run_forked(*options, "-c", "import torch; print(torch.ones(1, device='cuda').item())", environment=here)
    assert done.out == "1.0\n"
    assert f"{folder} can be written by others" in done.err
    assert not list(folder.iterdir())
