"""Ctrl-C during a build: one line, exit status 130, and nothing is left but the file that builders lock."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import clean_environment
from integrations.test_pytest_plugin import NAMED

from torchdevice_cuda.native import build

from .compilers import Bench
from .test_build_failures import HANGING, are_running, wait_until

LINE = str(build.BuildInterrupted())
OURS = ("-m", "torchdevice_cuda", "--driver", "virtual")
PYTEST = ("-m", "pytest", *NAMED, "-c", "/dev/null", "-p", "no:cacheprovider", "--torchdevice")
COMMANDS = {
    "a program": (*OURS, "-c", "import torch"),
    "a module": (*OURS, "-m", "torch.utils.collect_env"),
    "--info": (*OURS, "--info"),
    "--build": (*OURS, "--build"),
    "native.build": ("-m", "torchdevice_cuda.native.build"),
    "pytest": (*PYTEST, "--torchdevice-driver", "virtual", "."),
    "the shim": ("-c", "import torch"),
}
#: The shim never goes on without CUDA here, whatever it may do elsewhere.
SHIM = {"TORCHDEVICE_AUTO": "try", "TORCHDEVICE_BUILD": "1", "TORCHDEVICE_DRIVER": "virtual"}


def interrupt(command: tuple[str, ...], pids: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Interrupt a command when it has started compilers; return its status, output and errors."""
    errors = pids.with_name("errors")
    with open(errors, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command], env=environment, cwd=pids.parent, stdout=subprocess.PIPE, stderr=file
        )
        try:
            assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) >= 2), errors.read_text()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    return process.returncode, out.decode(), errors.read_text()


@pytest.mark.parametrize("how", COMMANDS)
def test_an_interrupted_build(how: str, bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    environment = {**clean_environment(), **bench.environment(HANGING), "PIDS": str(pids)}
    if how == "the shim":
        folder = Path(build.__file__).parents[1] / "children"
        environment |= {**SHIM, "PYTHONPATH": f"{folder}:{environment['PYTHONPATH']}"}
    status, out, err = interrupt(COMMANDS[how], pids, environment)
    first, *rest = err.splitlines()
    assert status == 130 and out == "", (status, out, err)
    assert "building the native device" in first, err
    assert [line.partition(": ")[2] for line in rest if LINE in line] == [LINE] and rest[-1].endswith(LINE), err
    assert all(line.startswith(("torchdevice_cuda: ", "torchdevice-cuda")) for line in rest), err
    assert wait_until(lambda: not are_running(pids)), are_running(pids)
    assert [path.name for path in bench.cache.rglob("*") if path.is_file()] == ["lock"]
    assert len(list(bench.cache.rglob("*"))) == 2


def test_waiting_for_another_build_is_interrupted(bench: Bench, tmp_path: Path) -> None:
    """The one that builds goes on."""
    pids = tmp_path / "pids"
    environment = {**clean_environment(), **bench.environment(HANGING), "PIDS": str(pids)}
    command = [sys.executable, "-m", "torchdevice_cuda.native.build"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as builder:
        try:
            assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) >= 2)
            with (
                open(tmp_path / "errors", "wb") as file,
                subprocess.Popen(command, env=environment, stderr=file) as one,
            ):
                assert wait_until(lambda: "waiting for it" in (tmp_path / "errors").read_text())
                one.send_signal(signal.SIGINT)
                assert one.wait(30) == 130
            assert (tmp_path / "errors").read_text().splitlines()[-1].endswith(LINE)
            assert builder.poll() is None and are_running(pids)
        finally:
            builder.send_signal(signal.SIGINT)
            builder.wait(30)
